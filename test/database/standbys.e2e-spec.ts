import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { Client } from 'pg';
import { onDatabase } from '../../src/cli/command.js';
import { readEnvironment } from '../../src/config/environment.js';
import { DATABASE_LIMITS } from '../../src/database/limits.js';
import { OperatorError } from '../../src/errors/operator-error.js';
import { Cursors } from '../../src/listing/cursors.js';
import { runMigrations } from '../../src/schema/migrations.js';
import { PRIMARY_POSITION } from '../../src/standbys/standbys.js';
import { expectError } from '../support/answers.js';
import { ask } from '../support/ask.js';
import { describeWith } from '../support/describe-with.js';
import { FULL_LENGTH } from '../support/full-length.js';
import { createGrantedRole, roleOf } from '../support/granted-role.js';
import { Postgres, systemBinaries } from '../support/postgres.js';
import { startService, type TestService } from '../support/service.js';
import { until } from '../support/until.js';

const CLIENTS = FULL_LENGTH ? 100 : 10;

const BINARIES = await systemBinaries();

describeWith('PostgreSQL', BINARIES)('reads', () => {
  let primary: Postgres;
  const standbys: Postgres[] = [];
  let DATABASE_READ_URL: string;
  const onPrimary = (...sql: string[]) => ask(primary.url, ...sql);
  const onStandbys = (sql: string) => Promise.all(standbys.map(({ url }) => ask(url, sql)));
  const at = (...ports: number[]) =>
    primary.url.replace(/@[^/]*/, `@${ports.map((port) => `127.0.0.1:${port}`).join()}`);
  beforeAll(async () => {
    primary = await Postgres.start(['wal_keep_size=1GB'], BINARIES!);
    standbys.push(...(await Promise.all([1, 2, 3].map(() => primary.standby()))));
    DATABASE_READ_URL = at(standbys[0]!.port, standbys[1]!.port);
    await runMigrations(primary.url);
    await onPrimary(`create role reader login password 'reader'`);
  }, 60_000);
  afterAll(async () => {
    await Promise.all(standbys.map((standby) => standby.stop()));
    await primary?.stop();
  });
  afterEach(() => jest.restoreAllMocks());

  it('and writes begin at the server that takes writes, though others are standbys or say nothing', async () => {
    const silent = createServer((socket) => socket.on('error', () => {}).resume());
    silent.listen(0, '127.0.0.1');
    await once(silent, 'listening');
    const hosts = at((silent.address() as AddressInfo).port, standbys[0]!.port, primary.port);
    const DATABASE_URL = `${hosts}?target_session_attrs=read-write`;
    await onDatabase(readEnvironment({ DATABASE_URL }), async ({ url }) =>
      expect(new URL(url).port).toBe(String(primary.port)),
    );
    silent.close();
  });

  it('are not older than a commit that was acknowledged before it was flushed', async () => {
    const options = '-c synchronous_commit=off';
    const client = new Client({ connectionString: primary.url, options });
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

  it('are refused at the start if a standby has another database, or may not say what it receives', async () => {
    // Of a standby that does not respond in time, nothing is known, and the service starts.
    jest.replaceProperty(DATABASE_LIMITS, 'standby', 20_000 as 250);
    const other = DATABASE_READ_URL.replace(/postgres$/, 'template1');
    const restricted = DATABASE_READ_URL.replace(/\/\/postgres:[^@]*@/, '//reader:reader@');
    for (const [url, message] of [
      [other, 'another database'],
      [restricted, 'grant pg_read_all_stats to reader;'],
    ] as const) {
      const start = startService({ DATABASE_READ_URL: url }, primary.url);
      await expect(start).rejects.toBeInstanceOf(OperatorError);
      await expect(start).rejects.toThrow(message);
    }
  });

  describe('of two services', () => {
    const services: TestService[] = [];
    beforeAll(async () => {
      const role = await createGrantedRole(primary.url);
      await onPrimary(`grant pg_read_all_stats to ${roleOf(primary.url)}`);
      const as = (url: string) => url.replace(/\/\/[^@]*@/, /\/\/[^@]*@/.exec(role)![0]);
      const hosts = as(at(primary.port, standbys[2]!.port, standbys[1]!.port));
      const variables = {
        DATABASE_URL: `${hosts}?target_session_attrs=read-write`,
        DATABASE_READ_URL: as(DATABASE_READ_URL),
        METRICS_PORT: '0',
      };
      for (let i = 0; i < 2; i += 1) {
        services.push(await startService(variables, role, { owner: primary.url }));
      }
      await inUse(2);
    });
    afterAll(() => Promise.all(services.map((service) => service.stop())));

    const readiness = async (service: TestService) =>
      (await service.anonymous.get('/health/ready')).body;
    const inUse = (count: number) =>
      until(`${count} standbys are in use`, async () => {
        const states = await Promise.all(services.map(readiness));
        return states.every(({ standbysInUse }) => standbysInUse === count);
      });
    const metrics = async (service: TestService) => {
      const answer = await fetch(`http://127.0.0.1:${service.metricsPort()}/metrics`);
      const lines = (await answer.text()).split('\n').map((line) => line.split(' '));
      return new Map(lines.map(([sample, value]) => [sample!, Number(value)]));
    };
    const reads = async (server: string) => {
      const all = await Promise.all(services.map(metrics));
      const sample = `animal_store_database_reads_total{server="${server}"}`;
      return all.reduce((sum, one) => sum + one.get(sample)!, 0);
    };

    const follow = ({ url }: Postgres, conninfo: string) =>
      ask(url, `alter system set primary_conninfo = '${conninfo}'`, 'select pg_reload_conf()');
    const pets = async () => (await onPrimary('select count(*)::int from pets')).count;
    const post = ({ api }: TestService) =>
      api.post('/v1/pets').send({ name: 'Rex', categoryId: 1 });
    const create = async (service: TestService): Promise<number> =>
      (await post(service).expect(201)).body.id;
    const expectListed = async (service: TestService, id: number) => {
      const cursor = new Cursors('pets').after(BigInt(id - 1));
      const paths = [
        `/v1/pets?limit=1&cursor=${cursor}`,
        `/v1/pets?limit=1&status=available&cursor=${cursor}`,
      ];
      const pages = await Promise.all(paths.map((path) => service.api.get(path)));
      const pet = await service.api.get(`/v1/pets/${id}`);
      expect([...pages, pet].map(({ status, body }) => [status, body[0]?.id ?? body.id])).toEqual(
        [200, 200, 200].map((status) => [status, id]),
      );
    };

    it('serve lists, gets and orders, and nothing else', async () => {
      const [one, other] = services as [TestService, TestService];
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
        return (await onStandbys(scans)).slice(0, 2).map(({ count }) => count);
      };
      await until('each standby serves', readsOfEach, { holds: (counts) => !counts.includes(0) });
      await inUse(2);
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
        const [one, other] = services as [TestService, TestService];
        await begin();
        const id = await create(one);
        await expectListed(other, id);
        await inUse(0);
        expect(await readiness(other)).toMatchObject({ status: 'ready', reads: 'primary' });
        const standby = `127.0.0.1:${standbys[0]!.port}`;
        const sample = `animal_store_database_standby_in_use{standby="${standby}"}`;
        expect((await metrics(other)).get(sample)).toBe(0);
        const line = { level: 'warn', msg: 'Reads do not go to the standby', standby, reason };
        expect(other.log.map((text) => JSON.parse(text))).toContainEqual(
          expect.objectContaining(line),
        );
        await end();
        await until('it is in use', async () => (await metrics(other)).get(sample) === 1);
      },
    );

    it('miss no animal and cost no error while standbys are paused, killed and promoted', async () => {
      const [first, second] = standbys as [Postgres, Postgres];
      const readBefore = await reads('standby');
      let created = 0;
      let isOver = false;
      const client = async (turn: number) => {
        for (; !isOver; turn += 1) {
          const id = await create(services[turn % 2]!);
          await expectListed(services[(turn + 1) % 2]!, id);
          created += 1;
        }
      };
      /** Ten animals of each client once `count` standbys are in use. */
      const withStandbys = async (count: number) => {
        await inUse(count);
        // A client has failed, and so has the test.
        expect(isOver).toBe(false);
        const end = created + CLIENTS * 10;
        await until('the clients went on', () => created >= end);
      };
      const events = async () => {
        await withStandbys(2);
        first.pause();
        await withStandbys(1);
        first.resume();
        await withStandbys(2);
        await second.kill();
        await withStandbys(1);
        await second.launch();
        await withStandbys(2);
        await ask(
          first.url,
          'select pg_promote()',
          `insert into pets (name, category_id) select 'not of the primary', 1 from generate_series(1, 1000)`,
        );
        await withStandbys(1);
      };
      const before = await pets();
      const clients = Promise.all(Array.from({ length: CLIENTS }, (_, turn) => client(turn)));
      await Promise.race([events(), clients]).finally(() => (isOver = true));
      await clients;
      expect(await reads('standby')).toBeGreaterThan(readBefore);
      expect(await pets()).toBe(before + created);
    }, 600_000);

    it('are on the new primary after a failover, if a standby has what was lost with the old one', async () => {
      const [, ahead, next] = standbys as [Postgres, Postgres, Postgres];
      const [service] = services as [TestService];
      await follow(next, '');
      await until('it receives nothing', async () => {
        const { count } = await ask(next.url, 'select count(*)::int from pg_stat_wal_receiver');
        return count === 0;
      });
      const { lsn } = await onPrimary(
        `insert into pets (name, category_id) select 'lost', 1 from generate_series(1, 10000)`,
        'select pg_current_wal_lsn() as lsn',
      );
      await until('the standby has it', async () => {
        const sql = `select pg_last_wal_replay_lsn() >= '${lsn}' as "hasAll"`;
        return (await ask(ahead.url, sql)).hasAll;
      });
      await primary.stop();
      await next.promote();
      const conninfo = `host=127.0.0.1 port=${next.port} user=postgres password=${primary.password}`;
      await follow(ahead, conninfo);
      await until('an animal is created', async () => (await post(service)).status === 201);
      const id = await create(service);
      const isBehind = `select pg_current_wal_lsn() < '${lsn}' as "isBehind"`;
      expect(await ask(next.url, isBehind)).toEqual({ isBehind: true });
      for (let i = 0; i < 20; i += 1) {
        await expectListed(service, id);
      }
      const cursor = new Cursors('pets').after(BigInt(id));
      await service.api.get(`/v1/pets?cursor=${cursor}`).expect(200, []);
    });

    const setReadOnly = ({ url }: Postgres, state: 'on' | 'off') => {
      const setting = `alter system set default_transaction_read_only = ${state}`;
      return ask(url, setting, 'select pg_reload_conf()');
    };
    const portsInUse = async () => {
      const sql = 'select inet_server_port() as port';
      const rows = await Promise.all(Array.from({ length: 10 }, () => services[0]!.query(sql)));
      return new Set(rows.map(([{ port }]) => port));
    };

    it('and writes leave a server that became read-only, with all sessions', async () => {
      const [, other, current] = standbys as [Postgres, Postgres, Postgres];
      const [service] = services as [TestService];
      await other.promote();
      const sessions = await Promise.all(Array.from({ length: 4 }, () => service.pool.connect()));
      const areClosed = Promise.all(sessions.map((session) => once(session, 'end')));
      sessions.forEach((session) => session.release());
      await setReadOnly(current, 'on');
      await until('the sessions are read-only', async () => {
        const [row] = await service.query('show transaction_read_only');
        return row.transaction_read_only === 'on';
      });
      expectError(await post(service), 503, 'unavailable', ['database', 'try again']);
      await areClosed;
      await until('an animal is created', async () => (await post(service)).status === 201);
      expect(await portsInUse()).toEqual(new Set([other.port]));
      const isRead = async () => (await service.api.get('/v1/pets/1')).status === 200;
      await until('it is read', isRead, { seconds: 2 });
    });
  });
});
