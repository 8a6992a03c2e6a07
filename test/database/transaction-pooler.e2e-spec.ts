import { Client } from 'pg';
import { administerKeys } from '../../src/auth/api-keys.js';
import { readEnvironment } from '../../src/config/environment.js';
import { connectService } from '../../src/cli/serving-database.js';
import { OperatorError } from '../../src/errors/operator-error.js';
import { expectError } from '../support/answers.js';
import {
  createMigratedDatabase,
  dropDatabase,
  onServer,
  startService,
  type TestService,
} from '../support/service.js';
import { Project } from '../support/project.js';
import { hasPgBouncer, PgBouncer } from '../support/pgbouncer.js';

if (!hasPgBouncer()) {
  console.warn('Poolers are not tested: there is no PgBouncer.');
}

// A developer's machine may have no PgBouncer; in CI, where these tests must run, hasPgBouncer() fails without it.
(hasPgBouncer() ? describe : describe.skip)('behind PgBouncer in transaction mode', () => {
  const DATABASE_POOLER = 'transaction';
  /** What the settings of the role would be, of the database. */
  const REQUIRED = { jit: 'off', statement_timeout: '1500ms' };
  let url: string;
  let pooler: PgBouncer;
  let services: TestService[];
  let project: Project;
  beforeAll(async () => {
    project = await Project.create();
    url = await createMigratedDatabase();
  });
  afterAll(async () => {
    await project.remove();
    await dropDatabase(url);
  });
  beforeEach(async () => {
    pooler = await PgBouncer.before(url);
    services = [];
  });
  afterEach(async () => {
    await Promise.all(services.map((service) => service.stop()));
    await pooler.stop();
  });

  async function start(): Promise<TestService> {
    const service = await startService({ DATABASE_POOLER }, pooler.url);
    services.push(service);
    return service;
  }

  async function setForSessions(settings: Record<string, string>): Promise<void> {
    const name = new URL(url).pathname.slice(1);
    await onServer(`alter database ${name} reset all`);
    for (const [setting, value] of Object.entries(settings)) {
      await onServer(`alter database ${name} set ${setting} = '${value}'`);
    }
  }

  async function refusal(variables: Record<string, string>): Promise<string> {
    const environment = readEnvironment({ DATABASE_URL: pooler.url, ...variables });
    const error = await connectService(pooler.url, environment).catch((fault: Error) => fault);
    expect(error).toBeInstanceOf(OperatorError);
    return (error as Error).message;
  }

  /** Sends many requests at once to two processes behind the pooler. @returns the statuses other than 2xx. */
  async function failuresOfTwo(variables: Record<string, string>): Promise<number[]> {
    const { key } = await administerKeys(url, (keys) => keys.issue('two'));
    const processes = await Promise.all(
      [1, 2].map(() => project.serve({ ...variables, DATABASE_URL: pooler.url })),
    );
    const send = async (base: string, path: string, idempotencyKey?: string) => {
      const headers = { Authorization: `Bearer ${key}`, 'Content-Type': 'application/json' };
      const answer = await fetch(
        new URL(path, base),
        path === '/v1/pets'
          ? {
              method: 'POST',
              body: '{"name":"Rex","categoryId":1}',
              headers: idempotencyKey ? { ...headers, 'Idempotency-Key': idempotencyKey } : headers,
            }
          : { headers },
      );
      await answer.body?.cancel();
      return answer.status;
    };
    await send(processes[0]!.base, '/v1/pets');
    const statuses: number[] = [];
    for (let round = 0; round < 20; round += 1) {
      statuses.push(
        ...(await Promise.all(
          processes.flatMap(({ base }) => [
            send(base, '/v1/pets?limit=20'),
            send(base, '/v1/pets?status=available&limit=3'),
            send(base, '/v1/pets/1'),
            send(base, '/v1/store/orders'),
            send(base, '/health/ready'),
            send(base, '/v1/pets'),
            // A new key, and that of the round before.
            send(base, '/v1/pets', `${base}-${round}`),
            send(base, '/v1/pets', `${base}-${round - 1}`),
          ]),
        )),
      );
    }
    for (const { program } of processes) {
      expect(await program.end('SIGINT')).toMatchObject({ code: 0 });
    }
    expect(statuses).toHaveLength(2 * 20 * 8);
    return statuses.filter((status) => status >= 300);
  }

  it('the service does not start unless it is told so, and names the variable', async () => {
    await setForSessions(REQUIRED);
    expect(await refusal({})).toMatch(/as poolers do\b.* DATABASE_POOLER=transaction/);
  });

  describe('that has the settings of the service', () => {
    const sessions = { ...REQUIRED, plan_cache_mode: 'force_generic_plan', enable_seqscan: 'off' };

    it.each([
      ['one session', {}],
      ['sessions, the last one first', { default_pool_size: 5, min_pool_size: 5 }],
      ['sessions in turn', { default_pool_size: 5, min_pool_size: 2, server_round_robin: 1 }],
    ])('it does not start either: %s', async (_which, settings) => {
      await setForSessions(sessions);
      await pooler.stop();
      pooler = await PgBouncer.before(url, settings);
      expect(await refusal({})).toMatch(
        /share sessions, as .*poolers\b.* DATABASE_POOLER=transaction/,
      );
    });

    it('two processes start and respond with 2xx if each connection has its session', async () => {
      await setForSessions(sessions);
      await pooler.stop();
      pooler = await PgBouncer.before(url, { pool_mode: 'session', default_pool_size: 20 });
      expect(await failuresOfTwo({})).toEqual([]);
    });
  });

  it('animal-store check says so too', async () => {
    await setForSessions(REQUIRED);
    const check = (variables: Record<string, string>) =>
      project.run('check', [], { DATABASE_URL: pooler.url, ...variables });
    const { code, stdout } = await check({});
    expect(code).toBe(1);
    expect(stdout).toMatch(/^FAIL {2}sessions: .*DATABASE_POOLER=transaction/m);
    expect((await check({ DATABASE_POOLER })).code).toBe(0);
  });

  it('it does not start without the settings that its role must have, and says how to set them', async () => {
    await setForSessions({ default_transaction_isolation: 'serializable' });
    const statements = (await refusal({ DATABASE_POOLER })).split('\n').slice(1);
    expect(statements.toSorted()).toEqual([
      `alter role postgres set default_transaction_isolation = 'read committed';`,
      `alter role postgres set jit = 'off';`,
      `alter role postgres set statement_timeout = '1500';`,
    ]);
  });

  it('two processes respond to all requests with 2xx', async () => {
    await setForSessions(REQUIRED);
    expect(await failuresOfTwo({ DATABASE_POOLER })).toEqual([]);
  });

  it('a statement that waits for too long is 503, and PostgreSQL gives it up', async () => {
    await setForSessions(REQUIRED);
    const service = await start();
    const locker = new Client({ connectionString: url }).on('error', () => {});
    await locker.connect();
    await locker.query('begin; lock table pets in access exclusive mode');
    expectError(await service.api.get('/v1/pets'), 503, 'unavailable', ['database']);
    const { rowCount } = await locker.query(
      `select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`,
    );
    expect(rowCount).toBe(0);
    await locker.query('rollback');
    await locker.end();
    await service.api.get('/v1/pets').expect(200);
  });

  it('commands read dates, whatever DateStyle the database has', async () => {
    await setForSessions({ datestyle: 'German, DMY' });
    const { id } = await administerKeys(pooler.url, (keys) => keys.issue('dated'));
    const listed = await administerKeys(pooler.url, (keys) => keys.list());
    expect(listed.find((key) => key.id === id)!.createdAt).toBeInstanceOf(Date);
    expect(listed).toEqual(await administerKeys(url, (keys) => keys.list()));
  });
});
