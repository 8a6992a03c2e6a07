import { DataSource } from 'typeorm';
import { readEnvironment } from '../../src/config/environment.js';
import { connectToServe } from '../../src/database/connect.js';
import { OperatorError } from '../../src/errors/operator-error.js';
import { runMigrations } from '../../src/schema/migrations.js';
import { query } from '../support/ask.js';
import { catalog } from '../support/catalog.js';
import { describeWith } from '../support/describe-with.js';
import { createMigratedDatabase, dropDatabase, revertLast } from '../support/database.js';
import { pgBouncerBefore, setForSessions } from '../support/pooler.js';
import { startService, type TestService } from '../support/service.js';

const DATABASE_POOLER = 'transaction';

describeWith('pgbouncer')('behind PgBouncer in transaction mode', () => {
  let url: string;
  let pooler: Awaited<ReturnType<typeof pgBouncerBefore>>;
  beforeEach(async () => {
    url = await createMigratedDatabase();
    pooler = await pgBouncerBefore(url, 1);
  });
  afterEach(async () => {
    await pooler.stop();
    await dropDatabase(url);
  });

  async function refusal(variables: Record<string, string>): Promise<string> {
    const environment = readEnvironment({ DATABASE_URL: pooler.url, ...variables });
    const attempts = jest.spyOn(DataSource.prototype, 'initialize');
    const error = await connectToServe(pooler.url, environment).catch((cause: Error) => cause);
    expect(error).toBeInstanceOf(OperatorError);
    // The first one looks for Citus. Another one would fail, too.
    expect(attempts).toHaveBeenCalledTimes(2);
    attempts.mockRestore();
    return (error as Error).message;
  }

  it('the service does not start unless it is told so, and changes no session', async () => {
    expect(await refusal({})).toMatch(/^There is a pooler at .* DATABASE_POOLER=transaction\.$/);
    // The pooler itself sets the others.
    const changed = `select name from pg_settings where source = 'session' and name !~ 'DateStyle|application_name'`;
    expect(await query(pooler.url, changed)).toEqual([]);
  });

  it('it does not start without the settings that its role must have, and says how to set them for the role that logs in', async () => {
    await setForSessions(url, {
      default_transaction_isolation: 'serializable',
      role: 'pg_monitor',
    });
    const statements = (await refusal({ DATABASE_POOLER })).split('\n').slice(1);
    expect(statements.toSorted()).toEqual([
      `alter role postgres set default_transaction_isolation = 'read committed';`,
      `alter role postgres set jit = 'off';`,
      `alter role postgres set statement_timeout = '1500';`,
    ]);
  });

  it('two services respond to all of many requests at once with 2xx', async () => {
    await setForSessions(url, { jit: 'off', statement_timeout: '1500ms' });
    const start = () => startService({ DATABASE_POOLER }, pooler.url);
    const services = [await start(), await start()];
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

  it('migrations are refused before anything is changed, settings too', async () => {
    const refused = /migrations do not run through a pooler\. Set DATABASE_URL to /;
    // Of the one session that all clients of the pooler share.
    await query(pooler.url, `set statement_timeout = '77s'`);
    const migrated = await catalog(url);
    await expect(revertLast(pooler.url)).rejects.toThrow(refused);
    expect(await catalog(url)).toEqual(migrated);
    while (!(await revertLast(url)).startsWith('CreateIdempotencyKeys'));
    const reverted = await catalog(url);
    await expect(runMigrations(pooler.url)).rejects.toThrow(refused);
    expect(await catalog(url)).toEqual(reverted);
    expect(await query(pooler.url, 'show statement_timeout')).toEqual([
      { statement_timeout: '77s' },
    ]);
  });
});
