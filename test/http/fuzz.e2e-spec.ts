import fc from 'fast-check';
import { FULL_LENGTH } from '../support/full-length.js';
import { RawConnection, request } from '../support/raw-http.js';
import { converse as play, sequences } from '../support/sequences.js';
import { serviceOfTests } from '../support/service.js';
import { until } from '../support/until.js';

/** Other requests are sent with `FUZZ_SEED=… npm test -- test/http/fuzz`. */
const SEED = Number(process.env['FUZZ_SEED'] ?? 20_260_101);
const CONNECTIONS = FULL_LENGTH ? 8_000 : 1_000;

/** A failure is its cause and what repeats it. The counterexample, which may have 500 KB, is not printed. */
async function asyncReporter<T>({ errorInstance, ...run }: fc.RunDetails<T>): Promise<void> {
  if (run.failed) {
    const error = errorInstance instanceof Error ? errorInstance : new Error('interrupted');
    const { seed, counterexamplePath: path } = run;
    const repetition = `fc.assert(…, ${JSON.stringify({ seed, path })}) repeats it.`;
    error.stack = error.stack!.replace(error.message, (cause) => `${cause}\n${repetition}`);
    throw error;
  }
}

/** Text that means something somewhere, or any bytes, one a character. */
const text = fc.oneof(
  fc.constantFrom('', ' ', '0', '-1', '1e1', '05', '101', '9223372036854775808', '__proto__'),
  fc.constantFrom('%', '%00', '%ff', '..', '//', '\\', '*', '\x00', '\x80\xff', '\r\n', 'chunked'),
  fc.constantFrom('x'.repeat(300), 'x'.repeat(20_000)),
  fc.uint8Array({ maxLength: 20 }).map((bytes) => Buffer.from(bytes).toString('latin1')),
);

const json = fc.oneof(
  fc.json().map((value) => Buffer.from(value).toString('latin1')),
  fc.constantFrom('-0.0', '1e400', '1e999999999', '01', 'NaN', '"\\u0000"', '"\\ud800"', "'x'"),
  fc.constantFrom('['.repeat(2_000), `${'{"a":'.repeat(100)}1${'}'.repeat(100)}`, '"\xff"'),
  text,
);

const body = fc.oneof(
  fc.constant('{"name":"Rex","categoryId":7,"status":"sold"}'),
  fc.tuple(json, json, json, json).map(([name, categoryId, status, value]) => {
    return `{"name":${name},"categoryId":${categoryId},"status":${status},"x":${value}}`;
  }),
  json,
);

const NAMES =
  'Host Authorization Content-Type Content-Length Content-Encoding Connection Transfer-Encoding Expect Upgrade Range ' +
  'Idempotency-Key X-Request-Id X-Forwarded-For traceparent Origin Access-Control-Request-Method Accept If-None-Match';
const VALUES =
  'application/json text/plain gzip chunked close 4 100-continue websocket https://app.example GET "a-key"';

const wordsOr = (words: string) => fc.oneof(fc.constantFrom(...words.split(' ')), text);
const headers = fc.array(
  fc.tuple(wordsOr(NAMES), wordsOr(VALUES)).map((header) => header.join(': ')),
  { maxLength: 3 },
);

const target = fc.oneof(
  fc.constantFrom('/v1/pets', '/v1/pets/1', '/v1/store/orders?limit=20', '/health/ready', '*'),
  fc
    .tuple(wordsOr('limit status cursor limit[] __proto__'), text)
    .map((parameter) => `/v1/pets?${parameter.join('=')}`),
  text.map((path) => `/v1/pets/${path}`),
  text,
);

/** @returns a request that is nearly a valid one. */
const requests = (key: string) =>
  fc
    .record({
      method: fc.constantFrom('GET', 'POST', 'POST', 'HEAD', 'PUT', 'OPTIONS', 'CONNECT', 'Q'),
      target,
      headers,
      body: fc.option(body, { nil: undefined }),
      /** A part of the bytes that is sent otherwise. */
      broken: fc.option(fc.record({ at: fc.double({ min: 0, max: 1, noNaN: true }), by: text }), {
        freq: 3,
        nil: undefined,
      }),
    })
    .map(({ method, target, headers, body, broken = { at: 0, by: '' } }) => {
      const json = body === undefined ? [] : ['Content-Type: application/json'];
      const all = [`Authorization: Bearer ${key}`, ...json, ...headers];
      const bytes = request(`${method} ${target}`, all, body);
      const at = Math.floor(broken.at * bytes.length);
      return bytes.slice(0, at) + broken.by + bytes.slice(at + broken.by.length);
    });

