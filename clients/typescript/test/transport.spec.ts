import { type Clock, install } from '@sinonjs/fake-timers';
import { read } from '../../../test/support/documents.js';
import { source } from './source.js';

const { StoreError } = await source('store-error');
const { createTransport } = await source('transport');

/** Has a fraction, as the rest of the time has. */
const RETRY_FOR = 30_000.5;

const open = (
  fetch: typeof globalThis.fetch,
  retryFor: number,
  onRetry?: (retry: object) => void,
) => createTransport({ apiKey: () => 'key', retryFor, onRetry, onResponse: () => {}, fetch });

type Attempt = (signal: AbortSignal) => Response | Promise<Response>;
const responds = (status: number) => () => new Response('{}', { status });
const created: Attempt = () => new Response('{"id":1}', { status: 201 });
const unavailable: Attempt = responds(503);
const limited = (retryAfter: string) => () =>
  new Response('{}', { status: 429, headers: { 'Retry-After': retryAfter } });
const overloaded = (retryAfter: string) => () =>
  new Response('{}', { status: 503, headers: { 'Retry-After': retryAfter } });
const lost = new TypeError('fetch failed');
const broken: Attempt = () => Promise.reject(lost);
const cut: Attempt = () =>
  new Response(new ReadableStream({ start: (body) => body.error(new TypeError('terminated')) }));
const silent: Attempt = (signal) =>
  new Promise((_resolve, reject) =>
    signal.addEventListener('abort', () => reject(signal.reason as Error)),
  );

