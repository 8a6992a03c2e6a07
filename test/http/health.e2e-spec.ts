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

  /** @returns why it is not. */
  function expectNotReady(answer: Answer): string {
    expectError(answer, 503, 'unavailable');
    expect(answer.headers['retry-after']).toBe('1');
    return JSON.parse(answer.text).message;
  }

  it.each(['', 'Bearer abc', 'Basic x'])('needs no key: Authorization: %j', async (value) => {
    const answers = [live(), ready()].map((request) => request.set('Authorization', value));
    const texts = (await Promise.all(answers)).map(({ text }) => text);
    expect(texts).toEqual(['{"status":"live"}', '{"status":"ready"}']);
  });

  it.each([
    [
      'a migration is pending that pets need',
      `update migrations set name = '-' || name where name like 'CreateIdempotencyKeys%'`,
      `update migrations set name = substr(name, 2) where name like '-%'`,
      /pending migrations: CreateIdempotencyKeys\d+/,
    ],
    [
      'the database was never migrated',
      'alter table migrations rename to hidden',
      'alter table hidden rename to migrations',
      /pending migrations/,
    ],
    [
      'it may not look at the migrations',
      'alter table migrations rename column name to hidden',
      'alter table migrations rename column hidden to name',
      /database/,
    ],
  ])('is live, not ready, while %s', async (_what, change, revert, reason) => {
    await service.query(change);
    expect(expectNotReady(await ready())).toMatch(reason);
    await live().expect(200);
    await service.query(revert);
    await ready().expect(200);
  });

  it('is ready on a database that has a later migration too', async () => {
    await service.query(
      `insert into migrations (timestamp, name) values (9999999999999, 'Later9999999999999')`,
    );
    await ready().expect(200);
  });

  it('is live, not ready, while the database is out of reach, and the log has the reason, once', async () => {
    const mend = wire.cut();
    service.log.length = 0;
    const answers = [await ready(), await service.api.get('/v1/pets')];
    await live().expect(200);
    await mend();
    expect(expectNotReady(answers[0]!)).toMatch(/database/);
    const warnings = service.log.map((line) => JSON.parse(line)).filter((line) => line.reason);
    expect(warnings).toEqual(
      answers.map(({ headers }) => ({
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
    expect(expectNotReady(await ready())).toContain('disk');
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
