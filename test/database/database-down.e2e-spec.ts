import { Client } from 'pg';
import { newApiKey } from '../../src/api-key.js';
import { type Answer, expectError } from '../support/answers.js';
import { query } from '../support/ask.js';
import { until } from '../support/until.js';
import {
  createMigratedDatabase,
  dropDatabase,
  startService,
  type TestService,
} from '../support/service.js';
import { Wire } from '../support/wire.js';

describe('while the database cannot serve', () => {
  let service: TestService;
  let wire: Wire;
  let url: string;
  let database: string;
  beforeAll(async () => {
    wire = await Wire.to(process.env['TEST_DATABASE_URL']!);
    url = await createMigratedDatabase(wire.url);
    database = new URL(url).pathname.slice(1);
    service = await startService({}, url);
    await create().expect(201);
  });
  afterAll(async () => {
    await service.stop();
    wire.cut();
    await dropDatabase(url);
  });

  /** Runs statements on another database of the server. @returns the rows of the last one. */
  const onServer = (...statements: string[]) =>
    query(process.env['TEST_DATABASE_URL']!, ...statements);

  /** Changes the database, and ends the sessions of the service, which do not have the change. */
  const change = (sql: string) =>
    onServer(
      sql.replace('DB', database),
      `select pg_terminate_backend(pid) from pg_stat_activity
        where datname = '${database}' and application_name = 'animal-store'`,
    );

  const create = () => service.api.post('/v1/pets').send({ name: 'Rex', categoryId: 1 });
  const ready = () => service.anonymous.get('/health/ready');

  function expectUnavailable(answer: Answer): void {
    expectError(answer, 503, 'unavailable', ['database', 'try again']);
    expect(answer.headers['retry-after']).toMatch(/^[1-9][0-9]*$/);
  }

  async function expectRecovery(): Promise<void> {
    await until('the service recovers', async () => {
      const answer = await service.api.get('/v1/pets');
      if (answer.status !== 200) {
        expectUnavailable(answer);
      }
      return answer.status === 200;
    });
    await service.api.get('/v1/pets/1').expect(200);
    await create().expect(201);
    await ready().expect(200);
  }

  it('out of reach: what needs it is 503 with a warning, what does not is answered, and all recovers', async () => {
    service.log.length = 0;
    const mend = wire.cut();
    for (const request of [
      service.api.get('/v1/pets'),
      service.api.get('/v1/pets/1'),
      create(),
      service.anonymous.get('/v1/pets').set('Authorization', `Bearer ${newApiKey()}`),
      ready(),
    ]) {
      expectUnavailable(await request);
    }
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
    await expectRecovery();
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
    await expectRecovery();
  });

  it('read-only: lists are answered, createPet is 503, and readiness says no', async () => {
    await change('alter database DB set default_transaction_read_only = on');
    await until(
      'the sessions are new',
      async () => (await service.api.get('/v1/pets')).status === 200,
    );
    expectUnavailable(await create());
    expectError(await ready(), 503, 'unavailable', ['read-only']);
    await change('alter database DB reset default_transaction_read_only');
    await expectRecovery();
  });

  it('ending connections, idle or under a statement: 503, and they are replaced', async () => {
    await Promise.all(Array.from({ length: 20 }, () => service.api.get('/v1/pets').expect(200)));
    const locker = new Client({ connectionString: url });
    await locker.connect();
    await locker.query('begin; lock table pets in access exclusive mode');
    const answers = ['/v1/pets', '/v1/pets/1'].map((path) =>
      service.api.get(path).then((it) => it),
    );
    await until('both wait', async () => {
      const waiting = `select from pg_stat_activity where datname = '${database}' and wait_event_type = 'Lock'`;
      return (await onServer(waiting)).length === answers.length;
    });
    await change('select');
    (await Promise.all(answers)).forEach(expectUnavailable);
    await locker.end();
    await expectRecovery();
  });
});
