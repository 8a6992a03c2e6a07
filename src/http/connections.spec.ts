import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Connections } from './connections.js';
import { until } from '../../test/support/until.js';
import { RawConnection } from '../../test/support/raw-http.js';

describe('Connections', () => {
  const server = createServer();
  const connections = new Connections(
    server,
    () => {},
    () => {},
  );
  afterAll(() => {
    connections.stopWatching();
    server.close();
  });

  it('counts the open ones, and none that has ended or vanished', async () => {
    await once(server.listen(0, '127.0.0.1'), 'listening');
    const { port } = server.address() as AddressInfo;
    const clients = await Promise.all(Array.from({ length: 10 }, () => RawConnection.open(port)));
    await until('all are accepted', () => connections.count === clients.length);
    clients.forEach((client, i) => (i % 2 === 0 ? client.vanish() : client.halfClose()));
    await until('all are closed', () => connections.count === 0, 10);
  });
});
