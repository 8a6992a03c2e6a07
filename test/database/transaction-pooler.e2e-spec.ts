import { Client } from 'pg';
import { ApiKey } from '../../src/auth/api-key.entity.js';
import { ApiKeys } from '../../src/auth/api-keys.js';
import { readEnvironment } from '../../src/config/environment.js';
import { administer, connectToServe } from '../../src/database/database.js';
import { runMigrations } from '../../src/database/migrations.js';
import { OperatorError } from '../../src/errors/operator-error.js';
import { expectError } from '../answers.js';
import {
  createDatabase,
  dropDatabase,
  onServer,
  startService,
  type TestService,
} from '../service.js';
import { Project } from '../process/project.js';
import { hasPgBouncer, PgBouncer } from './pgbouncer.js';

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
  beforeAll(async () => {
    url = await createDatabase();
    await runMigrations(url);
  });
  afterAll(() => dropDatabase(url));
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
    const error = await connectToServe(pooler.url, environment).catch((fault: Error) => fault);
    expect(error).toBeInstanceOf(OperatorError);
    return (error as Error).message;
  }

  it('the service does not start unless it is told so, and names the variable', async () => {
    await setForSessions(REQUIRED);
    expect(await refusal({})).toMatch(/as poolers do\b.* DATABASE_POOLER=transaction/);
  });

  it('animal-store check says so too', async () => {
    await setForSessions(REQUIRED);
    const project = await Project.create();
    const check = (variables: Record<string, string>) =>
      project.run('check', [], { DATABASE_URL: pooler.url, ...variables });
    const { code, stdout } = await check({});
    expect(code).toBe(1);
    expect(stdout).toMatch(/^FAIL {2}sessions: .*DATABASE_POOLER=transaction/m);
    expect((await check({ DATABASE_POOLER })).code).toBe(0);
    await project.remove();
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

  it('two instances respond to all requests with 2xx', async () => {
    await setForSessions(REQUIRED);
    await start();
    await start();
    const pet = { name: 'Rex', categoryId: 1 };
    await services[0]!.api.post('/v1/pets').send(pet).expect(201);
    const statuses: number[] = [];
    for (let round = 0; round < 20; round += 1) {
      const responses = await Promise.all(
        services.flatMap(({ api, anonymous }, instance) => [
          api.get('/v1/pets'),
          api.get('/v1/pets?status=available&limit=3'),
          api.get('/v1/pets/1'),
          api.get('/v1/store/orders'),
          anonymous.get('/health/ready'),
          api.post('/v1/pets').send(pet),
          // A new key, and that of the round before.
          ...[round, round - 1].map((number) =>
            api.post('/v1/pets').set('Idempotency-Key', `${instance}-${number}`).send(pet),
          ),
        ]),
      );
      statuses.push(...responses.map(({ status }) => status));
    }
    expect(statuses.filter((status) => status >= 300)).toEqual([]);
    expect(statuses).toHaveLength(2 * 20 * 8);
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
    const keys = <T>(through: string, work: (keys: ApiKeys) => Promise<T>) =>
      administer(through, (dataSource) => work(new ApiKeys(dataSource.getRepository(ApiKey))));
    const { id } = await keys(pooler.url, (all) => all.issue('dated'));
    const listed = await keys(pooler.url, (all) => all.list());
    expect(listed.find((key) => key.id === id)!.createdAt).toBeInstanceOf(Date);
    expect(listed).toEqual(await keys(url, (all) => all.list()));
  });
});
