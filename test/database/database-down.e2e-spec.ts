import { execFileSync } from 'node:child_process';
import { chmod, chown, copyFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { PoolClient } from 'pg';
import { newApiKey } from '../../src/api-key.js';
import { DATABASE_LIMITS } from '../../src/database/limits.js';
import { postgresAccount } from '../../src/embedded-postgres/embedded-postgres.js';
import { runMigrations } from '../../src/schema/migrations.js';
import { type Answer, expectError } from '../support/answers.js';
import { query } from '../support/ask.js';
import { runHere } from '../support/command.js';
import { createGrantedRole, roleOf } from '../support/granted-role.js';
import { Postgres } from '../support/postgres.js';
import { createMigratedDatabase, dropDatabase, onServer } from '../support/database.js';
import { startService, type TestService, useRealTimes } from '../support/service.js';
import { temporaryFolder } from '../support/temporary-folder.js';
import { until } from '../support/until.js';
import { Wire } from '../support/wire.js';

useRealTimes();

const create = ({ api }: TestService) => api.post('/v1/pets').send({ name: 'Rex', categoryId: 1 });

/** Each for a session of its own. */
const requestsTo = (service: TestService) => [
  service.api.get('/v1/pets'),
  service.api.get('/v1/pets?status=sold'),
  service.api.get('/v1/pets/1'),
  service.api.get('/v1/store/orders'),
  create(service),
  create(service).set('Idempotency-Key', 'one'),
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
    const causes = service.log.map((line) => JSON.parse(line).cause);
    expect(causes).not.toContain('other');
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
    service.log.length = 0;
    expectError(await service.anonymous.get('/health/ready'), 503, 'unavailable', ['read-only']);
    const causes = service.log.map((line) => JSON.parse(line).cause);
    expect(causes).toEqual(['read_only', 'read_only']);
    await change('reset default_transaction_read_only');
    await expectRecovery(service);
  });
});

describe('with a server of its own', () => {
  let server: Postgres;
  beforeAll(async () => {
    server = await Postgres.start();
    await runMigrations(server.url);
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
    beforeAll(async () => {
      const url = await createGrantedRole(server.url);
      service = await startService({}, url, { owner: server.url });
      await create(service).expect(201);
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

    it('serve all requests while PostgreSQL accepts no further one', async () => {
      const [free, ...held] = await hold(4);
      free!.release();
      await limit(4);
      try {
        for (let round = 0; round < 3; round += 1) {
          await expectServed(service);
        }
      } finally {
        held.forEach((one) => one.release(true));
        await limit(-1);
      }
      await until('it opens more again', async () => {
        const sessions = await hold(4);
        sessions.forEach((one) => one.release(true));
        return sessions.length === 4;
      });
    });

    it.each([
      ['that of the next statement', -1],
      ['all idle ones', 0],
    ])(
      'fail at most one request, and no other session is closed, if some hang: %s',
      async (_which, first) => {
        // On a busy machine, a session that does not hang may respond late.
        const proof = jest.replaceProperty(DATABASE_LIMITS, 'proof', 2_000 as 250);
        const { api, pool } = service;
        const list = async () => (await api.get('/v1/pets')).status;
        expect(await list()).toBe(200);
        // The pool closes further ones when they have been idle for a while: not from here on.
        await until('it has its least sessions', () => pool.totalCount <= 4);
        const idle = jest.replaceProperty(pool.options, 'idleTimeoutMillis', 0);
        const sessions = await hold(4);
        sessions.forEach((session) => session.release());
        const hanging = sessions.slice(first).map(({ processID }) => processID);
        const closed: number[] = [];
        // Not one whose time was over before: the pool tells it late.
        const onRemove = (session: PoolClient) =>
          sessions.includes(session) && closed.push(session.processID);
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
          idle.restore();
        }
      },
    );
  });

  it('acknowledges no pet that its synchronous standby does not have, also not by its Idempotency-Key', async () => {
    const service = await startService({}, server.url);
    const once = () => create(service).set('Idempotency-Key', 'awaited');
    const waiting = `select from pg_stat_activity where wait_event = 'SyncRep'`;
    await configure({ synchronous_standby_names: 'nobody' });
    try {
      await until('commits wait', async () => (await create(service)).status === 503);
      expectUnavailable(await once());
      await until('none waits', async () => (await query(server.url, waiting)).length === 0);
      const [record] = await service.query(`select from idempotency_keys where key = 'awaited'`);
      expect(record).toBeDefined();
      expectUnavailable(await once());
    } finally {
      await configure({ synchronous_standby_names: '' });
    }
    await until('it is acknowledged', async () => (await once()).status === 201);
    expect((await once()).headers['idempotent-replayed']).toBe('true');
    await service.stop();
  });

  describe('TLS with PostgreSQL', () => {
    let url: string;
    let folder: string;
    let service: TestService;
    const file = (name: string) => join(folder, name);
    const TLS = () => ({
      ssl_cert_file: file('server.crt'),
      ssl_key_file: file('server.key'),
      ssl: 'on',
    });
    const trust = () => copyFile(file('server.crt'), file('root.crt'));
    beforeAll(async () => {
      folder = await temporaryFolder();
      const make = `req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=localhost -addext subjectAltName=DNS:localhost -keyout server.key -out server.crt`;
      execFileSync('openssl', make.split(' '), { cwd: folder, stdio: 'pipe' });
      await trust();
      const { uid = process.getuid!(), gid = process.getgid!() } = await postgresAccount(folder);
      await chmod(file('server.key'), 0o600);
      await chown(file('server.key'), uid, gid);
      await configure(TLS());
      url = server.url.replace('127.0.0.1', 'localhost');
      const parameters = `sslmode=verify-full&sslrootcert=${file('root.crt')}`;
      service = await startService({}, `${url}?${parameters}`);
      await create(service).expect(201);
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
      ['the server has no TLS', () => configure({ ssl: 'off' })],
    ])('fails because %s: all is 503, and it recovers', async (_why, change) => {
      await change();
      await query(
        server.url,
        `select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'animal-store'`,
      );
      await until('its sessions have ended', () => service.pool.totalCount === 0);
      service.log.length = 0;
      (await Promise.all(requestsTo(service))).forEach(expectUnavailable);
      expect(service.log.join('')).not.toContain('"level":"error"');
      await trust();
      await configure(TLS());
      await expectRecovery(service);
    });
  });
});
