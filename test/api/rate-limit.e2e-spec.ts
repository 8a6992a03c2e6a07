import { newApiKey } from '../../src/api-key.js';
import { type Answer, expectError } from '../support/answers.js';
import { exchange, request } from '../support/raw-http.js';
import { serviceOfTests } from '../support/service.js';

const LIMIT = 5;
const JSON_TYPE = 'Content-Type: application/json';

describe('the rate limit', () => {
  const service = serviceOfTests({ RATE_LIMIT_PER_MINUTE: String(LIMIT), CORS_ORIGINS: '*' });
  let key: string;
  beforeEach(async () => {
    ({ key } = await service.keys.issue('limited'));
  });
  afterEach(() => jest.restoreAllMocks());

  const send = (line = 'GET /v1/pets', headers: string[] = [], body?: string) =>
    exchange(service.port, request(line, [`Authorization: Bearer ${key}`, ...headers], body));

  const useUp = () => Promise.all(Array.from({ length: LIMIT }, () => send()));

  /** What the answer says is left, and for how many seconds. */
  function left({ headers }: Answer): number[] {
    expect(headers['ratelimit-policy']).toBe(`"default";q=${LIMIT};w=60`);
    const [, requests, seconds] = /^"default";r=(\d+);t=(\d+)$/.exec(headers['ratelimit'])!;
    return [Number(requests), Number(seconds)];
  }

  function expectRefusal(answer: Answer): void {
    expectError(answer, 429, 'rate_limited');
    expect(left(answer)).toEqual([0, Number(answer.headers['retry-after'])]);
  }

  it('lets a key make that many requests a minute, whatever is answered, says how many are left, and begins anew', async () => {
    const requests: [status: number, ...Parameters<typeof send>][] = [
      [200],
      [201, 'POST /v1/pets', [JSON_TYPE], '{"name":"Rex","categoryId":1}'],
      [400, 'GET /v1/pets?limit=0'],
      [200],
    ];
    for (const [i, [status, ...message]] of requests.entries()) {
      const answer = await send(...message);
      expect([answer.status, left(answer)[0]]).toEqual([status, LIMIT - 1 - i]);
    }
    // At once.
    const [last, ...others] = (await useUp()).toSorted((a, b) => a.status - b.status);
    expect(last!.status).toBe(200);
    others.forEach(expectRefusal);
    const now = performance.now();
    jest.spyOn(performance, 'now').mockImplementation(() => now + 60_000);
    expect(left(await send())).toEqual([LIMIT - 1, 60]);
  });

  it('says to wait for what is left of the minute, in whole seconds, which are never too few', async () => {
    const now = Math.ceil(performance.now());
    const clock = jest.spyOn(performance, 'now').mockReturnValue(now);
    await useUp();
    for (const [passed, seconds] of [
      [45_000, 15],
      [45_600, 15],
      [59_100, 1],
      [59_999, 1],
    ] as const) {
      clock.mockReturnValue(now + passed);
      const answer = await send();
      expectRefusal(answer);
      expect(left(answer)[1]).toBe(seconds);
    }
  });

  it.each([-7_200_000, 7_200_000])(
    'keeps its window if the clock is set by %i ms',
    async (milliseconds) => {
      await useUp();
      const now = Date.now();
      jest.spyOn(Date, 'now').mockImplementation(() => now + milliseconds);
      const answer = await send();
      expectRefusal(answer);
      expect(left(answer)[1]).toBeLessThanOrEqual(60);
    },
  );

  it('refuses before it looks at the request, tells web pages too, and is for each key alone', async () => {
    await useUp();
    expectRefusal(await send('POST /v1/pets', [JSON_TYPE], '{'));
    const refused = await send('GET /v1/pets?limit=0', ['Origin: https://app.example']);
    expectRefusal(refused);
    expect(refused.headers['access-control-expose-headers']).toBe('*');
    ({ key } = await service.keys.issue('other'));
    const answer = await send();
    expect([answer.status, left(answer)[0]]).toEqual([200, LIMIT - 1]);
  });

  it.each([
    ['GET /v1/pets', newApiKey(), 401],
    ['GET /health/live', 'KEY', 200],
    ['PUT /v1/pets', 'KEY', 405],
  ])('does not count %s with the key %j, answered with %i', async (line, sent, status) => {
    const headers = [`Authorization: Bearer ${sent.replace('KEY', key)}`];
    for (let i = 0; i <= LIMIT; i += 1) {
      const answer = await exchange(service.port, request(line, headers));
      expect(answer.status).toBe(status);
      expect(Object.keys(answer.headers).join()).not.toMatch(/ratelimit/);
    }
    expect(left(await send())[0]).toBe(LIMIT - 1);
  });
});
