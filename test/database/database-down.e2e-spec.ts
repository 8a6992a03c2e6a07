import { Client } from 'pg';
import { newApiKey } from '../../src/api-key.js';
import { type Answer, expectError } from '../support/answers.js';
import { until } from '../support/until.js';
import {
  createMigratedDatabase,
  dropDatabase,
  onServer,
  startService,
  type TestService,
} from '../support/service.js';
import { Wire } from '../support/wire.js';

describe('while the database cannot serve', () => {
  let service: TestService;
  let wire: Wire;
  let operator: Client;
  /** Holds a lock: another session, because PostgreSQL shows a transaction one state of its activity. */
  let locker: Client;
  beforeAll(async () => {
    wire = await Wire.to(process.env['TEST_DATABASE_URL']!);
    service = await startService({}, await createMigratedDatabase(wire.url));
    await service.api.post('/v1/pets').send({ name: 'Rex', categoryId: 1 }).expect(201);
  });
  afterAll(async () => {
    await service.stop();
    wire.cut();
    await dropDatabase(service.databaseUrl);
  });
  beforeEach(async () => {
    [operator, locker] = [0, 1].map(() =>
      new Client({ connectionString: service.databaseUrl }).on('error', () => {}),
    ) as [Client, Client];
    await operator.connect();
    await locker.connect();
  });
  afterEach(() => Promise.all([operator.end(), locker.end()]));

  const lockPets = () => locker.query('begin; lock table pets in access exclusive mode');

  const terminate = (where: string) =>
    operator.query(
      `select pg_terminate_backend(pid) from pg_stat_activity
        where datname = current_database() and application_name = 'animal-store' and ${where}`,
    );

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
    await service.api.post('/v1/pets').send({ name: 'Rex', categoryId: 1 }).expect(201);
    await service.anonymous.get('/health/ready').expect(200);
  }

  it('out of reach: what needs it is 503, what does not is answered, and all recovers', async () => {
    const mend = wire.cut();
    for (const request of [
      service.api.get('/v1/pets'),
      service.api.get('/v1/pets/1'),
      service.api.post('/v1/pets').send({ name: 'Rex', categoryId: 1 }),
      service.anonymous.get('/v1/pets').set('Authorization', `Bearer ${newApiKey()}`),
      service.anonymous.get('/health/ready'),
    ]) {
      expectUnavailable(await request);
    }
    await service.anonymous.get('/health/live').expect(200);
    expectError(await service.anonymous.get('/v1/pets'), 401, 'missing_api_key');
    expectError(await service.anonymous.get('/nowhere'), 404, 'route_not_found');
    const malformed = service.anonymous.get('/v1/pets').set('Authorization', 'Bearer abc');
    expectError(await malformed, 401, 'invalid_api_key');
    await mend();
    await expectRecovery();
  });

  it('silent: what waits for it is told so too, not that the service is overloaded', async () => {
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
    const database = new URL(service.databaseUrl).pathname.slice(1);
    await operator.query(`alter database ${database} set default_transaction_read_only = on`);
    await terminate('true');
    await until(
      'the sessions are new',
      async () => (await service.api.get('/v1/pets')).status === 200,
    );
    expectUnavailable(await service.api.post('/v1/pets').send({ name: 'Rex', categoryId: 1 }));
    const ready = await service.anonymous.get('/health/ready');
    expectError(ready, 503, 'unavailable', ['read-only']);
    await service.anonymous.get('/health/live').expect(200);
    await operator.query('set default_transaction_read_only = off');
    await operator.query(`alter database ${database} reset default_transaction_read_only`);
    await terminate('true');
    await expectRecovery();
  });

  it('slow: each answer is 200, or 503 within 5 seconds', async () => {
    await lockPets();
    const since = performance.now();
    const answers = await Promise.all(
      Array.from({ length: 50 }, (_, i) =>
        i % 2 === 0
          ? service.api.get('/v1/pets')
          : service.api
              .post('/v1/pets')
              .set('Idempotency-Key', `slow-${i}`)
              .send({ name: 'Rex', categoryId: 1 }),
      ),
    );
    expect(performance.now() - since).toBeLessThan(5_000);
    answers.forEach((answer) => expectError(answer, 503, 'unavailable'));
    await locker.query('rollback');
    await expectRecovery();
  });

  it('ending connections under a statement: 503, and all recovers', async () => {
    await lockPets();
    const answers = ['/v1/pets', '/v1/pets/1'].map((path) =>
      service.api.get(path).then((it) => it),
    );
    await until('both wait', async () => {
      const { rowCount } = await operator.query(
        `select from pg_stat_activity
          where datname = current_database() and wait_event_type = 'Lock'`,
      );
      return rowCount === answers.length;
    });
    await terminate(`wait_event_type = 'Lock'`);
    (await Promise.all(answers)).forEach(expectUnavailable);
    await locker.query('rollback');
    await expectRecovery();
  });

  it('ending idle connections: they are replaced', async () => {
    await Promise.all(Array.from({ length: 20 }, () => service.api.get('/v1/pets').expect(200)));
    await terminate('true');
    await expectRecovery();
  });

  it('taking too long for a statement: 503', async () => {
    await lockPets();
    expectUnavailable(await service.api.get('/v1/pets'));
    await locker.query('rollback');
    await expectRecovery();
  });

  it('taking no connections: what needs it is 503, readiness too, and all recovers', async () => {
    const name = new URL(service.databaseUrl).pathname.slice(1);
    await onServer(`alter database ${name} allow_connections false`);
    await terminate('true');
    for (const request of [
      service.api.get('/v1/pets/1'),
      service.api.post('/v1/pets').send({ name: 'Rex', categoryId: 1 }),
      service.anonymous.get('/health/ready'),
    ]) {
      expectUnavailable(await request);
    }
    await onServer(`alter database ${name} allow_connections true`);
    await expectRecovery();
  });

  it('with other defaults for its sessions: they have what the service relies on', async () => {
    const name = new URL(service.databaseUrl).pathname.slice(1);
    const settings = { jit: 'off', default_transaction_isolation: 'read committed' };
    await operator.query(
      `alter database ${name} set default_transaction_isolation = 'serializable'`,
    );
    await terminate('true');
    await expectRecovery();
    for (const [setting, value] of Object.entries(settings)) {
      expect(await service.query(`show ${setting}`)).toEqual([{ [setting]: value }]);
    }
    await operator.query(`alter database ${name} reset default_transaction_isolation`);
  });

  it('busy beyond statement_timeout, as in a commit: it is told to give up', async () => {
    const error = await service
      .query('set statement_timeout = 0; select pg_sleep(60)')
      .catch((fault: Error) => fault);
    expect(error).toHaveProperty('message', 'Connection terminated');
    await until('no session is left with it', async () => {
      const { rowCount } = await operator.query(
        `select from pg_stat_activity where query like 'set %; select pg_sleep(60)'`,
      );
      return rowCount === 0;
    });
    await expectRecovery();
  });

  it('out of reach: the log has warnings, no errors', async () => {
    service.log.length = 0;
    const mend = wire.cut();
    expectUnavailable(await service.anonymous.get('/health/ready'));
    const levels = service.log.map((line) => JSON.parse(line).level);
    expect(levels).toContain('warn');
    expect(levels).not.toContain('error');
    await mend();
    await expectRecovery();
  });
});
