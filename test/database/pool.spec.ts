import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { install } from '@sinonjs/fake-timers';
import type { PoolClient } from 'pg';
import { poolOf, servingDataSource } from '../../src/database/data-source.js';
import { ServingPool } from '../../src/database/pool.js';

/** AuthenticationOk, ReadyForQuery, and the ErrorResponse to a session that is terminated (PostgreSQL, section 55.7). */
const GREETING_AND_END =
  'R\0\0\0\x08\0\0\0\0' + 'Z\0\0\0\x05I' + 'E\0\0\0\x1fSFATAL\0C57P01\0Mterminated\0\0';

describe('ServingPool', () => {
  it('outlives a session that is terminated right after it was opened', async () => {
    const server = createServer((socket) => {
      socket.once('data', () => socket.end(GREETING_AND_END, 'latin1'));
    }).listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    const pool = new ServingPool({ host: '127.0.0.1', port, user: 'x', database: 'x' });
    pool.on('error', () => {});

    const client = await new Promise<PoolClient>((resolve, reject) => {
      pool.connect((error, connected) => (connected ? resolve(connected) : reject(error)));
    });

    await expect(client.query('select 1')).rejects.toThrow('connection error');
    client.release(true);
    await pool.end();
    server.close();
  });

  it('keeps four sessions open that nobody uses', async () => {
    const clock = install({ toFake: ['setTimeout', 'clearTimeout'] });
    const dataSource = await servingDataSource(process.env['TEST_DATABASE_URL']!, 6).initialize();
    try {
      const pool = poolOf(dataSource);
      const clients = await Promise.all(Array.from({ length: 6 }, () => pool.connect()));
      clients.forEach((client) => client.release());
      expect(pool.idleCount).toBe(6);
      clock.tick(3_600_000);
      expect(pool.idleCount).toBe(4);
    } finally {
      clock.uninstall();
      await dataSource.destroy();
    }
  });
});
