// Lets Node load TypeScript.
import '@swc-node/register/esm-register';

/**
 * Before all tests: a PostgreSQL for them, unless `TEST_DATABASE_URL` names one, and a database with all migrations. With
 * `TEST_ENGINE=citus`, they use the cluster of `CITUS_URL`.
 */
export default async function start() {
  if (process.env.TEST_ENGINE === 'citus') {
    if (!process.env.CITUS_URL) {
      throw new Error('CITUS_URL must name a cluster (CONTRIBUTING.md).');
    }
    process.env.TEST_DATABASE_URL = process.env.CITUS_URL;
  }
  if (!process.env.TEST_DATABASE_URL) {
    const { Postgres } = await import('./postgres.js');
    // pg keeps a connection without a password open. Until the server closes it, it keeps `drop database` waiting.
    globalThis.testPostgres = await Postgres.start(['authentication_timeout=5s']);
    process.env.TEST_DATABASE_URL = globalThis.testPostgres.url;
  }
  const { createTemplate } = await import('./database.js');
  globalThis.testTemplate = await createTemplate();
}