describe('the retries of the TypeScript client', () => {
  let clock: Clock;
  let now: () => number;
  beforeEach(() => {
    clock = install({ toNotFake: ['setImmediate', 'nextTick', 'queueMicrotask'] });
    const start = performance.now();
    now = () => performance.now() - start;
  });
  afterEach(() => {
    clock.uninstall();
    jest.restoreAllMocks();
  });

  /** Sends a request whose attempts meet what `respond` returns, until it is settled. */
  async function send(respond: (attempt: number) => Attempt, retryFor = RETRY_FOR) {
    const times: number[] = [];
    const bodies: string[] = [];
    const fetch = async (request: unknown, init?: RequestInit) => {
      times.push(now());
      bodies.push(await (request as Request).text());
      return respond(times.length - 1)(init!.signal!);
    };
    const body = '{"name":"Rex"}';
    const request = new Request('http://127.0.0.1/pets', { method: 'POST', body });
    const retries: any[] = [];
    const call = { operation: 'POST /pets', promised: 201 };
    let took = NaN;
    const sending = open(fetch, retryFor, (retry) => retries.push(retry))(request, call);
    const result = sending.catch((error: unknown) => error).finally(() => (took = now()));
    await clock.tickAsync(90_000);
    return { times, bodies, retries, result: (await result) as any, took };
  }

  it('survive an outage of 18 seconds, and send the same body each time', async () => {
    const failures = [unavailable, broken, cut];
    const { times, bodies, result } = await send((attempt) =>
      now() < 18_000 ? failures[attempt % failures.length]! : created,
    );
    expect(result).toMatchObject({ status: 201 });
    expect(times.at(-1)).toBeGreaterThanOrEqual(18_000);
    expect(times.length).toBeGreaterThan(failures.length);
    expect(new Set(bodies)).toEqual(new Set(['{"name":"Rex"}']));
  });

  it.each([
    ['with the last response', unavailable, { status: 503 }],
    [
      'with the last error',
      broken,
      { status: 0, code: 'no_response', requestId: null, cause: lost },
    ],
    ['with a time-out', silent, { status: 0, cause: { name: 'TimeoutError' } }],
  ])('end after 30 seconds, or a tenth more: %s', async (_what, attempt, expected) => {
    const { times, result, took } = await send(() => attempt);
    expect(result).toMatchObject(expected);
    expect(result).toBeInstanceOf(StoreError);
    expect(times.at(-1)).toBeCloseTo(RETRY_FOR, -1);
    expect(took).toBeLessThanOrEqual(1.1 * RETRY_FOR + 3);
  });

  it.each([NaN, '30000'])('need a number as retryFor, not %j', (retryFor) =>
    expect(() => open(fetch, retryFor as number)).toThrow(RangeError),
  );

  it('wait, and do not ask without pause, if Retry-After is longer than a timer may be', async () => {
    const fetch = jest.fn(
      async () => new Response('', { status: 503, headers: { 'Retry-After': '3000000' } }),
    );
    const call = { operation: 'GET /pets', promised: 200 };
    void open(fetch, Infinity)(new Request('http://127.0.0.1/pets'), call);
    await clock.tickAsync(90_000);
    expect(fetch).toHaveBeenCalledTimes(1);
  });

  it('wait for an exponential backoff with jitter, up to 5 and 10 seconds', async () => {
    const runs = [await send(() => unavailable, 60_000), await send(() => broken, 60_000)];
    const gaps = runs.map(({ times }) => times.slice(1).map((time, i) => time - times[i]!));
    for (const run of gaps) {
      // The last one ends with the time.
      for (const [i, gap] of run.slice(0, -1).entries()) {
        const backoff = Math.min(500 * 2 ** i, 5_000);
        // Timers count whole milliseconds.
        expect(gap).toBeGreaterThanOrEqual(backoff - 1);
        expect(gap).toBeLessThanOrEqual(2 * backoff + 1);
      }
    }
    expect(gaps[0]).not.toEqual(gaps[1]);
  });

  it.each(['docs/guides/retries.md', 'clients/typescript/README.md'])(
    'follow the statuses that %s names, and no other status of an error',
    async (file) => {
      // A code may be after a status.
      const [listed] = /\b408, [^.]*\bor 504\b/.exec(read(file))!;
      const named = listed
        .replaceAll(/\s+/g, ' ')
        .match(/\b[45]\d\d\b/g)!
        .map(Number);
      const statuses = Array.from({ length: 200 }, (_, i) => 400 + i);
      const followed: number[] = [];
      for (const status of statuses) {
        const { times, result } = await send((attempt) => (attempt ? created : responds(status)));
        expect(result).toMatchObject({ status: times.length === 1 ? status : 201 });
        followed.push(...times.slice(1).map(() => status));
      }
      expect(followed).toEqual(named);
    },
  );

  it('give an attempt 20 seconds, also if the function of the key, or fetch, does not end', async () => {
    const endless: Attempt = () => new Promise(() => {});
    const { result, took } = await send(() => endless, 0);
    expect(result).toMatchObject({ code: 'no_response', status: 0 });
    expect(took).toBeGreaterThanOrEqual(20_000);
    expect(took).toBeLessThanOrEqual(21_001);
  });

  it.each([
    ['and is followed by another', 60_000, 201, 2],
    ['also if it is the only one', 0, 0, 1],
  ])('give an attempt without a response 20 seconds, %s', async (_what, retryFor, status, sent) => {
    const { times, result, took } = await send((attempt) => (attempt ? created : silent), retryFor);
    expect(result).toMatchObject({ status });
    expect(times).toHaveLength(sent);
    expect(took).toBeGreaterThanOrEqual(20_000);
    expect(took).toBeLessThanOrEqual(21_001);
  });

  it.each([
    ['seconds', () => '20'],
    ['a date', () => new Date(Date.now() + 21_000).toUTCString()],
  ])('wait as long as Retry-After says in %s', async (_form, retryAfter) => {
    const { times } = await send((attempt) => (attempt === 0 ? overloaded(retryAfter()) : created));
    expect(times).toEqual([0, expect.any(Number)]);
    expect(times[1]).toBeGreaterThanOrEqual(20_000);
    expect(times[1]).toBeLessThan(22_000);
  });

  it.each([
    ['200', responds(200), RETRY_FOR, 200],
    ['201', responds(201), RETRY_FOR, 201],
    ['a Retry-After beyond the time', overloaded('3600'), RETRY_FOR, 503],
    ['a rate limit that resets in an hour', limited('3600'), RETRY_FOR, 429],
    ['a rate limit, with retryFor: 0', limited('1'), 0, 429],
    ['an error, with retryFor: 0', broken, 0, 0],
  ] as const)('do not follow %s', async (_what, attempt, retryFor, status) => {
    const { times, result } = await send(() => attempt, retryFor);
    expect(result).toMatchObject({ status });
    expect(times).toHaveLength(1);
  });
});
