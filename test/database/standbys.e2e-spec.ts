import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { Client, type PoolClient } from 'pg';
import { onDatabase } from '../../src/cli/command.js';
import { readEnvironment } from '../../src/config/environment.js';
import { servingDataSource } from '../../src/database/data-source.js';
import { DATABASE_LIMITS } from '../../src/database/limits.js';
import { OperatorError } from '../../src/errors/operator-error.js';
import { cursorAfter } from '../../src/listing/cursors.js';
import { runMigrations } from '../../src/schema/migrations.js';
import { PRIMARY_POSITION, Standbys } from '../../src/standbys/standbys.js';
import { expectError } from '../support/answers.js';
import { ask } from '../support/ask.js';
import { runHere } from '../support/command.js';
import { describeWith } from '../support/describe-with.js';
import { FULL_LENGTH } from '../support/full-length.js';
import { createGrantedRole, roleOf } from '../support/granted-role.js';
import { Postgres, systemBinaries } from '../support/postgres.js';
import { startService, type TestService } from '../support/service.js';
import { until } from '../support/until.js';

/** In the short run, transitions matter more than what is between them. */
const [CLIENTS, PETS_OF_EACH] = FULL_LENGTH ? [100, 10] : [10, 3];

const BINARIES = await systemBinaries();

/** A primary with all migrations and hot standbys of it, and services that read on these. */
class Cluster {
  readonly services: TestService[] = [];

  private constructor(
    readonly primary: Postgres,
    readonly standbys: Postgres[],
  ) {}

  static async start(standbys: number): Promise<Cluster> {
    const primary = await Postgres.start(['wal_keep_size=1GB'], BINARIES!);
    await runMigrations(primary.url);
    const copies = Array.from({ length: standbys }, () => primary.standby());
    return new Cluster(primary, await Promise.all(copies));
  }

  /** The URL of several servers. */
  at(...ports: number[]): string {
    const hosts = ports.map((port) => `127.0.0.1:${port}`).join();
    return this.primary.url.replace(/@[^/]*/, `@${hosts}`);
  }

  /** All servers are in `DATABASE_URL`, and all standbys in `DATABASE_READ_URL`. */
  async serve(count: number): Promise<void> {
    const role = await createGrantedRole(this.primary.url);
    await ask(this.primary.url, `grant pg_read_all_stats to ${roleOf(this.primary.url)}`);
    const as = (url: string) => url.replace(/\/\/[^@]*@/, /\/\/[^@]*@/.exec(role)![0]);
    const ports = this.standbys.map(({ port }) => port);
    const variables = {
      DATABASE_URL: as(`${this.at(this.primary.port, ...ports)}?target_session_attrs=read-write`),
      DATABASE_READ_URL: as(this.at(...ports)),
      METRICS_PORT: '0',
    };
    for (let i = 0; i < count; i += 1) {
      this.services.push(await startService(variables, role, { owner: this.primary.url }));
    }
  }

  /** Waits until so many standbys serve reads of each service. */
  async inUse(count: number): Promise<void> {
    const states = () =>
      Promise.all(this.services.map(async (one) => (await readiness(one)).standbysInUse ?? 0));
    const holds = (all: number[]) => all.every((one) => one === count);
    await until(`${count} standbys are in use`, states, { holds });
  }

  async stop(): Promise<void> {
    await Promise.all(this.services.map((service) => service.stop()));
    await Promise.all([...this.standbys, this.primary].map((server) => server.stop()));
  }
}

const readiness = async (service: TestService) =>
  (await service.anonymous.get('/health/ready')).body;
const post = ({ api }: TestService) => api.post('/v1/pets').send({ name: 'Rex', categoryId: 1 });
const create = async (service: TestService): Promise<number> =>
  (await post(service).expect(201)).body.id;

async function expectListed(service: TestService, id: number): Promise<void> {
  const cursor = cursorAfter('pets', BigInt(id - 1));
  const paths = [
    `/v1/pets?limit=1&cursor=${cursor}`,
    `/v1/pets?limit=1&status=available&cursor=${cursor}`,
  ];
  const pages = await Promise.all(paths.map((path) => service.api.get(path)));
  const pet = await service.api.get(`/v1/pets/${id}`);
  expect([...pages, pet].map(({ status, body }) => [status, body[0]?.id ?? body.id])).toEqual(
    [200, 200, 200].map((status) => [status, id]),
  );
}

