import { once } from 'node:events';
import { type AddressInfo, connect, createServer } from 'node:net';
import { createDatabase, dropDatabase, startService } from '../support/service.js';

describe('a start on a busy machine', () => {
  it('waits longer for its sessions than a request does', async () => {
    const url = await createDatabase();
    const { hostname, port } = new URL(url);
    let unanswered = 0;
    const slow = createServer((client) => {
      const server = connect(Number(port), hostname).on('error', () => client.destroy());
      server.pipe(client).on('error', () => server.destroy());
      client.on('data', (data) => {
        // The first session that would serve requests gets no response.
        if (data.includes('set_config') && unanswered === 0) {
          unanswered += 1;
        } else {
          server.write(data);
        }
      });
    }).listen(0, '127.0.0.1');
    await once(slow, 'listening');
    const host = `127.0.0.1:${(slow.address() as AddressInfo).port}`;
    const service = await startService({}, Object.assign(new URL(url), { host }).href);
    await service.api.get('/v1/pets').expect(200);
    await service.stop();
    slow.close();
    await dropDatabase(url);
    expect(unanswered).toBe(1);
  });
});
