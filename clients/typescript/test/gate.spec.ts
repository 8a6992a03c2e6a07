import { type Clock, install } from '@sinonjs/fake-timers';
import { source } from './source.js';

const { createTransport } = await source('transport');

const QUOTA = 60;
const headersOf = (rest: number, seconds: number) => ({
  RateLimit: `"default";r=${rest};t=${seconds}`,
});

describe('the gate that the calls of a client share', () => {
  let clock: Clock;
  beforeEach(() => {
    clock = install({ toNotFake: ['setImmediate', 'nextTick', 'queueMicrotask'] });
  });
  afterEach(() => clock.uninstall());

  /** What was sent: the number of the call, and the milliseconds since the start. */
  let sent: [call: number, at: number][];
  let respond: () => Response | Promise<Response>;
  let send: (call: number, options?: object) => Promise<any>;
  const open = (retryFor = 1_000) => {
    sent = [];
    const start = performance.now();
    const fetch = async (request: unknown) => {
      const { url } = request as Request;
      sent.push([Number(/\d+$/.exec(url)), performance.now() - start]);
      return respond();
    };
    const transport = createTransport({ apiKey: () => 'key', retryFor, onResponse() {}, fetch });
    send = (call, options = {}) =>
      transport(new Request(`http://127.0.0.1/${call}`), {
        operation: 'GET /pets',
        promised: 200,
        idempotencyKey: `key-${call}`,
        ...options,
      }).catch((error: unknown) => error);
  };

  const refuse = (seconds: number) =>
    new Response('{"code":"rate_limited","message":"Later.","status":429}', {
      status: 429,
      headers: { ...headersOf(0, seconds), 'Retry-After': String(seconds) },
    });
  /** The service's limit: a minute begins with a request, if none is running. */
  const limited = () => {
    let resetAt = -Infinity;
    let used = 0;
    return () => {
      const now = performance.now();
      if (now >= resetAt) {
        resetAt = now + 60_000;
        used = 0;
      }
      used += 1;
      const seconds = Math.ceil((resetAt - now) / 1000);
      return used > QUOTA
        ? refuse(seconds)
        : new Response('[]', { headers: headersOf(QUOTA - used, seconds) });
    };
  };

  it('lets nobody pass before the reset, then all in their order, spread over the window', async () => {
    respond = limited();
    open();
    const results = Promise.all(Array.from({ length: 140 }, (_, call) => send(call)));
    await clock.tickAsync(600_000);
    expect((await results).map(({ status }) => status)).toEqual(Array(140).fill(200));
    const [atOnce, later] = [sent.filter(([, at]) => at < 10), sent.filter(([, at]) => at >= 10)];
    // These left before a response said that there is a limit.
    expect(atOnce.map(([call]) => call)).toEqual(Array.from({ length: 140 }, (_, call) => call));
    expect(later.map(([call]) => call)).toEqual(Array.from({ length: 80 }, (_, i) => QUOTA + i));
    expect(later[0]![1]).toBeGreaterThanOrEqual(60_000);
    const gaps = later.slice(1).map(([, at], i) => at - later[i]![1]);
    expect(Math.min(...gaps)).toBeGreaterThanOrEqual(900);
    expect(Math.max(...gaps)).toBeLessThan(5_000);
  });

  it('lets a call pass before one that came later, though it was refused after that had come', async () => {
    const responses: ((response: Response) => void)[] = [];
    respond = () => new Promise((resolve) => responses.push(resolve));
    open();
    const results = [send(0), send(1)];
    await clock.tickAsync(1);
    responses[0]!(refuse(60));
    await clock.tickAsync(1);
    results.push(send(2));
    await clock.tickAsync(1);
    responses[1]!(refuse(60));
    respond = () => new Response('[]', { headers: headersOf(QUOTA, 60) });
    await clock.tickAsync(600_000);
    expect((await Promise.all(results)).map(({ status }) => status)).toEqual([200, 200, 200]);
    expect(sent.map(([call]) => call)).toEqual([0, 1, 0, 1, 2]);
  });

  it.each([
    ['for ever, after 3 minutes', 60, 120_000, 180_000, 25],
    ['until in an hour, at once', 3_600, 0, 1_000, 20],
  ])(
    'turns everybody away if a server sends 429 %s',
    async (_what, seconds, after, within, most) => {
      respond = () => refuse(seconds);
      open();
      const start = performance.now();
      const settledAt: number[] = [];
      const calls = Array.from({ length: 20 }, (_, call) =>
        send(call).finally(() => settledAt.push(performance.now() - start)),
      );
      await clock.tickAsync(400_000);
      const errors = await Promise.all(calls);
      const keys = errors.map(({ code, status, idempotencyKey }) => [code, status, idempotencyKey]);
      expect(keys).toEqual(errors.map((_, call) => ['rate_limited', 429, `key-${call}`]));
      expect(Math.max(...settledAt)).toBeLessThanOrEqual(within);
      expect(Math.min(...settledAt)).toBeGreaterThanOrEqual(after);
      expect(sent.length).toBeLessThanOrEqual(most);
    },
  );

  it('counts the time of a server that only sends 429 on, though earlier requests have late responses', async () => {
    const late = async () => {
      await new Promise((resolve) => setTimeout(resolve, 500));
      return new Response('[]');
    };
    respond = () => (sent.at(-1)![0] === 0 ? late() : refuse(60));
    open();
    const start = performance.now();
    const calls = [send(0), send(1)];
    const settledAt = calls[1]!.then(() => performance.now() - start);
    await clock.tickAsync(400_000);
    const [first, second] = await Promise.all(calls);
    expect([first.status, second.code]).toEqual([200, 'rate_limited']);
    expect(await settledAt).toBeLessThanOrEqual(180_000);
  });

  it('is closed for new calls, too, and tells them for how long, if that is too long', async () => {
    respond = () => refuse(3_600);
    open();
    await send(0);
    await clock.tickAsync(600_000);
    const error = await send(1);
    expect(error).toMatchObject({ code: 'rate_limited', idempotencyKey: 'key-1' });
    expect(error.retryAfter).toBeGreaterThan(2_900);
    expect(error.retryAfter).toBeLessThanOrEqual(3_002);
    expect(sent).toHaveLength(1);
    respond = () => new Response('[]');
    await clock.tickAsync(3_002_000);
    expect(await send(2)).toMatchObject({ status: 200 });
  });

  it('opens at the latest reset that it was told', async () => {
    respond = () => (sent.length <= 2 ? refuse(sent.length === 1 ? 60 : 5) : new Response('[]'));
    open();
    const calls = Promise.all([send(0), send(1)]);
    await clock.tickAsync(100_000);
    expect((await calls).map(({ status }) => status)).toEqual([200, 200]);
    expect(sent[2]![1]).toBeGreaterThanOrEqual(60_000);
  });

  it('lets all pass at once if the server no longer tells of a limit', async () => {
    respond = () => (sent.length <= 5 ? refuse(60) : new Response('[]'));
    open();
    const calls = Promise.all(Array.from({ length: 5 }, (_, call) => send(call)));
    await clock.tickAsync(70_000);
    expect((await calls).map(({ status }) => status)).toEqual(Array(5).fill(200));
    expect(sent).toHaveLength(10);
  });

  it('keeps no call waiting after the reset if it has retryFor: 0', async () => {
    respond = () => refuse(1);
    open(0);
    expect(await send(0)).toMatchObject({ status: 429 });
    await clock.tickAsync(2_000);
    respond = () => new Response('[]');
    const start = performance.now();
    expect(await send(1)).toMatchObject({ status: 200 });
    expect(performance.now() - start).toBe(0);
  });

  it('is left by no call because the server refuses one now and then, while it serves others', async () => {
    respond = () =>
      sent.length <= 4
        ? refuse(60)
        : sent.length === 7
          ? refuse(5)
          : new Response('[]', { headers: headersOf(0, 100) });
    open();
    const calls = Promise.all(Array.from({ length: 4 }, (_, call) => send(call)));
    await clock.tickAsync(900_000);
    expect((await calls).map(({ status }) => status)).toEqual(Array(4).fill(200));
    // Longer than a server that only refuses would be waited for.
    expect(sent[6]![1]).toBeGreaterThan(180_000);
  });

  it('does not count the time in which nothing was sent as one of refusals', async () => {
    const refusals = [10, 60];
    respond = () => (refusals.length > 0 ? refuse(refusals.shift()!) : new Response('[]'));
    open();
    const controller = new AbortController();
    const first = send(0, { signal: controller.signal });
    await clock.tickAsync(5_000);
    controller.abort();
    await first;
    await clock.tickAsync(600_000);
    const second = send(1);
    await clock.tickAsync(100_000);
    expect(await second).toMatchObject({ status: 200 });
  });

  it("does not let all pass at once after a proxy's error", async () => {
    respond = () =>
      sent.length <= 5
        ? refuse(60)
        : sent.length === 6
          ? new Response('', { status: 502 })
          : new Response('[]', { headers: headersOf(9, 10) });
    open(30_000);
    const calls = Promise.all(Array.from({ length: 5 }, (_, call) => send(call)));
    await clock.tickAsync(200_000);
    expect((await calls).map(({ status }) => status)).toEqual(Array(5).fill(200));
    const later = sent.slice(5).map(([, at]) => at);
    expect(later[1]! - later[0]!).toBeGreaterThanOrEqual(4_999);
  });

  it('is not closed by a call that is cancelled with the error of another one', async () => {
    respond = () => refuse(60);
    open(0);
    const reason = await send(0);
    open();
    const controller = new AbortController();
    respond = () => new Promise(() => {}) as never;
    const cancelled = send(1, { signal: controller.signal });
    await clock.tickAsync(1);
    controller.abort(reason);
    expect(await cancelled).toBe(reason);
    respond = () => new Response('[]');
    expect(await send(2)).toMatchObject({ status: 200 });
    expect(sent[1]![1]).toBeLessThan(1_000);
  });

  it('leaves no timer when the only call that waits is cancelled', async () => {
    respond = () => refuse(60);
    open();
    const controller = new AbortController();
    const call = send(0, { signal: controller.signal });
    await clock.tickAsync(1_000);
    controller.abort();
    await call;
    expect(clock.countTimers()).toBe(0);
  });

  it('loses the place of a call that is cancelled, and no other', async () => {
    respond = () => (sent.length <= 3 ? refuse(60) : new Response('[]', { headers: headersOf(9, 10) })); // prettier-ignore
    open();
    const controller = new AbortController();
    const reason = new Error('enough');
    const calls = [send(0), send(1, { signal: controller.signal }), send(2)];
    await clock.tickAsync(30_000);
    controller.abort(reason);
    expect(await calls[1]).toBe(reason);
    await clock.tickAsync(60_000);
    expect(await Promise.all([calls[0], calls[2]])).toMatchObject([{ status: 200 }, { status: 200 }]); // prettier-ignore
    expect(sent.map(([call]) => call)).toEqual([0, 1, 2, 0, 2]);
    // A second apart: the place of the cancelled call is not left empty.
    expect(sent[4]![1] - sent[3]![1]).toBeLessThan(1_500);
  });
});
