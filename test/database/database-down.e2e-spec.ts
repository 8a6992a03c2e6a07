import { execFileSync } from 'node:child_process';
import { copyFileSync } from 'node:fs';
import { chmod, chown, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { PoolClient } from 'pg';
import { newApiKey } from '../../src/api-key.js';
import { DATABASE_TIMEOUTS } from '../../src/database/pool.js';
import { processIdOf } from '../../src/database/servers.js';
import { postgresAccount } from '../../src/embedded-postgres/embedded-postgres.js';
import { runMigrations } from '../../src/schema/migrations.js';
import { type Answer, expectError } from '../support/answers.js';
import { ask, query } from '../support/ask.js';
import { runHere } from '../support/command.js';
import { createGrantedRole, roleOf } from '../support/granted-role.js';
import { Postgres } from '../support/postgres.js';
import { createMigratedDatabase, dropDatabase, onServer } from '../support/database.js';
import { startService, type TestService } from '../support/service.js';
import { temporaryFolder } from '../support/temporary-folder.js';
import { until } from '../support/until.js';
import { Wire } from '../support/wire.js';

const create = ({ api }: TestService) => api.post('/v1/pets').send({ name: 'Rex', categoryId: 1 });

const createOnce = (service: TestService, key: string) =>
  create(service).set('Idempotency-Key', key);

/** Each for a session of its own. */
const requestsTo = (service: TestService) => [
  service.api.get('/v1/pets'),
  service.api.get('/v1/pets?status=sold'),
  service.api.get('/v1/pets/1'),
  service.api.get('/v1/store/orders'),
  create(service),
  createOnce(service, 'one'),
  service.anonymous.get('/health/ready'),
];

async function expectServed(service: TestService): Promise<void> {
  const answers = await Promise.all(requestsTo(service));
  expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 200, 201, 201, 200]);
}

function expectUnavailable(answer: Answer): void {
  expectError(answer, 503, 'unavailable', ['database', 'try again']);
  expect(answer.headers['retry-after']).toBe('1');
}

async function expectRecovery(service: TestService): Promise<void> {
  await until('the service recovers', async () => {
    const answer = await service.api.get('/v1/pets');
    if (answer.status !== 200) {
      expectUnavailable(answer);
    }
    return answer.status === 200;
  });
  await expectServed(service);
}

describe('while the database cannot serve', () => {
  let service: TestService;
  let wire: Wire;
  let url: string;
  beforeAll(async () => {
    wire = await Wire.to(process.env['TEST_DATABASE_URL']!);
    url = await createMigratedDatabase(wire.url);
    service = await startService({}, url);
    await create(service).expect(201);
  });
  afterAll(async () => {
    await service.stop();
    wire.cut();
    await dropDatabase(url);
  });

  it('out of reach: what needs it is 503 with a warning, what does not is answered, and all recovers', async () => {
    service.log.length = 0;
    const mend = wire.cut();
    const unknown = service.anonymous.get('/v1/pets').set('Authorization', `Bearer ${newApiKey()}`);
    (await Promise.all([unknown, ...requestsTo(service)])).forEach(expectUnavailable);
    await service.anonymous.get('/health/live').expect(200);
    expectError(await service.anonymous.get('/v1/pets'), 401, 'missing_api_key');
    expectError(await service.anonymous.get('/nowhere'), 404, 'route_not_found');
    const malformed = service.anonymous.get('/v1/pets').set('Authorization', 'Bearer abc');
    expectError(await malformed, 401, 'invalid_api_key');
    const levels = service.log.map((line) => JSON.parse(line).level);
    expect(levels).toContain('warn');
    expect(service.log.join()).not.toContain('"reason":"The database cannot be used');
    expect(levels).not.toContain('error');
    await mend();
    await expectRecovery(service);
  });

  it('silent: what waits for it is told so too', async () => {
    const lists = () => [service.api.get('/v1/pets'), service.api.get('/v1/pets')];
    await Promise.all(lists());
    const mend = wire.stall();
    const first = service.api.get('/v1/pets').then((answer) => answer);
    await until(
      'the statement is under way',
      () => service.pool.idleCount < service.pool.totalCount,
    );
    const answers = await Promise.all([first, ...lists()]);
    mend();
    answers.forEach(expectUnavailable);
    await expectRecovery(service);
  });

  it('read-only: lists are answered, createPet is 503, and readiness says no', async () => {
    const database = new URL(url).pathname.slice(1);
    /** Changes the database, and ends the sessions of the service, which do not have the change. */
    const change = async (how: string) => {
      await onServer(`alter database ${database} ${how}`);
      await wire.cut()();
    };
    await change('set default_transaction_read_only = on');
    await until(
      'the sessions are new',
      async () => (await service.api.get('/v1/pets')).status === 200,
    );
    expectUnavailable(await create(service));
    expectError(await service.anonymous.get('/health/ready'), 503, 'unavailable', ['read-only']);
    await change('reset default_transaction_read_only');
    await expectRecovery(service);
  });

  it('slow during a start: that waits longer for its sessions than a request does', async () => {
    // It is in the first statement of a session that would serve requests.
    const isLost = wire.loseNext('isReadOnly');
    const starting = await startService({}, url);
    await starting.api.get('/v1/pets').expect(200);
    await starting.stop();
    expect(isLost()).toBe(true);
  });
});

