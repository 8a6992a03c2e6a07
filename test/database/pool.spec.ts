import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { END_SESSIONS, ServingPool } from '../../src/database/pool.js';
import { connectingTo, processIdOf } from '../../src/database/servers.js';
import { run } from '../../src/database/statement.js';
import { NoSessionError } from '../../src/errors/database-error.js';
import { until } from '../support/until.js';

/** AuthenticationOk, ReadyForQuery, and the ErrorResponse to a session that is terminated (PostgreSQL, section 55.7). */
const GREETING_AND_END =
  'R\0\0\0\x08\0\0\0\0' + 'Z\0\0\0\x05I' + 'E\0\0\0\x1fSFATAL\0C57P01\0Mterminated\0\0';

describe('ServingPool', () => {
  const urls = [process.env['TEST_DATABASE_URL']!];

  it('outlives a session that is terminated right after it was opened', async () => {
    const server = createServer((socket) => {
      socket.once('data', () => socket.end(GREETING_AND_END, 'latin1'));
    }).listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    const pool = new ServingPool({ host: '127.0.0.1', port, user: 'x', database: 'x' });

    const client = await pool.connect();

    await expect(client.query('select 1')).rejects.toThrow('connection error');
    client.release(true);
    await pool.end();
    server.close();
  });

  it('has no session while others use all, which takes no longer than its time-out, or after its end', async () => {
    const pool = new ServingPool({ ...connectingTo({ urls, timeout: 1_000 }), max: 1 });
    const session = await pool.connect();
    const start = performance.now();
    await expect(pool.connect()).rejects.toThrow(NoSessionError);
    expect(performance.now() - start).toBeLessThan(1_900);
    session.release();
    await pool.end();
    await expect(pool.connect()).rejects.toThrow(NoSessionError);
  });

  it('ends a session that is in use for too long once, and no new one with its process id', async () => {
    const pool = new ServingPool({ ...connectingTo({ urls, timeout: 1_000 }), use: 1_500 });
    const [hanging, fresh] = [await pool.connect(), await pool.connect()];
    await run(pool, END_SESSIONS, [[processIdOf(fresh)]]);
    await fresh.query('select 1');
    fresh.release();
    await expect(hanging.query('select pg_sleep(20)')).rejects.toThrow('Connection terminated');
    hanging.release(true);
    await until('it is forgotten', () => pool['abandoned'].size === 0);
    await pool.end();
  });
});
