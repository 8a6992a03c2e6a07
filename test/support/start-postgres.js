import { randomBytes } from 'node:crypto';
import './typescript.js';

/** Before all tests: a PostgreSQL for them, unless `TEST_DATABASE_URL` names one. */
export default async function start() {
  if (!process.env.TEST_DATABASE_URL) {
    const { Postgres } = await import('./postgres.js');
    globalThis.testPostgres = await Postgres.start();
    process.env.TEST_DATABASE_URL = globalThis.testPostgres.url;
  }
  // The database that the tests' databases are copies of. The first test that needs it makes it.
  process.env.TEST_TEMPLATE = `test_template_${randomBytes(6).toString('hex')}`;
}