// On a busy machine, servers take minutes to start, and a standby responds late.
jest.setTimeout(600_000);
Object.assign(DATABASE_LIMITS, { standby: 2_000 });

describeWith('PostgreSQL', BINARIES)('reads', () => {
  let cluster: Cluster;
  beforeAll(async () => {
    cluster = await Cluster.start(2);
  });
  afterAll(() => cluster?.stop());
  const onStandbys = (sql: string) => Promise.all(cluster.standbys.map(({ url }) => ask(url, sql)));

  it('are not served by a standby to which DATABASE_URL leads, as after a failover that a balancer has not noticed', async () => {
    const [{ url }] = cluster.standbys as [Postgres];
    const source = servingDataSource(url, readEnvironment({ DATABASE_URL: url }));
    const because = 'read_only';
    await expect(source.initialize()).rejects.toMatchObject({ because });
  });

  it('and writes begin at the server that takes writes, though others are standbys or say nothing', async () => {
    const silent = createServer((socket) => socket.on('error', () => {}).resume());
    silent.listen(0, '127.0.0.1');
    await once(silent, 'listening');
    const { port } = silent.address() as AddressInfo;
    const hosts = cluster.at(port, cluster.standbys[0]!.port, cluster.primary.port);
    const DATABASE_URL = `${hosts}?target_session_attrs=read-write`;
    await onDatabase(readEnvironment({ DATABASE_URL }), async ({ url }) =>
      expect(new URL(url).port).toBe(String(cluster.primary.port)),
    );
    silent.close();
  });

  it('are not older than a commit that was acknowledged before it was flushed', async () => {
    const options = '-c synchronous_commit=off';
    const client = new Client({ connectionString: cluster.primary.url, options });
    await client.connect();
    for (let i = 0; i < 20; i += 1) {
      await client.query(`select pg_logical_emit_message(true, 'test', 'a commit')`);
      const inserted = await client.query('select pg_current_wal_insert_lsn()::text as lsn');
      const { rows } = await client.query(
        `select lsn::pg_lsn >= '${inserted.rows[0].lsn}' as "isCovered" from (${PRIMARY_POSITION.text}) as it`,
      );
      expect(rows).toEqual([{ isCovered: true }]);
    }
    await client.end();
  });

  it('have standbys of which check tells one by one, and warns also if only one of them is not in use', async () => {
    // Of a standby that does not respond in time, check would say that instead.
    const time = jest.replaceProperty(DATABASE_LIMITS, 'standby', 20_000 as 250);
    /** What check says of the standbys at these ports, once those in use are. */
    const report = (ports: number[], message: RegExp) => {
      const variables = {
        DATABASE_URL: cluster.primary.url,
        DATABASE_READ_URL: cluster.at(...ports),
      };
      const read = async () =>
        JSON.parse((await runHere('check --json', variables)).stdout).checks.at(-1);
      return until('check says so', read, { holds: (last) => message.test(last.message) });
    };
    const [one, other] = cluster.standbys.map(({ port }) => port) as [number, number];
    const both = await report([one, other], RegExp(`:${one}: in use; .+:${other}: in use$`));
    expect(both).toEqual({ name: 'standbys', isOk: true, message: expect.any(String) });
    for (const [ports, message] of [
      [[one, 1], RegExp(`:${one}: in use; .+:1: .*REFUSED`)],
      [[1, one], RegExp(`:1: .*REFUSED.*; .+:${one}: in use$`)],
    ] as const) {
      expect(await report([...ports], message)).toMatchObject({ isOk: true, isWarning: true });
    }
    time.restore();
  });

  it('are refused at the start if a standby has another database or schema, or one of another cluster, or may not say what it receives', async () => {
    // Of a standby that does not respond in time, nothing is known, and the service starts.
    const time = jest.replaceProperty(DATABASE_LIMITS, 'standby', 20_000 as 250);
    await ask(
      cluster.primary.url,
      `create role reader login password 'reader'`,
      `create role member login noinherit password 'reader' in role pg_read_all_stats`,
      // Its sessions find that function first, and are as those of another cluster.
      `create function public.pg_control_system(out system_identifier bigint) language sql as 'select 1::bigint'`,
      `create role stranger login superuser password 'reader'`,
      'alter role stranger set search_path = public, pg_catalog',
      // Its sessions see no pets, as those on the pets of another schema.
      `create role elsewhere login superuser password 'reader'`,
      'alter role elsewhere set search_path = pg_catalog',
    );
    const { url: primary } = cluster.primary;
    await ask(primary.replace(/postgres$/, 'template1'), 'create database copy template postgres');
    const standbys = cluster.at(...cluster.standbys.map(({ port }) => port));
    const other = standbys.replace(/postgres$/, 'template1');
    const copy = standbys.replace(/postgres$/, 'copy');
    await until('the standbys have the copy', async () => {
      const copies = await onStandbys(`select from pg_database where datname = 'copy'`);
      return copies.every(Boolean);
    });
    const as = (role: string, url: string) =>
      url.replace(/\/\/postgres:[^@]*@/, `//${role}:reader@`);
    for (const [url, message, from = primary] of [
      [other, 'another database'],
      [copy, 'another database'],
      [standbys, 'is not a standby of the server of DATABASE_URL', as('stranger', primary)],
      [as('elsewhere', standbys), 'another database'],
      [as('reader', standbys), 'grant pg_read_all_stats to reader;'],
      // It has the rights of the other role only after `set role`.
      [as('member', standbys), 'grant pg_read_all_stats to member;'],
    ] as const) {
      const start = startService({ DATABASE_READ_URL: url }, from);
      await expect(start).rejects.toBeInstanceOf(OperatorError);
      await expect(start).rejects.toThrow(message);
    }
    time.restore();
  });

  describe('of two services', () => {
    beforeAll(() => cluster.serve(2));
    beforeEach(() => cluster.inUse(2));

    const metrics = async (service: TestService) => {
      const answer = await fetch(`http://127.0.0.1:${service.metricsPort()}/metrics`);
      const lines = (await answer.text()).split('\n').map((line) => line.split(' '));
      return new Map(lines.map(([sample, value]) => [sample!, Number(value)]));
    };
    const reads = async (server: string) => {
      const all = await Promise.all(cluster.services.map(metrics));
      const sample = `animal_store_database_reads_total{server="${server}"}`;
      return all.reduce((sum, one) => sum + one.get(sample)!, 0);
    };
    const onPrimary = (...sql: string[]) => ask(cluster.primary.url, ...sql);
    const pets = async () => (await onPrimary('select count(*)::int from pets')).count;

    it('serve lists, gets and orders, and nothing else', async () => {
      const [one, other] = cluster.services as [TestService, TestService];
      const id = await create(one);
      await until('all that reads goes to standbys', async () => {
        const before = [await reads('standby'), await reads('primary')];
        await expectListed(other, id);
        await other.api.get('/v1/store/orders').expect(200, []);
        const after = [await reads('standby'), await reads('primary')];
        return after[0] === before[0]! + 4 && after[1] === before[1];
      });
      // Each server counts what it read itself.
      const scans = `select sum(idx_scan)::int as count from pg_stat_user_indexes where relname = 'pets'`;
      const readsOfEach = async () => {
        await expectListed(other, id);
        return (await onStandbys(scans)).map(({ count }) => count);
      };
      await until('each standby serves', readsOfEach, { holds: (counts) => !counts.includes(0) });
      const standbys = { reads: 'standbys', standbys: 2, standbysInUse: 2 };
      expect(await readiness(one)).toEqual({ status: 'ready', ...standbys });
    });

    it.each([
      [
        'the standbys are behind',
        () => onStandbys('select pg_wal_replay_pause()'),
        () => onStandbys('select pg_wal_replay_resume()'),
        'it is behind, or is no longer a standby of the server of DATABASE_URL',
      ],
      [
        'the service lacks a right that they need',
        () => onPrimary('revoke execute on function pg_control_system() from public'),
        () => onPrimary('grant execute on function pg_control_system() to public'),
        'permission denied for function pg_control_system',
      ],
    ])(
      'are on the primary while %s, which readiness, log and metrics say',
      async (_why, begin, end, reason) => {
        const [one, other] = cluster.services as [TestService, TestService];
        const standby = `127.0.0.1:${cluster.standbys[0]!.port}`;
        const sample = `animal_store_database_standby_in_use{standby="${standby}"}`;
        await begin();
        try {
          const id = await create(one);
          const before = [await reads('standby'), await reads('primary')] as const;
          await expectListed(other, id);
          // One that a standby did not serve is none of its reads.
          const after = [await reads('standby'), await reads('primary')];
          expect(after).toEqual([before[0], before[1] + 3]);
          await cluster.inUse(0);
          expect(await readiness(other)).toMatchObject({ status: 'ready', reads: 'primary' });
          expect((await metrics(other)).get(sample)).toBe(0);
          const line = { level: 'warn', msg: 'Reads do not go to the standby', standby, reason };
          expect(other.log.map((text) => JSON.parse(text))).toContainEqual(
            expect.objectContaining(line),
          );
        } finally {
          await end();
        }
        await until('it is in use', async () => (await metrics(other)).get(sample) === 1);
      },
    );

    const promote = ({ url }: Postgres) =>
      ask(
        url,
        'select pg_promote()',
        `insert into pets (name, category_id) select 'not of the primary', 1 from generate_series(1, 1000)`,
      );

    it.each<[string, (standby: Postgres) => unknown, (standby: Postgres) => unknown]>([
      ['paused', (standby) => standby.pause(), (standby) => standby.resume()],
      ['killed', (standby) => standby.kill(), (standby) => standby.launch()],
      [
        'promoted',
        promote,
        async (standby) => {
          await standby.kill();
          await standby.follow(cluster.primary);
        },
      ],
    ])(
      'miss no animal and cost no error while a standby is %s, and when it is back',
      async (_what, begin, end) => {
        const standby = cluster.standbys[0]!;
        const readBefore = await reads('standby');
        let created = 0;
        let isOver = false;
        const client = async (turn: number) => {
          for (; !isOver; turn += 1) {
            const id = await create(cluster.services[turn % 2]!);
            await expectListed(cluster.services[(turn + 1) % 2]!, id);
            created += 1;
          }
        };
        /** Animals of each client once `count` standbys are in use. */
        const withStandbys = async (count: number) => {
          await cluster.inUse(count);
          // A client has failed, and so has the test.
          expect(isOver).toBe(false);
          const end = created + CLIENTS * PETS_OF_EACH;
          await until('the clients went on', () => created >= end);
        };
        const events = async () => {
          await withStandbys(2);
          try {
            await begin(standby);
            await withStandbys(1);
          } finally {
            await end(standby);
          }
          await withStandbys(2);
        };
        const before = await pets();
        const clients = Promise.all(Array.from({ length: CLIENTS }, (_, turn) => client(turn)));
        await Promise.race([events(), clients]).finally(() => (isOver = true));
        await clients;
        expect(await reads('standby')).toBeGreaterThan(readBefore);
        expect(await pets()).toBe(before + created);
      },
    );
  });

  describe('of a service, on servers of its own', () => {
    let own: Cluster;
    afterEach(() => own.stop());

    it('that a lock on a standby delays name the limit that ended them, once until it was in use for a minute', async () => {
      // Less than PostgreSQL's own limit for a statement, as in production.
      const limit = jest.replaceProperty(DATABASE_LIMITS, 'standby', 1_200 as 250);
      own = await Cluster.start(1);
      await own.serve(1);
      limit.restore();
      const [service] = own.services as [TestService];
      const [standby] = own.standbys as [Postgres];
      const lines = () =>
        service.log
          .map((line) => JSON.parse(line))
          .filter(({ msg, reason }) => /Reads (do not )?go/.test(msg) && !/checked/.test(reason))
          .map(({ msg, reason }) => reason ?? msg);
      const readWhileLocked = async () => {
        await own.inUse(1);
        const locker = new Client({ connectionString: own.primary.url });
        await locker.connect();
        await locker.query('begin; lock table pets in access exclusive mode');
        // A lock alone is written to the log within 15 seconds, with the next commit at once.
        await ask(own.primary.url, `select pg_logical_emit_message(true, 'test', 'a commit')`);
        const locks = `select count(*)::int from pg_locks where relation = to_regclass('pets') and mode = 'AccessExclusiveLock'`;
        const isLocked = async () => (await ask(standby.url, locks)).count > 0;
        await until('the standby has the lock', isLocked);
        // The primary is locked, too.
        const { status } = await service.api.get('/v1/pets');
        await locker.end();
        expect(status).toBe(503);
        // Otherwise, the next one might be taken for this one.
        await until('the standby has it no more', async () => !(await isLocked()));
        await own.inUse(1);
      };
      // A session of the primary that breaks says nothing about the standby.
      const broken = { query: () => Promise.reject(new Error('terminated')) };
      await own.inUse(1);
      const readOn = async (session: unknown) => session;
      // One that says its position late leaves no time for the standby.
      const late = {
        query: async () => {
          const now = performance.now() + DATABASE_LIMITS.standby;
          jest.spyOn(performance, 'now').mockReturnValueOnce(now).mockReturnValueOnce(now);
          return { rows: [['0/0', 1, '']] };
        },
      };
      for (const primary of [broken, late]) {
        const read = service.get(Standbys).read(primary as unknown as PoolClient, readOn);
        expect(await read).toBe(primary);
      }
      jest.restoreAllMocks();
      expect(lines()).toEqual([]);
      const reason = 'The session was in use for over 1200 ms: a lock, a slow statement or server';
      await readWhileLocked();
      expect(lines()).toEqual([reason]);
      await readWhileLocked();
      expect(lines()).toEqual([reason]);
      const now = performance.now.bind(performance);
      const clock = jest.spyOn(performance, 'now').mockImplementation(() => now() + 60_000);
      await until('the log has it', () => lines().length === 2);
      clock.mockRestore();
      expect(lines()).toEqual([reason, 'Reads go to the standby']);
      await readWhileLocked();
      expect(lines()).toEqual([reason, 'Reads go to the standby', reason]);
    });

    it('are on the new primary after a failover, if a standby has what was lost with the old one', async () => {
      own = await Cluster.start(2);
      await own.serve(1);
      await own.inUse(2);
      const [ahead, next] = own.standbys as [Postgres, Postgres];
      const [service] = own.services as [TestService];
      const follow = ({ url }: Postgres, conninfo: string) =>
        ask(url, `alter system set primary_conninfo = '${conninfo}'`, 'select pg_reload_conf()');
      await follow(next, '');
      await until('it receives nothing', async () => {
        const { count } = await ask(next.url, 'select count(*)::int from pg_stat_wal_receiver');
        return count === 0;
      });
      const { lsn } = await ask(
        own.primary.url,
        `insert into pets (name, category_id) select 'lost', 1 from generate_series(1, 10000)`,
        'select pg_current_wal_lsn() as lsn',
      );
      await until('the standby has it', async () => {
        const sql = `select pg_last_wal_replay_lsn() >= '${lsn}' as "hasAll"`;
        return (await ask(ahead.url, sql)).hasAll;
      });
      await own.primary.stop();
      await next.promote();
      await follow(
        ahead,
        `host=127.0.0.1 port=${next.port} user=postgres password=${next.password}`,
      );
      await until('an animal is created', async () => (await post(service)).status === 201);
      const id = await create(service);
      const isBehind = `select pg_current_wal_lsn() < '${lsn}' as "isBehind"`;
      expect(await ask(next.url, isBehind)).toEqual({ isBehind: true });
      for (let i = 0; i < 20; i += 1) {
        await expectListed(service, id);
      }
      const cursor = cursorAfter('pets', BigInt(id));
      await service.api.get(`/v1/pets?cursor=${cursor}`).expect(200, []);
    });

    it('and writes leave a server that became read-only, with all sessions', async () => {
      own = await Cluster.start(1);
      await own.serve(1);
      const [other] = own.standbys as [Postgres];
      const [service] = own.services as [TestService];
      const id = await create(service);
      await until('the standby has it', async () => {
        const { count } = await ask(other.url, 'select count(*)::int from pets');
        return count === 1;
      });
      await other.promote();
      const sessions = await Promise.all(Array.from({ length: 4 }, () => service.pool.connect()));
      const areClosed = Promise.all(sessions.map((session) => once(session, 'end')));
      sessions.forEach((session) => session.release());
      await ask(
        own.primary.url,
        'alter system set default_transaction_read_only = on',
        'select pg_reload_conf()',
      );
      await until('the sessions are read-only', async () => {
        const [row] = await service.query('show transaction_read_only');
        return row.transaction_read_only === 'on';
      });
      expectError(await post(service), 503, 'unavailable', ['database', 'try again']);
      await areClosed;
      await until('an animal is created', async () => (await post(service)).status === 201);
      const portOf = async () =>
        (await service.query('select inet_server_port() as port'))[0].port as number;
      const ports = await Promise.all(Array.from({ length: 10 }, portOf));
      expect(new Set(ports)).toEqual(new Set([other.port]));
      const isRead = async () => (await service.api.get(`/v1/pets/${id}`)).status === 200;
      await until('it is read', isRead);
    });
  });
});
