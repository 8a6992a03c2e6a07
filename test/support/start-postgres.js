import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { EmbeddedPostgres } from '../../dist/src/embedded-postgres/embedded-postgres.js';

/** Before all tests: a PostgreSQL for them, unless `TEST_DATABASE_URL` names one. */
export default async function start() {
  if (!process.env.TEST_DATABASE_URL) {
    const folder = await mkdtemp(join(tmpdir(), 'animal-store-test-'));
    const server = await EmbeddedPostgres.start(folder);
    process.env.TEST_DATABASE_URL = server.url;
    globalThis.testPostgres = { server, folder };
  }
}
