import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { type AddressInfo, connect as connectSocket, createServer, Socket } from 'node:net';
import { join } from 'node:path';
import { Client, Pool, type PoolClient } from 'pg';
import { administerKeys } from '../../src/auth/api-keys.js';
import { readEnvironment } from '../../src/config/environment.js';
import { administer, connectToServe } from '../../src/database/connect.js';
import { poolOf, servingDataSource, standbyPool } from '../../src/database/data-source.js';
import { DATABASE_LIMITS } from '../../src/database/limits.js';
import { END_SESSIONS, ServingPool } from '../../src/database/pool.js';
import { connectingTo, writableOf } from '../../src/database/servers.js';
import { requiredSettings } from '../../src/database/settings.js';
import { run, type SessionSource, statements } from '../../src/database/statement.js';
import { NoSessionError, reasonOf } from '../../src/errors/database-error.js';
import { OperatorError } from '../../src/errors/operator-error.js';
import { query } from '../support/ask.js';
import { createMigratedDatabase, dropDatabase } from '../support/database.js';
import { temporaryFolder } from '../support/temporary-folder.js';
import { until } from '../support/until.js';

/** AuthenticationOk, ReadyForQuery, and the ErrorResponse to a session that is terminated (PostgreSQL, section 55.7). */
const GREETING = 'R\0\0\0\x08\0\0\0\0' + 'Z\0\0\0\x05I';
const GREETING_AND_END = GREETING + 'E\0\0\0\x1fSFATAL\0C57P01\0Mterminated\0\0';

/** Expects that no session with the database is open, soon: a pool would keep an idle one for ten seconds. */
async function expectNoSession(url: string): Promise<void> {
  const { pathname } = new URL(url);
  const open = `select from pg_stat_activity where datname = '${pathname.slice(1)}'`;
  const isClosed = async () => (await query(process.env['TEST_DATABASE_URL']!, open)).length === 0;
  await until('no session is open', isClosed, { seconds: 5 });
}

