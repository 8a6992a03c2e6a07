import { Client } from 'pg';
import { MIGRATION_NAMES } from '../../migrations/index.js';
import { administerKeys } from '../../src/auth/api-keys.js';
import { connectService } from '../../src/cli/serving-database.js';
import { readEnvironment } from '../../src/config/environment.js';
import { OperatorError } from '../../src/errors/operator-error.js';
import { revertMigration, runMigrations } from '../../src/schema/migrations.js';
import { expectError } from '../support/answers.js';
import { query } from '../support/ask.js';
import { Project } from '../support/project.js';
import { hasPgBouncer, PgBouncer } from '../support/pgbouncer.js';
import {
  createDatabase,
  createMigratedDatabase,
  dropDatabase,
  onServer,
  startService,
} from '../support/service.js';

if (!hasPgBouncer()) {
  console.warn('Poolers are not tested: there is no PgBouncer.');
}

// A developer's machine may have no PgBouncer; in CI, where these tests must run, hasPgBouncer() fails without it.
const describeWithPgBouncer = hasPgBouncer() ? describe : describe.skip;

const DATABASE_POOLER = 'transaction';

describeWithPgBouncer('behind PgBouncer in transaction mode', () => {
  /** What the settings of the role would be, of the database. */
  const REQUIRED = { jit: 'off', statement_timeout: '1500ms' };
  const project = Project.ofTests();
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
    const error = await connectService(pooler.url, environment).catch((cause: Error) => cause);
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
    await expect(start).rejects.toThrow(OperatorError);
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

  it('two processes respond to all of many requests at once with 2xx', async () => {
    await setForSessions(REQUIRED);
    const { key } = await administerKeys(url, (keys) => keys.issue('two'));
    const variables = { DATABASE_POOLER, DATABASE_URL: pooler.url };
    const processes = await Promise.all([1, 2].map(() => project.serve(variables)));
    const headers = { Authorization: `Bearer ${key}`, 'Content-Type': 'application/json' };
    const send = async (address: string, init?: RequestInit) => {
      const answer = await fetch(address, { headers, ...init });
      await answer.body?.cancel();
      return answer.status;
    };
    const create = (base: string, more = {}) =>
      send(`${base}/pets`, {
        method: 'POST',
        body: '{"name":"Rex","categoryId":1}',
        headers: { ...headers, ...more },
      });
    await create(processes[0]!.base);
    const statuses: number[] = [];
    for (let round = 0; round < 20; round += 1) {
      const answers = processes.flatMap(({ base }) => [
        send(`${base}/pets?limit=20`),
        send(`${base}/pets?status=available&limit=3`),
        send(`${base}/pets/1`),
        send(`${base}/store/orders`),
        send(new URL('/health/ready', base).href),
        create(base),
        // A new key, and that of the round before.
        create(base, { 'Idempotency-Key': `${base}-${round}` }),
        create(base, { 'Idempotency-Key': `${base}-${round - 1}` }),
      ]);
      statuses.push(...(await Promise.all(answers)));
    }
    for (const { program } of processes) {
      expect(await program.end('SIGINT')).toMatchObject({ code: 0 });
    }
    expect(statuses).toHaveLength(2 * 20 * 8);
    expect(statuses.filter((status) => status >= 300)).toEqual([]);
  });

  it('a statement that waits for too long is 503, and PostgreSQL gives it up', async () => {
    await setForSessions(REQUIRED);
    const service = await startService({ DATABASE_POOLER }, pooler.url);
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
    await service.stop();
  });

  it('commands read dates, whatever DateStyle the database has', async () => {
    await setForSessions({ datestyle: 'German, DMY' });
    const { id } = await administerKeys(pooler.url, (keys) => keys.issue('dated'));
    const listed = await administerKeys(pooler.url, (keys) => keys.list());
    expect(listed.find((key) => key.id === id)!.createdAt).toBeInstanceOf(Date);
    expect(listed).toEqual(await administerKeys(url, (keys) => keys.list()));
  });
});

describeWithPgBouncer('migrations through PgBouncer in transaction mode', () => {
  const REFUSAL =
    'Nothing was changed: migrations do not run through a pooler. ' +
    "Set DATABASE_URL to PostgreSQL's own address for this command, and DATABASE_POOLER to nothing.";
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
  const migrate = (args: string[], variables: Record<string, string>) =>
    project.run('migrate', args, { DATABASE_URL: pooler.url, ...variables });

  it('are refused before anything is changed, and leave no lock and no setting behind', async () => {
    for (const refused of [() => runMigrations(pooler.url), () => revertMigration(pooler.url)]) {
      await expect(refused()).rejects.toThrow(new OperatorError(REFUSAL));
    }
    const outcome = await migrate(['run'], {});
    expect(outcome).toMatchObject({ code: 1, stdout: '' });
    expect(outcome.stderr).toMatch(/^Database .+\n.+\n$/);
    expect(outcome.stderr).toContain(REFUSAL);
    expect(await state()).toEqual([{ lockTimeout: '0', locks: 0, tables: 0 }]);

    expect(await runMigrations(url)).toEqual(MIGRATION_NAMES);
    const migrated = await state();
    const reverted = await migrate(['revert', '--yes'], {});
    expect([reverted.code, reverted.stderr]).toEqual([1, expect.stringContaining(REFUSAL)]);
    expect(await state()).toEqual(migrated);
  });

  it('are refused too if the configuration says that there is a pooler', async () => {
    const direct = { DATABASE_URL: url, DATABASE_POOLER };
    for (const args of [['run'], ['revert', '--yes']]) {
      const { code, stderr } = await migrate(args, direct);
      expect([code, stderr]).toEqual([1, expect.stringContaining(REFUSAL)]);
    }
    expect((await migrate(['run'], { ...direct, DATABASE_POOLER: '' })).code).toBe(0);
  });

  it('are listed and printed', async () => {
    const shown = await migrate(['show', '--check'], { DATABASE_POOLER });
    expect([shown.code, shown.stdout]).toEqual([0, expect.stringContaining(MIGRATION_NAMES[0]!)]);
    const printed = await migrate(['sql', '--revert'], { DATABASE_POOLER });
    expect([printed.code, printed.stdout]).toEqual([
      0,
      expect.stringContaining('-- Down migration of '),
    ]);
  });

  it('are not applied by a process that starts, which says how to apply them', async () => {
    while (!(await revertMigration(url))!.startsWith('CreateIdempotencyKeys'));
    const variables = { DATABASE_URL: pooler.url, MIGRATE_ON_START: 'true' };
    for (const [pooled, message] of [
      [
        { DATABASE_POOLER },
        /pending migrations: .+\n.* npm run migration:run, without the pooler\.$/m,
      ],
      [{}, REFUSAL],
    ] as const) {
      const { code, stderr } = await project.run('serve', [], { ...variables, ...pooled });
      expect(code).toBe(1);
      expect(stderr).toMatch(message);
    }
    expect(await query(url, 'select name from migrations')).toHaveLength(2);
  });
});
