import { MIGRATION_NAMES } from '../../migrations/index.js';
import { connectToServe } from '../../src/database/connect.js';
import { readEnvironment } from '../../src/config/environment.js';
import { OperatorError } from '../../src/errors/operator-error.js';
import { revertMigration, runMigrations } from '../../src/schema/migrations.js';
import { query } from '../support/ask.js';
import { Project } from '../support/project.js';
import { describeWith } from '../support/describe-with.js';
import { PgBouncer } from '../support/pgbouncer.js';
import {
  createDatabase,
  createMigratedDatabase,
  dropDatabase,
  onServer,
  startService,
  type TestService,
} from '../support/service.js';

const describeWithPgBouncer = describeWith('pgbouncer');

const DATABASE_POOLER = 'transaction';

describeWithPgBouncer('behind PgBouncer in transaction mode', () => {
  /** What the settings of the role would be, of the database. */
  const REQUIRED = { jit: 'off', statement_timeout: '1500ms' };
  let url: string;
  let pooler: PgBouncer;
  beforeAll(async () => {
    url = await createMigratedDatabase();
  });
  afterAll(() => dropDatabase(url));
  beforeEach(async () => {
    pooler = await PgBouncer.before(url);
  });
  afterEach(() => pooler.stop());

  async function setForSessions(settings: Record<string, string>): Promise<void> {
    const name = new URL(url).pathname.slice(1);
    await onServer(`alter database ${name} reset all`);
    for (const [setting, value] of Object.entries(settings)) {
      await onServer(`alter database ${name} set ${setting} = '${value}'`);
    }
  }

  async function refusal(variables: Record<string, string>): Promise<string> {
    const environment = readEnvironment({ DATABASE_URL: pooler.url, ...variables });
    const error = await connectToServe(pooler.url, environment).catch((cause: Error) => cause);
    expect(error).toBeInstanceOf(OperatorError);
    return (error as Error).message;
  }

  it.each([
    ['in transaction mode', {}],
    ['in session mode', { pool_mode: 'session', default_pool_size: 20 }],
  ])(
    'the service does not start unless it is told so, and changes no session: %s',
    async (_mode, settings) => {
      await pooler.stop();
      pooler = await PgBouncer.before(url, settings);
      await setForSessions({});
      expect(await refusal({})).toMatch(/^There is a pooler at .* DATABASE_POOLER=transaction\.$/);
      expect(await query(pooler.url, 'show statement_timeout')).toEqual([
        { statement_timeout: '0' },
      ]);
    },
  );

  it('the service does not start with a standby that is a pooler', async () => {
    const start = startService({ DATABASE_READ_URL: pooler.url }, url);
    await expect(start).rejects.toThrow(/^There is a pooler at/);
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

  it('it names the role that logs in, which has settings, not one that this role sets', async () => {
    await setForSessions({ role: 'pg_monitor' });
    const statements = (await refusal({ DATABASE_POOLER })).split('\n').slice(1);
    expect(statements).toContain(`alter role postgres set jit = 'off';`);
    await setForSessions({});
  });

  it('two services respond to all of many requests at once with 2xx', async () => {
    await setForSessions(REQUIRED);
    const services = [
      await startService({ DATABASE_POOLER }, pooler.url),
      await startService({ DATABASE_POOLER }, pooler.url),
    ];
    const post = ({ api }: TestService) =>
      api.post('/v1/pets').send({ name: 'Rex', categoryId: 1 });
    await post(services[0]!).expect(201);
    const statuses: number[] = [];
    for (let round = 0; round < 20; round += 1) {
      const requests = services.flatMap((service, i) => [
        service.api.get('/v1/pets?limit=20'),
        service.api.get('/v1/pets?status=available&limit=3'),
        service.api.get('/v1/pets/1'),
        service.api.get('/v1/store/orders'),
        service.api.get('/health/ready'),
        post(service),
        // A new key, and that of the round before.
        post(service).set('Idempotency-Key', `${i}-${round}`),
        post(service).set('Idempotency-Key', `${i}-${round - 1}`),
      ]);
      statuses.push(...(await Promise.all(requests)).map(({ status }) => status));
    }
    await Promise.all(services.map((service) => service.stop()));
    expect(statuses).toHaveLength(2 * 20 * 8);
    expect(statuses.filter((status) => status >= 300)).toEqual([]);
  });
});

describeWithPgBouncer('migrations through PgBouncer in transaction mode', () => {
  const REFUSAL = /migrations do not run through a pooler\. Set DATABASE_URL to /;
  const project = Project.ofTests();
  let url: string;
  let pooler: PgBouncer;
  beforeAll(async () => {
    url = await createDatabase();
    pooler = await PgBouncer.before(url);
  });
  afterAll(async () => {
    await pooler.stop();
    await dropDatabase(url);
  });

  /** What the pooled session was left with, and how many tables the database has. */
  const state = () =>
    query(
      pooler.url,
      `select current_setting('lock_timeout') as "lockTimeout",
              (select count(*)::int from pg_locks
                where locktype = 'advisory'
                  and database = (select oid from pg_database where datname = current_database())) as locks,
              (select count(*)::int from pg_tables where schemaname = 'public') as tables`,
    );

  it('are refused before anything is changed, and leave no lock and no setting behind', async () => {
    await expect(runMigrations(pooler.url)).rejects.toThrow(REFUSAL);
    expect(await state()).toEqual([{ lockTimeout: '0', locks: 0, tables: 0 }]);

    expect(await runMigrations(url)).toEqual(MIGRATION_NAMES);
    const migrated = await state();
    await expect(revertMigration(pooler.url)).rejects.toThrow(REFUSAL);
    expect(await state()).toEqual(migrated);
  });

  it('are not applied by a process that starts, which says how to apply them', async () => {
    while (!(await revertMigration(url))!.startsWith('CreateIdempotencyKeys'));
    const variables = { DATABASE_URL: pooler.url, MIGRATE_ON_START: 'true' };
    for (const [pooler, message] of [
      [
        DATABASE_POOLER,
        /pending migrations: .+\n.* npm run migration:run, without the pooler\. .*$/m,
      ],
      ['', REFUSAL],
    ] as const) {
      const pooled = { ...variables, DATABASE_POOLER: pooler };
      const { code, stderr } = await project.run('serve', [], pooled);
      expect([code, stderr]).toEqual([1, expect.stringMatching(message)]);
    }
    expect(await query(url, 'select name from migrations')).toHaveLength(2);
  });
});