describe('ServingPool', () => {
  const urls = [process.env['TEST_DATABASE_URL']!];

  it.each([
    ['says nothing', ''],
    ['greets, and then says nothing', GREETING],
  ])(
    'gives up a session with a server that %s',
    async (_what, greeting) => {
      const server = createServer((socket) => {
        socket.on('error', () => {}).once('data', () => socket.write(greeting, 'latin1'));
      }).listen(0, '127.0.0.1');
      await once(server, 'listening');
      const url = `postgres://x@127.0.0.1:${(server.address() as AddressInfo).port}/x`;
      const pool = new ServingPool(connectingTo({ urls: [url], timeout: 100 }));
      await expect(pool.connect()).rejects.toThrow(NoSessionError);
      await pool.end();
      server.close();
    },
    30_000,
  );

  it('leaves no connection open on which TLS cannot begin', async () => {
    const key = join(await temporaryFolder(), 'key');
    await writeFile(key, 'no key');
    // It agrees to TLS.
    const server = createServer((socket) => {
      socket.on('error', () => {}).once('data', () => socket.write('S'));
    }).listen(0, '127.0.0.1');
    const connected = once(server, 'connection') as Promise<[Socket]>;
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    const url = `postgres://x@127.0.0.1:${port}/x?sslmode=no-verify&sslcert=${key}&sslkey=${key}`;
    const pool = new ServingPool(connectingTo({ urls: [url], timeout: 60_000 }));
    await expect(pool.connect()).rejects.toThrow(NoSessionError);
    const [socket] = await connected;
    await until('it is closed', () => socket.destroyed, { seconds: 30 });
    await pool.end();
    server.close();
  });

  it('with several servers, also leaves a read-only one with the session that found it out', async () => {
    const target = 'read-write' as const;
    const config = { ...connectingTo({ urls, timeout: 10_000, target }), idleTimeoutMillis: 0 };
    const pool = new ServingPool({ ...config, max: 2 });
    const session = await pool.connect();
    await session.query('set default_transaction_read_only = on');
    const ended = once(session, 'end');
    pool.leaveReadOnly();
    session.release();
    await ended;
    await pool.end();
  });

  it('serves by a session that exists if the time to open another one is over', async () => {
    const pool = new ServingPool({ ...connectingTo({ urls, timeout: 10_000 }), max: 2 });
    const session: PoolClient = await pool.connect();
    session.release();
    const error = new Error('timeout exceeded when trying to connect');
    const connect = jest.spyOn(Pool.prototype, 'connect').mockRejectedValueOnce(error as never);
    expect(await pool.connect()).toBe(session);
    expect(connect).toHaveBeenCalledTimes(2);
    connect.mockRestore();
    session.release();
    await pool.end();
    await expect(pool.connect()).rejects.toThrow(NoSessionError);
  });

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

  it('has no session while others use all, for three seconds, or after its end', async () => {
    // The session is in use for longer than the test may take.
    const config = { ...connectingTo({ urls, timeout: 1_000 }), max: 1, use: 600_000 };
    const pool = new ServingPool(config);
    const session = await pool.connect();
    await expect(pool.connect()).rejects.toThrow(NoSessionError);
    session.release();
    // The one who waited in vain has it no more.
    (await pool.connect()).release();
    await pool.end();
    await expect(pool.connect()).rejects.toThrow(NoSessionError);
  });

  describe('with shares', () => {
    let pool: ServingPool;
    afterEach(() => pool.end());

    /** A pool of this size, and its shares by name. A module follows a colon. */
    function poolOfShares(max: number, names: string[]) {
      pool = new ServingPool({ ...connectingTo({ urls, timeout: 1_000 }), max, use: 600_000 });
      const all = () => names.map((name) => pool.share(...(name.split(':') as [string, string?])));
      const shares = all();
      // Lanes that ask for the same name have one share.
      expect(all()).toEqual(shares);
      return shares;
    }

    /** Takes as many as the share gets at once, in the order of the shares. @returns how many each has, and all. */
    async function takeAll(shares: SessionSource[]) {
      const sessions: PoolClient[] = [];
      const counts: number[] = [];
      const pending: Promise<PoolClient>[] = [];
      for (const share of shares) {
        const before = sessions.length;
        while (pool.waiting.size === pending.length) {
          const session = share.connect();
          if (pool.waiting.size > pending.length) {
            pending.push(session);
            break;
          }
          sessions.push(await session);
        }
        counts.push(sessions.length - before);
      }
      return { counts, sessions, pending };
    }

    /** Returns the sessions, also those that are given then. */
    async function release(sessions: PoolClient[], pending: Promise<PoolClient>[]) {
      sessions.forEach((session) => session.release());
      await Promise.all(pending.map(async (session) => (await session).release()));
      expect([...pool.shares.values()].map(({ inUse }) => inUse)).toEqual(
        [...pool.shares].map(() => 0),
      );
    }

    const PETS = ['reads:pets', 'creates:pets', 'keyed:pets'];
    const NAMES = [...PETS, 'orders', 'keys', 'health'];

    // With that of TypeORM, there are seven.
    it.each([
      [10, [4, 1, 1, 1, 1, 1]],
      [7, [1, 1, 1, 1, 1, 1]],
      // Each module leaves one to others: all but the first have none then.
      [6, [5, 0, 0, 1, 0, 0]],
      [5, [4, 0, 0, 1, 0, 0]],
      [3, [2, 0, 0, 1, 0, 0]],
      [2, [1, 0, 0, 1, 0, 0]],
    ])('of %d sessions, they get %j if all take as many as they can', async (size, expected) => {
      const shares = poolOfShares(size, NAMES);
      const { counts, sessions, pending } = await takeAll(shares);
      expect(counts).toEqual(expected);
      await release(sessions, pending);
    });

    it.each([2, 3, 5, 6, 7, 10])(
      'of %d sessions, each module finds one while another one takes all that it can',
      async (size) => {
        const shares = poolOfShares(size, NAMES);
        for (const greedy of [shares.slice(0, 3), [shares[3]!], [pool as SessionSource]]) {
          const { sessions, pending } = await takeAll(greedy);
          for (const share of [...shares, pool].filter((one) => !greedy.includes(one))) {
            if (!(greedy.length === 3 && shares.indexOf(share as any) in [0, 1, 2])) {
              (await share.connect()).release();
            }
          }
          await release(sessions, pending);
        }
      },
    );

    it('gives a session that is free again to the first who may have it', async () => {
      const [reads, , , orders] = poolOfShares(2, NAMES) as SessionSource[];
      const order: string[] = [];
      const use = async (share: SessionSource, name: string) => {
        const session = await share.connect();
        order.push(name);
        return session;
      };
      const held = await use(reads!, 'read');
      const second = use(reads!, 'second read');
      (await use(orders!, 'order')).release();
      expect(order).toEqual(['read', 'order']);
      held.release();
      (await second).release();
      expect(order).toEqual(['read', 'order', 'second read']);
    });

    it('has a share wait no longer for ever: an error of the server is told, and returns its place', async () => {
      pool = new ServingPool({
        ...connectingTo({ urls: ['postgres://127.0.0.1:1/x'], timeout: 1_000 }),
      });
      const share = pool.share('one');
      const attempts = await Promise.allSettled([share.connect(), share.connect(), pool.connect()]);
      expect(attempts.map((one) => one.status === 'rejected' && one.reason)).toEqual(
        attempts.map(() => expect.any(NoSessionError)),
      );
      expect([...pool.shares.values()].map(({ inUse }) => inUse)).toEqual([0, 0]);
    });
  });

  it('ends a session that is in use for too long once, or with the next one if that fails, with the rights of who logged in, and no new one with its process id', async () => {
    // A role that may not end it is set.
    const as = `${urls[0]}?options=-c%20role%3Dpg_monitor`;
    const pool = new ServingPool({
      ...connectingTo({ urls: [as], timeout: 1_000, settings: {} }),
      use: 3_000,
    });
    const [hanging, fresh] = [await pool.connect(), await pool.connect()];
    // One that had its process id was closed a minute ago.
    await run(fresh, END_SESSIONS, [[fresh.processID], [60_000]]);
    await fresh.query('select 1');
    // None is left with which to end the first one.
    const away = new NoSessionError('All are in use');
    jest.spyOn(pool.share('others'), 'connect').mockRejectedValueOnce(away);
    const both = [hanging, fresh];
    const sleep = async (session: PoolClient) => {
      await expect(session.query('select pg_sleep(120)')).rejects.toThrow('over 3000 ms');
      session.release(true);
    };
    await Promise.all(both.map(sleep));
    const isThere = `select from pg_stat_activity where pid in (${both.map(({ processID }) => processID)})`;
    await until('they have ended', () => query(urls[0]!, isThere), {
      holds: (rows) => !rows.length,
      seconds: 60,
    });
    await until('no session is in use', () => pool.totalCount - pool.idleCount, {
      holds: (count) => count === 0,
    });
    await pool.end();
  });

  it('does not end a session behind a pooler, whose process ids are its own', async () => {
    const names: string[] = [];
    statements.observe = (name) => names.push(name);
    // Who asks first has the session first.
    const pool = new ServingPool({ ...connectingTo({ urls, timeout: 1_000 }), max: 1, use: 100 });
    const session = await pool.connect();
    await expect(session.query('select pg_sleep(20)')).rejects.toThrow('over 100 ms');
    session.release(true);
    (await pool.connect()).release();
    expect(names).toEqual([]);
    statements.observe = undefined;
    await pool.end();
  });

  it('keeps the search path of a session as it was opened, however often the session proves that it responds', async () => {
    const url = await createMigratedDatabase();
    const config = connectingTo({ urls: [url], timeout: 1_000, settings: {} });
    const pool = new ServingPool(config);
    const session = await pool.connect();
    const path = async () => (await session.query('show search_path')).rows;
    const opened = await path();
    expect(opened).toEqual([{ search_path: expect.stringMatching(/^public, /) }]);
    await Promise.resolve(config.onConnect!(session));
    expect(await path()).toEqual(opened);
    session.release();
    await pool.end();
    await dropDatabase(url);
  });

  it('leaves a server that refuses sessions for the next one, however many were refused at once', async () => {
    const refusing = createServer((socket) => socket.destroy()).listen(0, '127.0.0.1');
    await once(refusing, 'listening');
    const { port } = refusing.address() as AddressInfo;
    const refused = `postgres://127.0.0.1:${port}/x`;
    for (const count of [1, 2, 3, 4]) {
      const servers = [refused, urls[0]!, refused];
      const pool = new ServingPool(connectingTo({ urls: servers, timeout: 10_000 }));
      const connect = () => Promise.allSettled(Array.from({ length: count }, () => pool.connect()));
      // Some of these may already get a session of the next server.
      const sessions = [...(await connect()), ...(await connect())];
      const statuses = sessions.slice(count).map(({ status }) => status);
      expect(statuses).toEqual(statuses.map(() => 'fulfilled'));
      sessions.forEach((one) => one.status === 'fulfilled' && one.value.release());
      await pool.end();
    }
    refusing.close();
  });

  const primary = async () => {
    const environment = readEnvironment({ DATABASE_URL: urls[0]!, DATABASE_POOL_SIZE: '2' });
    return poolOf(await servingDataSource(urls[0]!, environment).initialize());
  };
  const POOLS: [string, () => Promise<Pool>][] = [
    ['the primary', primary],
    ['a standby', async () => standbyPool(urls[0]!, 2)],
  ];

  it.each(POOLS)(
    'notices within 10 seconds of silence, by TCP, that %s has gone, keeps sessions open, no more than it may, and lets the process end',
    async (_which, create) => {
      const keepAlive = jest.spyOn(Socket.prototype, 'setKeepAlive');
      const pool = await create();
      (await pool.connect()).release();
      expect(keepAlive.mock.calls).toEqual(keepAlive.mock.calls.map(() => [true, 10_000]));
      expect(keepAlive).toHaveBeenCalled();
      expect(pool.options.min).toBeGreaterThan(1);
      expect(pool.options).toMatchObject({ max: 2, allowExitOnIdle: true });
      await pool.end();
      keepAlive.mockRestore();
    },
  );

  it('has a command notice it, too', async () => {
    const keepAlive = jest.spyOn(Socket.prototype, 'setKeepAlive');
    await administer(urls[0]!, (dataSource) => dataSource.query('select 1'));
    expect(new Set(keepAlive.mock.calls.map(String))).toEqual(new Set(['true,10000']));
    keepAlive.mockRestore();
  });

  it.each(POOLS)(
    'gives sessions with %s their name and settings, and outlives their ends while they are idle',
    async (_which, create) => {
      // A busy machine may open one late.
      const standby = jest.replaceProperty(DATABASE_LIMITS, 'standby', 5_000 as 250);
      const pool = await create();
      const expected = { ...requiredSettings(), application_name: 'animal-store' };
      const sql =
        'select name, setting, pg_backend_pid() as pid from pg_settings where name = any($1)';
      const { rows } = await pool.query(sql, [Object.keys(expected)]);
      expect(Object.fromEntries(rows.map(({ name, setting }) => [name, setting]))).toEqual(
        expected,
      );
      await query(urls[0]!, `select pg_terminate_backend(${rows[0].pid})`);
      await until('it is closed', () => pool.totalCount === 0);
      await pool.end();
      standby.restore();
    },
  );

  it('has a read wait for a session with a standby no longer than it may take', async () => {
    const waiting = jest.replaceProperty(DATABASE_LIMITS as { waiting: number }, 'waiting', 60_000);
    const standby = jest.replaceProperty(DATABASE_LIMITS, 'standby', 1_000 as 250);
    const pool = standbyPool(urls[0]!, 1);
    const session = await pool.connect();
    const used = expect(session.query('select pg_sleep(20)')).rejects.toThrow('over 1000 ms');
    await expect(pool.connect()).rejects.toThrow(NoSessionError);
    await used;
    session.release(true);
    await pool.end();
    [waiting, standby].forEach((limit) => limit.restore());
  }, 30_000);
});

