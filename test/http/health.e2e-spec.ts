import { type Answer, expectError } from '../support/answers.js';
import { Wire } from '../support/wire.js';
import { until } from '../support/until.js';
import {
  createMigratedDatabase,
  dropDatabase,
  startService,
  type TestService,
} from '../support/service.js';

describe('health', () => {
  let service: TestService;
  let wire: Wire;
  beforeAll(async () => {
    wire = await Wire.to(process.env['TEST_DATABASE_URL']!);
    service = await startService({}, await createMigratedDatabase(wire.url));
  });
  afterAll(async () => {
    await service.stop();
    wire.cut();
    await dropDatabase(service.databaseUrl);
  });

  const live = () => service.anonymous.get('/health/live');
  const ready = () => service.anonymous.get('/health/ready');

  function expectNotReady(answer: Answer, words: string[]): void {
    expectError(answer, 503, 'unavailable', words);
    expect(answer.headers['retry-after']).toBe('1');
  }

  it.each(['', 'Bearer abc', 'Basic x'])(
    'is told whatever the Authorization: %j',
    async (value) => {
      const answers = [live(), ready()].map((request) => request.set('Authorization', value));
      const [liveAnswer, readyAnswer] = await Promise.all(answers);
      expect([liveAnswer!.status, liveAnswer!.text]).toEqual([200, '{"status":"live"}']);
      expect([readyAnswer!.status, readyAnswer!.text]).toEqual([200, '{"status":"ready"}']);
    },
  );

  it('is live, not ready, while a migration is pending that pets need', async () => {
    const [{ name, timestamp }] = await service.query(
      `delete from migrations where name like 'CreateIdempotencyKeys%' returning *`,
    );
    expectNotReady(await ready(), [`pending migrations: ${name}`]);
    await live().expect(200);
    await service.query('insert into migrations (timestamp, name) values ($1, $2)', [
      timestamp,
      name,
    ]);
    await ready().expect(200);
  });

  it('is live, not ready, on a database that was never migrated', async () => {
    await service.query('alter table migrations rename to hidden');
    expectNotReady(await ready(), ['pending migrations']);
    await live().expect(200);
    await service.query('alter table hidden rename to migrations');
    await ready().expect(200);
  });

  it('is ready on a database that has a later migration too', async () => {
    await service.query(
      `insert into migrations (timestamp, name) values (9999999999999, 'Later9999999999999')`,
    );
    await ready().expect(200);
  });

  it('is live, not ready, where it may not look at the migrations', async () => {
    await service.query('alter table migrations rename column name to hidden');
    expectNotReady(await ready(), ['database']);
    await live().expect(200);
    await service.query('alter table migrations rename column hidden to name');
    await ready().expect(200);
  });

  it('is live, not ready, while the database is out of reach', async () => {
    const mend = wire.cut();
    expectNotReady(await ready(), ['database']);
    await live().expect(200);
    await mend();
    await ready().expect(200);
  });

  it('and the operations have a line in the log with the reason, once, while the database is out of reach', async () => {
    const mend = wire.cut();
    service.log.length = 0;
    const requests = [(await ready()).headers, (await service.api.get('/v1/pets')).headers];
    await mend();
    expect(
      service.log.map((line) => JSON.parse(line)).filter(({ level }) => level === 'warn'),
    ).toEqual(
      requests.map((headers) => ({
        level: 'warn',
        time: expect.any(String),
        request: headers['x-request-id'],
        reason: expect.stringMatching(/^connect ECONNREFUSED [\d.:]+$/),
        msg: 'A request was rejected with 503',
      })),
    );
    await ready().expect(200);
  });

  it("is live, not ready, while creates find the database's disk full, and lists go on", async () => {
    const create = () => service.api.post('/v1/pets').send({ name: 'Rex', categoryId: 1 });
    await service.query(`create function no_room() returns trigger language plpgsql as
      $$ begin raise exception 'No space left on device' using errcode = 'disk_full'; end $$`);
    await service.query(
      'create trigger no_room before insert on pets for each row execute function no_room()',
    );
    await ready().expect(200);
    expectError(await create(), 503, 'unavailable', ['database']);
    expectNotReady(await ready(), ['disk']);
    await live().expect(200);
    await service.api.get('/v1/pets').expect(200);
    await service.query('drop trigger no_room on pets');
    await create().expect(201);
    await until('the service is ready', async () => (await ready()).status === 200);
  });

  it.each(['/v1/health/live', '/v1/health/ready'])('is not at %s', async (path) => {
    expectError(await service.api.get(path), 404, 'route_not_found');
  });
});
