import { connectToServe } from '../../src/database/connect.js';
import { readEnvironment } from '../../src/config/environment.js';
import { OperatorError } from '../../src/errors/operator-error.js';
import { requireMigrated, revertMigration, runMigrations } from '../../src/schema/migrations.js';
import { ask, query } from '../support/ask.js';
import { catalog } from '../support/catalog.js';
import { describeWith } from '../support/describe-with.js';
import { createGrantedRole, dropGrantedRole } from '../support/granted-role.js';
import { PgBouncer } from '../support/pgbouncer.js';
import {
  createMigratedDatabase,
  dropDatabase,
  onServer,
  startService,
  type TestService,
} from '../support/service.js';

const DATABASE_POOLER = 'transaction';

describeWith('pgbouncer')('behind PgBouncer in transaction mode', () => {
  /** What the settings of the role would be, of the database. */
  const REQUIRED = { jit: 'off', statement_timeout: '1500ms' };
  let url: string;
  let pooler: PgBouncer;
  beforeEach(async () => {
    url = await createMigratedDatabase();
    pooler = await PgBouncer.before(url);
  });
  afterEach(async () => {
    await pooler.stop();
    await dropDatabase(url);
  });

  /** Before the pooler has sessions. */
  const setForSessions = async (settings: Record<string, string>) => {
    const name = new URL(url).pathname.slice(1);
    for (const [setting, value] of Object.entries(settings)) {
      await onServer(`alter database ${name} set ${setting} = '${value}'`);
    }
  };

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
      expect(await refusal({})).toMatch(/^There is a pooler at .* DATABASE_POOLER=transaction\.$/);
      const left = await ask(pooler.url, 'show statement_timeout');
      expect(left).toEqual({ statement_timeout: '0' });
    },
  );

  it('the service does not start with a standby that is a pooler', async () => {
    const start = startService({ DATABASE_READ_URL: pooler.url }, url);
    await expect(start).rejects.toThrow(/^There is a pooler at/);
  });

  it('it does not start without the settings that its role must have, and says how to set them for the role that logs in', async () => {
    await setForSessions({ default_transaction_isolation: 'serializable', role: 'pg_monitor' });
    const statements = (await refusal({ DATABASE_POOLER })).split('\n').slice(1);
    expect(statements.toSorted()).toEqual([
      `alter role postgres set default_transaction_isolation = 'read committed';`,
      `alter role postgres set jit = 'off';`,
      `alter role postgres set statement_timeout = '1500';`,
    ]);
  });

  it('with row-level security, the service is not ready without its setting, and says why', async () => {
    await setForSessions(REQUIRED);
    await query(url, 'alter table pets enable row level security');
    const ofRole = await PgBouncer.before(await createGrantedRole(url));
    const service = await startService({ DATABASE_POOLER }, ofRole.url, { owner: url });
    const { text } = await service.anonymous.get('/health/ready').expect(503);
    expect(text).toContain('lacks: select on pets (row-level security could hide rows');
    await query(url, 'alter table pets disable row level security');
    await service.anonymous.get('/health/ready').expect(200);
    await service.stop();
    await ofRole.stop();
    await dropGrantedRole(url);
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
    expect(statuses.filter((status) => status >= 300)).toEqual([]);
  });

  it('migrations are refused before anything is changed, and leave no lock and no setting behind; a start says how to apply them', async () => {
    const refused = /migrations do not run through a pooler\. Set DATABASE_URL to /;
    const before = await catalog(url);
    await expect(revertMigration(pooler.url)).rejects.toThrow(refused);
    expect(await catalog(url)).toEqual(before);
    while (!(await revertMigration(url))!.startsWith('CreateIdempotencyKeys'));
    const reverted = await catalog(url);
    await expect(runMigrations(pooler.url)).rejects.toThrow(refused);
    const start = (DATABASE_POOLER: string) => {
      const variables = { DATABASE_URL: pooler.url, MIGRATE_ON_START: 'true', DATABASE_POOLER };
      return requireMigrated(pooler.url, readEnvironment(variables));
    };
    await expect(start('')).rejects.toThrow(refused);
    await expect(start(DATABASE_POOLER)).rejects.toThrow(
      /pending migrations: .+\n.* npm run migration:run, without the pooler\. .*$/m,
    );
    expect(await catalog(url)).toEqual(reverted);
    const left = `select current_setting('lock_timeout') as timeout, count(*)::int as locks from pg_locks
      where locktype = 'advisory' and database = (select oid from pg_database where datname = current_database())`;
    expect(await ask(pooler.url, left)).toEqual({ timeout: '0', locks: 0 });
  });
});