describe('writableOf', () => {
  it('leaves no session open, which a command would wait for at its end', async () => {
    const url = await createMigratedDatabase();
    expect(await writableOf([url])).toBe(url);
    await expectNoSession(url);
    await dropDatabase(url);
  });

  it('says why none of the servers is used, each reason once', async () => {
    const url = new URL(process.env['TEST_DATABASE_URL']!);
    const missing = Object.assign(new URL(url), { pathname: '/missing' }).href;
    const closed = Object.assign(new URL(url), { port: '1' }).href;
    const refused = await writableOf([missing, closed, missing]).catch((error) => error);
    expect(reasonOf(refused).split('; ')).toEqual([
      'database "missing" does not exist',
      expect.stringMatching(/^connect ECONNREFUSED .+:1$/),
    ]);
  });
});

describe('administer', () => {
  afterEach(() => jest.restoreAllMocks());

  it('has two sessions with no limit on the time of a statement, but on the wait for a lock, and says what shows who holds it', async () => {
    const url = await createMigratedDatabase();
    const alter = `alter database ${new URL(url).pathname.slice(1)} set`;
    await query(url, `${alter} statement_timeout = '1min'`, `${alter} datestyle = 'German'`);
    const expected = {
      statement_timeout: '0',
      lock_timeout: '10000',
      // A policy would hide rows.
      row_security: 'off',
      DateStyle: expect.stringMatching(/^ISO/),
      application_name: 'animal-store',
    };
    const settings =
      'select name, setting, pg_backend_pid() as pid from pg_settings where name = any($1)';
    const found: any[] = await administer(url, (dataSource) =>
      Promise.all([1, 2, 3, 4].map(() => dataSource.query(settings, [Object.keys(expected)]))),
    );
    for (const rows of found) {
      expect(Object.fromEntries(rows.map((row: any) => [row.name, row.setting]))).toEqual(expected);
    }
    expect(new Set(found.map(([{ pid }]) => pid)).size).toBeLessThanOrEqual(2);
    await expectNoSession(url);
    jest.replaceProperty(DATABASE_LIMITS as { command: number }, 'command', 500);
    const locker = new Client({ connectionString: url });
    await locker.connect();
    await locker.query('begin; lock table api_keys');
    await expect(administerKeys(url, (keys) => keys.list())).rejects.toEqual(
      expect.objectContaining({ message: expect.stringContaining('animal-store check') }),
    );
    await locker.end();
    await dropDatabase(url);
  });
});

