import { once } from 'node:events';
import { createServer } from 'node:net';

/** @returns a port of 127.0.0.1 that nobody listened on a moment ago. */
export async function freePort() {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = /** @type {import('node:net').AddressInfo} */ (server.address());
  server.close();
  await once(server, 'close');
  return port;
}
