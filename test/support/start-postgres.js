// Lets Node load TypeScript.
import '@swc-node/register/esm-register';

/** Before all tests: a PostgreSQL for them, unless `TEST_DATABASE_URL` names one, and a database with all migrations. */
export default async function start() {
  if (!process.env.TEST_DATABASE_URL) {
    const { Postgres } = await import('./postgres.js');
    // pg keeps a connection without a password open. Until the server closes it, it keeps `drop database` waiting.
    globalThis.testPostgres = await Postgres.start(['authentication_timeout=5s']);
    process.env.TEST_DATABASE_URL = globalThis.testPostgres.url;
  }
  const { createTemplate } = await import('./database.js');
  globalThis.testTemplate = await createTemplate();
}