describe('connectToServe', () => {
  it('takes PostgreSQL from version 14 on, and a role that may use a schema', async () => {
    const url = await createMigratedDatabase();
    const path = `alter database ${new URL(url).pathname.slice(1)} set search_path =`;
    // It is found before PostgreSQL's own.
    await query(
      url,
      `create function current_setting(name text) returns text language sql as
         $$select case name when 'server_version_num' then '140000' else pg_catalog.current_setting(name) end$$`,
      `${path} public, pg_catalog`,
    );
    const environment = readEnvironment({ DATABASE_URL: url });
    await (await connectToServe(url, environment)).destroy();
    await query(url, `${path} nowhere`);
    const refused = connectToServe(url, environment);
    await expect(refused).rejects.toThrow('may use no schema of its search_path, which is nowhere');
    await dropDatabase(url);
  });

  it.each([
    ['a worker of Citus', 1, {}, 'is a worker of Citus'],
    [
      'a coordinator of Citus with standbys',
      0,
      { DATABASE_READ_URL: 'postgres://127.0.0.1:1/x' },
      'so DATABASE_READ_URL must not be set',
    ],
  ])('rejects %s, and leaves no session open', async (_what, group, variables, message) => {
    const url = await createMigratedDatabase();
    await query(url, `create table pg_dist_local_group as select ${group} as groupid`);
    const refused = connectToServe(url, readEnvironment({ DATABASE_URL: url, ...variables }));
    await expect(refused).rejects.toBeInstanceOf(OperatorError);
    await expect(refused).rejects.toThrow(message);
    await expectNoSession(url);
    await dropDatabase(url);
  });

  it('tries again while the database refuses sessions that serve requests', async () => {
    const target = new URL(process.env['TEST_DATABASE_URL']!);
    let sessions = 0;
    // The first one is of the command that looks for Citus.
    const server = createServer((client) => {
      sessions += 1;
      if (sessions > 1 && sessions < 6) {
        client.destroy();
        return;
      }
      const upstream = connectSocket(Number(target.port), target.hostname);
      client
        .on('error', () => {})
        .pipe(upstream.on('error', () => {}))
        .pipe(client);
    }).listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    const url = Object.assign(new URL(target), { host: `127.0.0.1:${port}` }).href;
    const dataSource = await connectToServe(url, readEnvironment({ DATABASE_URL: url }));
    expect(sessions).toBeGreaterThan(5);
    await dataSource.destroy();
    server.close();
  });
});
