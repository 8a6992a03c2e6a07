import { rm } from 'node:fs/promises';
import { query } from './start-postgres.js';

/** After all tests. */
export default async function stop() {
  if (globalThis.testPostgres) {
    const { server, folder } = globalThis.testPostgres;
    await server.stop();
    await rm(folder, { recursive: true, force: true });
    // With --watch, the next run starts another one.
    delete process.env.TEST_DATABASE_URL;
  } else {
    await query(`drop database if exists ${process.env.TEST_TEMPLATE}`);
  }
}