/** Sends `bytes`, then a last request. @returns all that came until the service ended the connection. */
async function converse(port: number, bytes: string): Promise<string> {
  const connection = await RawConnection.open(port);
  connection.send(bytes + request('GET /health/live', ['Connection: close']));
  // What is not a whole request is an error once no more can come.
  const timer = setTimeout(() => connection.halfClose(), 100);
  const received = await connection.rest();
  clearTimeout(timer);
  connection.vanish();
  return received;
}

/** Expects whole, well-formed responses and nothing else. @returns how many. Their bodies are compared with the document. */
function expectResponses(received: string): number {
  let rest = received.replaceAll('HTTP/1.1 100 Continue\r\n\r\n', '');
  let responses = 0;
  for (; rest !== ''; responses += 1) {
    const [head, status, lines] = /^HTTP\/1\.1 (\d{3}) [A-Za-z ]+\r\n(.*?)\r\n\r\n/s.exec(rest)!;
    const fields = Object.fromEntries(
      lines!.split('\r\n').map((line) => {
        const [, name, value] = /^([A-Za-z-]+): ([\x20-\x7e]*)$/.exec(line)!;
        return [name!.toLowerCase(), value!];
      }),
    );
    expect(Number(status)).toBeLessThan(500);
    // test/http/headers has the others.
    expect(fields['x-request-id']).toMatch(/^[!-~]{1,128}$/);
    rest = rest.slice(head.length);
    // The response to HEAD has no body, and no body begins like a response.
    const length = rest.startsWith('HTTP/') ? 0 : Number(fields['content-length'] ?? 0);
    rest = rest.slice(length);
  }
  return responses;
}

describe('requests that are nearly valid', () => {
  const service = serviceOfTests({ CORS_ORIGINS: 'https://app.example', TRUST_PROXY: '1' });

  it('all get a response that the interface knows, and leave nothing behind', async () => {
    const all = fc.array(requests(service.key), { minLength: 1, maxLength: 4 });
    const property = fc.asyncProperty(all, async (some) => {
      const received = await converse(service.port, some.join(''));
      expect(expectResponses(received)).toBeGreaterThan(0);
      service.log.length = 0;
    });
    await fc.assert(property, { seed: SEED, numRuns: CONNECTIONS, asyncReporter });
    expect(service.pool.waitingCount).toBe(0);
    await service.api.get('/v1/pets').expect(200);
  });
});

describe('pieces of requests, garbage, half-closes and resets, in any order', () => {
  const service = serviceOfTests({ METRICS_PORT: '0' }, undefined, {
    // On a busy machine, these end when a request that is there was not read yet, or its create not committed.
    limits: { headersTimeout: 6_000, requestTimeout: 8_000, socketTimeout: 10_000 },
  });
  const ROUNDS = FULL_LENGTH ? 400 : 20;

  it.each<[string, target: string, port: () => number]>([
    ["on the service's port", '/health/live', () => service.port],
    ['on the port of the metrics', '/metrics', () => service.metricsPort()],
  ])(
    'get the responses that belong to them, in order, and the connections end: %s',
    async (_title, target, port) => {
      const property = fc.asyncProperty(sequences(target, service.key), async (all) => {
        await play(port(), all, 25_000);
        service.log.length = 0;
      });
      await fc.assert(property, {
        seed: SEED,
        numRuns: ROUNDS,
        endOnFailure: true,
        asyncReporter,
      });
      await until('no connection is left', async () => (await service.connections()) === 0);
      expect(service.admitted()).toBe(0);
      expect(service.listenerErrors()).toEqual({});
    },
    120_000,
  );
});
