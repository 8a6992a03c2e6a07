import { randomBytes } from 'node:crypto';
import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { EmbeddedPostgres } from '../../dist/src/embedded-postgres/embedded-postgres.js';

/** Before all tests: a PostgreSQL for them, unless `TEST_DATABASE_URL` names one. */
export default async function start() {
  if (!process.env.TEST_DATABASE_URL) {
    const folder = await mkdtemp(join(tmpdir(), 'animal-store-test-'));
    const server = await EmbeddedPostgres.start(folder);
    process.env.TEST_DATABASE_URL = server.url;
    globalThis.testPostgres = { server, folder };
    // Its data need not survive the machine.
    await query('alter system set fsync = off');
    await query('select pg_reload_conf()');
  }
  // The database that the tests' databases are copies of. The first test that needs it makes it.
  process.env.TEST_TEMPLATE = `test_template_${randomBytes(6).toString('hex')}`;
}

export async function query(sql) {
  const client = new pg.Client({ connectionString: process.env.TEST_DATABASE_URL });
  await client.connect();
  await client.query(sql).finally(() => client.end());
}
