import { Client } from 'pg';
import { HealthService } from '../../src/health/health.service.js';
import { expectError } from '../support/answers.js';
import { serviceOfTests } from '../support/service.js';
import { LATER } from '../support/sessions.js';

// test/database/database-down has a database that is out of reach.
describe('health', () => {
  const service = serviceOfTests();

  const live = () => service.anonymous.get('/health/live');
  const ready = () => service.anonymous.get('/health/ready');

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
      'pending migrations.',
    ],
    [
      'it may not look at the migrations',
      'alter table migrations rename column name to hidden',
      'alter table migrations rename column hidden to name',
      'database',
    ],
    [
      'the tables are distributed, which they were not when it started',
      `create function citus_truncate_trigger() returns trigger language plpgsql as 'begin return null; end';
       create trigger distributed after truncate on pets execute function citus_truncate_trigger()`,
      'drop function citus_truncate_trigger cascade',
      'restart it',
    ],
  ])('is live, not ready, while %s', async (_what, change, revert, reason) => {
    await service.query(change);
    const answer = await ready().expect('Retry-After', '1');
    expectError(answer, 503, 'unavailable', [reason]);
    await live().expect(200);
    await service.query(revert);
    await ready().expect(200);
  });

  it('asks the database once for all probes that come meanwhile', async () => {
    const query = jest.spyOn(Client.prototype, 'query');
    const health = service.get(HealthService);
    const asked = () =>
      query.mock.calls.filter(([sql]: any[]) => `${sql}`.includes('transaction_read_only')).length;
    await Promise.all([health.ready(LATER), health.ready(LATER)]);
    expect(asked()).toBe(1);
    await health.ready(LATER);
    expect(asked()).toBe(2);
  });

  it.each([7_200, -60, -10])(
    "says by how many seconds its clock is ahead of the database's: %d",
    async (by) => {
      const now = Date.now();
      const clock = jest.spyOn(Date, 'now').mockReturnValue(now + by * 1_000);
      const { clockAhead } = await service.get(HealthService).ready(LATER);
      clock.mockRestore();
      expect(Math.abs(clockAhead! - by)).toBeLessThan(30);
      expect((await ready()).body).toEqual({ status: 'ready' });
    },
  );
});
