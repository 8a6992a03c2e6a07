import './typescript.js';

/** Before all tests: a PostgreSQL for them, unless `TEST_DATABASE_URL` names one, and a database with all migrations. */
export default async function start() {
  if (!process.env.TEST_DATABASE_URL) {
    const { Postgres } = await import('./postgres.js');
    globalThis.testPostgres = await Postgres.start();
    process.env.TEST_DATABASE_URL = globalThis.testPostgres.url;
  }
  const { createTemplate } = await import('./database.js');
  globalThis.testTemplate = await createTemplate();
}
