import { newApiKey } from '../../src/api-key.js';
import { type Answer, expectError } from '../support/answers.js';
import { exchange, request } from '../support/raw-http.js';
import { serviceOfTests, startService, type TestService } from '../support/service.js';

const LIMIT = 5;
const JSON_TYPE = 'Content-Type: application/json';

describe('the rate limit', () => {
  let service: TestService;
  let key: string;
  beforeAll(async () => {
    service = await startService({ RATE_LIMIT_PER_MINUTE: String(LIMIT), CORS_ORIGINS: '*' });
  });
  afterAll(() => service.stop());
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
    const [requests, seconds] = left(answer);
    expect(requests).toBe(0);
    expect(answer.headers['retry-after']).toBe(String(seconds));
  }

  it('lets a key make that many requests a minute, and says how many are left', async () => {
    for (let requests = LIMIT - 1; requests >= 0; requests -= 1) {
      const answer = await send();
      expect(answer.status).toBe(200);
      const [leftOver, seconds] = left(answer);
      expect(leftOver).toBe(requests);
      expect(seconds).toBeGreaterThan(0);
      expect(seconds).toBeLessThanOrEqual(60);
    }
    expectRefusal(await send());
    expectRefusal(await send());
  });

  it('counts a request whose body turns out to be malformed, and says so', async () => {
    const headers = [`Authorization: Bearer ${key}`, JSON_TYPE, 'Transfer-Encoding: chunked'];
    const answer = await exchange(service.port, `${request('POST /v1/pets', headers)}zz\r\n`);
    expectError(answer, 400, 'invalid_request');
    expect(left(answer)[0]).toBe(LIMIT - 1);
  });

  it('begins anew a minute after the first request', async () => {
    await useUp();
    expectRefusal(await send());
    const now = Date.now();
    jest.spyOn(Date, 'now').mockImplementation(() => now + 60_000);
    const answer = await send();
    expect(answer.status).toBe(200);
    expect(left(answer)).toEqual([LIMIT - 1, 60]);
  });

  it('is exact for requests that come at once', async () => {
    const answers = await Promise.all(Array.from({ length: 3 * LIMIT }, () => send()));
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(LIMIT);
    answers.filter(({ status }) => status !== 200).forEach(expectRefusal);
  });

  it.each([
    [201, 'POST /v1/pets', [JSON_TYPE], '{"name":"Rex","categoryId":1}'],
    [400, 'GET /v1/pets?limit=0', [], undefined],
    [400, 'POST /v1/pets', [JSON_TYPE], '{'],
    [404, 'GET /v1/pets/0', [], undefined],
    [413, 'POST /v1/pets', [JSON_TYPE], 'x'.repeat(20_000)],
    [415, 'POST /v1/pets', ['Content-Type: text/plain'], 'x'],
  ])('counts what is answered with %i: %s', async (status, line, headers, body) => {
    const answer = await send(line, headers, body);
    expect(answer.status).toBe(status);
    expect(left(answer)[0]).toBe(LIMIT - 1);
    expect(left(await send())[0]).toBe(LIMIT - 2);
  });

  it('refuses before it looks at the request', async () => {
    await useUp();
    expectRefusal(await send('POST /v1/pets', [JSON_TYPE], '{'));
    expectRefusal(await send('GET /v1/pets?limit=0'));
  });

  it('is for each key alone', async () => {
    await useUp();
    const other = await service.keys.issue('other');
    const headers = [`Authorization: Bearer ${other.key}`];
    const answer = await exchange(service.port, request('GET /v1/pets', headers));
    expect(answer.status).toBe(200);
    expect(left(answer)[0]).toBe(LIMIT - 1);
  });

  it('counts no request without a valid key, nor one that needs none', async () => {
    for (const [line, headers, status] of [
      ['GET /v1/pets', [], 401],
      ['GET /v1/pets', ['Authorization: Bearer abc'], 401],
      ['GET /v1/pets', [`Authorization: Bearer ${newApiKey()}`], 401],
      ['GET /health/live', [`Authorization: Bearer ${key}`], 200],
      ['GET /nowhere', [`Authorization: Bearer ${key}`], 404],
      ['PUT /v1/pets', [`Authorization: Bearer ${key}`], 405],
    ] as const) {
      for (let i = 0; i <= LIMIT; i += 1) {
        const answer = await exchange(service.port, request(line, [...headers]));
        expect(answer.status).toBe(status);
        expect(answer.headers).not.toHaveProperty('ratelimit');
        expect(answer.headers).not.toHaveProperty('ratelimit-policy');
      }
    }
    expect(left(await send())[0]).toBe(LIMIT - 1);
  });

  it('is told to web pages too', async () => {
    await useUp();
    const { headers } = await send('GET /v1/pets', ['Origin: https://app.example']);
    expect(headers['access-control-expose-headers']).toMatch(/, RateLimit, RateLimit-Policy$/);
  });
});

describe('without a rate limit', () => {
  const service = serviceOfTests();

  it('nothing is counted, and nothing said of it', async () => {
    const { headers } = await service.api.get('/v1/pets').expect(200);
    expect(headers).not.toHaveProperty('ratelimit');
    expect(headers).not.toHaveProperty('ratelimit-policy');
  });
});