describe('with a server of its own', () => {
  let server: Postgres;
  let grantedUrl: string;
  beforeAll(async () => {
    server = await Postgres.start();
    await runMigrations(server.url);
    grantedUrl = await createGrantedRole(server.url);
  });
  afterAll(() => server.stop());

  const configure = (settings: Record<string, string>) =>
    query(
      server.url,
      ...Object.entries(settings).map(([name, value]) => `alter system set ${name} = '${value}'`),
      'select pg_reload_conf()',
    );

  describe('the sessions of the service', () => {
    let service: TestService;
    let postmaster: number;
    beforeAll(async () => {
      service = await startService({}, grantedUrl, { owner: server.url });
      await create(service).expect(201);
      const pid = `select split_part(pg_read_file('postmaster.pid'), E'\n', 1)::int as pid`;
      postmaster = (await ask(server.url, pid)).pid;
    });
    afterAll(() => service.stop());
    const limit = (to: number) =>
      query(server.url, `alter role ${roleOf(server.url)} connection limit ${to}`);

    /** Takes up to `count` sessions from the pool, as many as it gives. */
    async function hold(count: number): Promise<PoolClient[]> {
      const attempts = Array.from({ length: count }, () => service.pool.connect());
      const held = await Promise.allSettled(attempts);
      return held.flatMap((one) => (one.status === 'fulfilled' ? one.value : []));
    }

    it.each<[string, () => unknown, () => unknown]>([
      ['of its limit', () => limit(6), () => limit(-1)],
      [
        'only the postmaster hangs',
        () => process.kill(postmaster, 'SIGSTOP'),
        () => process.kill(postmaster, 'SIGCONT'),
      ],
    ])(
      'serve all requests while PostgreSQL accepts no further one because %s',
      async (_why, begin, end) => {
        const [free, ...held] = await hold(6);
        free!.release();
        await begin();
        try {
          for (let round = 0; round < 3; round += 1) {
            await expectServed(service);
          }
        } finally {
          held.forEach((one) => one.release(true));
          await end();
        }
        await until('it opens more again', async () => {
          const sessions = await hold(10);
          sessions.forEach((one) => one.release(true));
          return sessions.length === 10;
        });
      },
    );

    it.each([
      ['that of the next statement', -1],
      ['all idle ones', 0],
    ])(
      'fail at most one request, and no other session is closed, if some hang: %s',
      async (_which, first) => {
        // On a busy machine, a session that does not hang may respond late.
        const proof = jest.replaceProperty(DATABASE_TIMEOUTS, 'proof', 2_000 as 250);
        const { api, pool } = service;
        const list = async () => (await api.get('/v1/pets')).status;
        expect(await list()).toBe(200);
        const sessions = await hold(10);
        sessions.forEach((session) => session.release());
        const hanging = sessions.slice(first).map(processIdOf);
        const closed: number[] = [];
        const onRemove = (session: PoolClient) => closed.push(processIdOf(session));
        pool.on('remove', onRemove);
        hanging.forEach((pid) => process.kill(pid, 'SIGSTOP'));
        try {
          const statuses = [await list(), ...(await Promise.all(Array.from({ length: 20 }, list)))];
          expect(statuses.filter((status) => status !== 200).length).toBeLessThanOrEqual(1);
          await until('they are closed', () => closed.length >= hanging.length);
          expect(closed.toSorted()).toEqual(hanging.toSorted());
        } finally {
          hanging.forEach((pid) => process.kill(pid, 'SIGCONT'));
          pool.off('remove', onRemove);
          proof.restore();
        }
      },
    );

    it('do not stay behind while commits wait for a standby that is lost, although it logs in as another role', async () => {
      const role = roleOf(server.url);
      await query(
        server.url,
        `create role actor login password 'sekrit'; grant ${role} to actor; alter role actor set role = ${role}`,
      );
      const asActor = server.url.replace(/\/\/[^@]*@/, '//actor:sekrit@');
      const other = await startService({}, asActor, { owner: server.url });
      const statusOf = async (key: string) => (await createOnce(other, key)).status;
      const waiting = async () => {
        const sql = `select from pg_stat_activity where wait_event = 'SyncRep'`;
        return (await query(server.url, sql)).length;
      };
      await configure({ synchronous_standby_names: 'lost' });
      try {
        await until('a commit waits', async () => {
          await statusOf('first');
          return (await waiting()) > 0;
        });
        for (let round = 0; round < 3; round += 1) {
          const creates = Array.from({ length: 12 }, (_, i) => statusOf(`${round}-${i}`));
          expect(await Promise.all(creates)).not.toContain(500);
        }
        await until('none waits', async () => (await waiting()) === 0, 20);
      } finally {
        await configure({ synchronous_standby_names: '' });
        await other.stop();
      }
    });
  });

  describe('TLS with PostgreSQL', () => {
    let url: string;
    let folder: string;
    let service: TestService;
    const file = (name: string) => join(folder, name);
    /** Replaces the content of a file, whose owner and mode stay. */
    const copy = async (from: string, to: string) =>
      writeFile(file(to), await readFile(file(from)));
    /** Makes a self-signed certificate and its key. */
    function certify(name: string): void {
      const make = `req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=localhost -addext subjectAltName=DNS:localhost`;
      const files = ['-keyout', file(`${name}.key`), '-out', file(`${name}.crt`)];
      execFileSync('openssl', [...make.split(' '), ...files], { stdio: 'pipe' });
    }
    const TLS = () => ({
      ssl_cert_file: file('server.crt'),
      ssl_key_file: file('server.key'),
      ssl: 'on',
    });
    beforeAll(async () => {
      folder = await temporaryFolder();
      ['server', 'client', 'other'].forEach((name) => certify(name));
      await copy('server.crt', 'root.crt');
      const { uid = process.getuid!(), gid = process.getgid!() } = await postgresAccount(folder);
      await chmod(file('server.key'), 0o600);
      await chown(file('server.key'), uid, gid);
      await configure(TLS());
      const parameters = `sslmode=verify-full&sslrootcert=${file('root.crt')}&sslcert=${file('client.crt')}&sslkey=${file('client.key')}`;
      url = server.url.replace('127.0.0.1', 'localhost');
      service = await startService({}, `${url}?${parameters}`);
      await create(service).expect(201);
      ['root.crt', 'client.key'].forEach((name) => copyFileSync(file(name), file(`${name}.kept`)));
    }, 60_000);
    afterAll(() => service.stop());

    it.each([
      ['?sslmode=require&sslrootcert=FILE', /^ok +TLS: on, .+ is verified$/m],
      ['?sslrootcert=system', /^FAIL +database: .*self-signed certificate/m],
      ['?sslmode=no-verify', /^ok +TLS: on, .+ is not verified$/m],
      ['', /^ok +TLS: off/m],
    ])('check says of %j what it means', async (parameters, report) => {
      const DATABASE_URL = url + parameters.replace('FILE', file('root.crt'));
      expect((await runHere('check', { DATABASE_URL })).stdout).toMatch(report);
    });

    it.each<[string, () => unknown]>([
      ['the file of the CA is gone', () => rm(file('root.crt'))],
      ['the key is not that of the client certificate', () => copy('other.key', 'client.key')],
      ['the server has no TLS', () => configure({ ssl: 'off' })],
    ])(
      'fails because %s: all is 503, no socket stays open, and it recovers',
      async (_why, change) => {
        const sockets = () =>
          process.getActiveResourcesInfo().filter((name) => name === 'TCPSocketWrap').length;
        await change();
        await query(
          server.url,
          `select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'animal-store'`,
        );
        await until('its sessions have ended', () => service.pool.totalCount === 0);
        service.log.length = 0;
        await service.anonymous.get('/health/live').expect(200);
        const before = sockets();
        for (let round = 0; round < 5; round += 1) {
          (await Promise.all(requestsTo(service))).forEach(expectUnavailable);
        }
        expect(sockets()).toBeLessThan(before + 10);
        expect(service.log.join('')).not.toContain('"level":"error"');
        await copy('root.crt.kept', 'root.crt');
        await copy('client.key.kept', 'client.key');
        await configure(TLS());
        await expectRecovery(service);
      },
    );
  });
});
