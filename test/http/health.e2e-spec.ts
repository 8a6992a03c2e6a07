import { HealthService } from '../../src/health/health.service.js';
import { type Answer, expectError } from '../support/answers.js';
import { serviceOfTests } from '../support/service.js';

// test/database/database-down has a database that is out of reach.
describe('health', () => {
  const service = serviceOfTests();

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
});

it('asks the database once for all probes that come meanwhile', async () => {
  const query = jest.fn(async () => [{ transaction_read_only: 'off' }]);
  const schema = { findings: async () => [] };
  const host = { httpAdapter: { isStopping: false } };
  const fakes = [{ query }, schema, {}, { states: [] }, host] as unknown;
  const health = new HealthService(...(fakes as ConstructorParameters<typeof HealthService>));
  await Promise.all([health.ready(), health.ready()]);
  expect(query).toHaveBeenCalledTimes(1);
  await health.ready();
  expect(query).toHaveBeenCalledTimes(2);
});
