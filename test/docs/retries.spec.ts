import { type Clock, install } from '@sinonjs/fake-timers';
import { retrying } from '../../clients/typescript/src/retries.js';

const RETRY_FOR = 30_000;

const created = () => new Response('{"id":1}', { status: 201 });
const unavailable = () => new Response('{}', { status: 503 });
const broken = () => Promise.reject(new TypeError('fetch failed'));
/** A connection that breaks in the body. */
const cut = () =>
  new Response(new ReadableStream({ start: (body) => body.error(new TypeError('terminated')) }));

describe('the retries of the TypeScript client', () => {
  let clock: Clock;
  let now: () => number;
  beforeEach(() => {
    clock = install({ toNotFake: ['setImmediate', 'nextTick', 'queueMicrotask'] });
    const start = performance.now();
    now = () => performance.now() - start;
  });
  afterEach(() => clock.uninstall());

  /** Sends a request that meets what `respond` returns. @returns the result, and the time of each attempt. */
  function send(
    respond: (attempt: number) => Response | Promise<Response>,
    { retryFor = RETRY_FOR, advance = 60_000 } = {},
  ) {
    const times: number[] = [];
    const bodies: string[] = [];
    const fetch = async (request: unknown) => {
      times.push(now());
      bodies.push(await (request as Request).text());
      return respond(times.length - 1);
    };
    const request = new Request('http://127.0.0.1/pets', {
      method: 'POST',
      body: '{"name":"Rex"}',
    });
    const result = retrying(fetch, retryFor)(request).catch((error: unknown) => error);
    return { times, bodies, result, settled: clock.tickAsync(advance) };
  }

  const gaps = (times: number[]) => times.slice(1).map((time, i) => time - times[i]!);

  it('survive an outage of 18 seconds, and send the same body each time', async () => {
    const failures = [unavailable, broken, cut];
    const { times, bodies, result, settled } = send((attempt) =>
      now() < 18_000 ? failures[attempt % failures.length]!() : created(),
    );
    await settled;
    expect(await result).toMatchObject({ status: 201 });
    expect(times.at(-1)).toBeGreaterThanOrEqual(18_000);
    expect(times.length).toBeGreaterThan(failures.length);
    expect(new Set(bodies)).toEqual(new Set(['{"name":"Rex"}']));
  });

  it.each([
    ['response', unavailable, { status: 503 }],
    ['error', broken, { message: 'fetch failed' }],
  ])('last for 30 seconds, and then give the last %s', async (_what, fail, expected) => {
    const { times, result, settled } = send(fail);
    await settled;
    expect(await result).toMatchObject(expected);
    expect(times.at(-2)).toBeLessThan(RETRY_FOR);
    expect(times.at(-1)).toBeGreaterThanOrEqual(RETRY_FOR);
  });

  it('wait for an exponential backoff with jitter, up to 5 and 10 seconds', async () => {
    const runs = [send(unavailable), send(broken)];
    await Promise.all(runs.map(({ settled }) => settled));
    for (const { times } of runs) {
      for (const [i, gap] of gaps(times).entries()) {
        const backoff = Math.min(500 * 2 ** i, 5_000);
        // Timers count whole milliseconds.
        expect(gap).toBeGreaterThanOrEqual(backoff - 1);
        expect(gap).toBeLessThanOrEqual(2 * backoff + 1);
      }
    }
    expect(gaps(runs[0]!.times)).not.toEqual(gaps(runs[1]!.times));
  });

  it.each([
    ['seconds', () => '20'],
    ['a date', () => new Date(Date.now() + 21_000).toUTCString()],
  ])('wait as long as Retry-After says in %s', async (_form, retryAfter) => {
    const { times, settled } = send((attempt) =>
      attempt === 0
        ? new Response('{}', { status: 429, headers: { 'Retry-After': retryAfter() } })
        : created(),
    );
    await settled;
    expect(times).toHaveLength(2);
    expect(times[1]).toBeGreaterThanOrEqual(20_000);
    expect(times[1]).toBeLessThan(22_000);
  });

  it.each([200, 201, 400, 401, 404, 415, 422, 500])('do not follow %s', async (status) => {
    const { times, result, settled } = send(() => new Response('{}', { status }));
    await settled;
    expect(await result).toMatchObject({ status });
    expect(times).toHaveLength(1);
  });

  it('are none with retryFor: 0', async () => {
    const { times, result, settled } = send(broken, { retryFor: 0 });
    await settled;
    expect(await result).toMatchObject({ message: 'fetch failed' });
    expect(times).toHaveLength(1);
  });
});
