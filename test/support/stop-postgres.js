import { rm } from 'node:fs/promises';

/** After all tests. */
export default async function stop() {
  if (globalThis.testPostgres) {
    const { server, folder } = globalThis.testPostgres;
    await server.stop();
    await rm(folder, { recursive: true, force: true });
  }
}
