import { EventEmitter } from 'node:events';
import type { Pool, PoolClient } from 'pg';
import { SessionShare } from '../../src/database/session-share.js';
import { NoSessionError } from '../../src/errors/database-error.js';

describe('SessionShare', () => {
  /** Of three sessions, two are for it. */
  function shareOf(connect: () => Promise<PoolClient>) {
    const pool = Object.assign(new EventEmitter(), { size: 3, connect });
    const share = new SessionShare(pool as unknown as Pool);
    const release = (session: PoolClient) => void pool.emit('release', undefined, session);
    return { share, release };
  }
  const open = async () => ({}) as PoolClient;

  it('leaves one session to others, and gives each to the next that waits, unless it has given up', async () => {
    const { share, release } = shareOf(open);
    const [first, second] = [await share.connect(), await share.connect()];
    await expect(share.connect()).rejects.toThrow(NoSessionError);
    const waiting = share.connect();
    release(first);
    const third = await waiting;
    [second, third].forEach(release);
    await Promise.all([share.connect(), share.connect()]);
  });

  it('has as many as before after sessions that could not be opened', async () => {
    const connect = jest.fn(open);
    const { share } = shareOf(connect);
    for (let i = 0; i < 3; i += 1) {
      connect.mockRejectedValueOnce(new NoSessionError('none'));
      await expect(share.connect()).rejects.toThrow('none');
    }
    await Promise.all([share.connect(), share.connect()]);
  });
});
