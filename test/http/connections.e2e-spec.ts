import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import type { Server } from 'node:http';
import { connect } from 'node:net';
import type { ExecutionContext } from '@nestjs/common';
import { HttpAdapterHost } from '@nestjs/core';
import { BodyGuard } from '../../src/http/body.guard.js';
import { HttpLimits } from '../../src/http/limits.js';
import { expectError } from '../support/answers.js';
import { RawConnection, request } from '../support/raw-http.js';
import { serviceOfTests } from '../support/service.js';
import { until } from '../support/until.js';

const { bodyChunks, headerBytes, headerFields, requestTimeout } = new HttpLimits();

const JSON_TYPE = 'Content-Type: application/json';
const CHUNKED = 'Transfer-Encoding: chunked';
const KEPT = 'Connection: keep-alive';
const REX = '{"name":"Rex","categoryId":1}';
const LIVE = request('GET /health/live');

const chunksOf = (...chunks: string[]) =>
  [...chunks, ''].map((chunk) => `${chunk.length.toString(16)}\r\n${chunk}\r\n`).join('');

const service = serviceOfTests();
let authorization: string;
let connection: RawConnection;
beforeAll(async () => {
  authorization = `Authorization: Bearer ${service.key}`;
  await service.api.post('/v1/pets').send({ name: 'Rex', categoryId: 1 }).expect(201);
});
beforeEach(async () => {
  connection = await RawConnection.open(service.port);
});
afterEach(async () => {
  connection.vanish();
  await service.api.get('/v1/pets').expect(200);
});

const list = (...headers: string[]) => request('GET /v1/pets', [authorization, ...headers]);
const create = (body?: string, ...headers: string[]) =>
  request('POST /v1/pets', [authorization, JSON_TYPE, ...headers], body);

const expectStatus = async (status: number) =>
  expect((await connection.answer()).status).toBe(status);

const of10 = (bytes: string) => bytes.replace('HTTP/1.1', 'HTTP/1.0');

/** @returns the next response, with which the service ends the connection. */
async function lastAnswer() {
  const answer = await connection.answer();
  expect(answer.headers['connection']).toBe('close');
  expect(await connection.rest()).toBe('');
  return answer;
}

describe('a connection', () => {
  it('has the responses in the order of its requests, however long each takes', async () => {
    const lines = ['GET /v1/pets', 'GET /no', 'GET /v1/pets/1', 'PUT /v1/pets', 'GET /health/live'];
    const requests = Array.from({ length: 20 }, (_, i) =>
      request(lines[i % lines.length]!, [authorization, `X-Request-Id: ${i}`]),
    );
    connection.send(requests.join(''));
    for (let i = 0; i < requests.length; i += 1) {
      const { status, headers } = await connection.answer();
      expect(headers).toMatchObject({ 'x-request-id': `${i}`, 'keep-alive': 'timeout=620' });
      expect(status).toBe([200, 404, 200, 405, 200][i % lines.length]);
    }
  });

  it('has 20 requests without a complete response handled, then one rejected, and ends', async () => {
    const creates = Array.from({ length: 40 }, () => create('{"name":"Rex","categoryId":1000}'));
    connection.send(creates.join(''));
    for (let i = 0; i < 20; i += 1) {
      await expectStatus(201);
    }
    const last = await lastAnswer();
    expectError(last, 503, 'unavailable', ['too many requests']);
    expect(last.headers['retry-after']).toBe('1');
    const lines = service.log.filter((line) => line.includes(last.headers['x-request-id']!));
    expect(lines.map((line) => JSON.parse(line))).toMatchObject([
      { level: 'warn', cause: 'over_share', reason: expect.stringContaining('too many requests') },
      { msg: 'request', status: 503, cause: 'over_share' },
    ]);
    const created = await service.query('select from pets where category_id = 1000');
    expect(created).toHaveLength(20);
  });

  const large = request('GET /openapi.json');

  it.each<[string, last: string, more: string, error: Parameters<typeof expectError>[1]]>([
    ['requests', large.repeat(40), large.repeat(30), 503],
    ['a request with a body', LIVE, request('POST /', [], 'x'.repeat(300_000)), 503],
    ['garbage after too many requests', LIVE, 'garbage\r\n\r\n'.repeat(9_000), 503],
    ['garbage after garbage', 'garbage\r\n\r\n', 'garbage\r\n\r\n'.repeat(9_000), 400],
    ['a head that is too large', `GET / HTTP/1.1\r\nX: `, 'x'.repeat(300_000), 431],
  ])(
    'loses no response because its client sends more, %s, and reads late',
    async (_what, last, more, status) => {
      service.log.length = 0;
      const isLogged = (text: string) => () => service.log.some((line) => line.includes(text));
      connection.send(large.repeat(20) + last);
      await until('the service has begun', isLogged('"/openapi.json"'));
      connection.send(more);
      await until('the service has sent the last response', isLogged(`"status":${status}`));
      connection.send(more);
      for (let i = 0; i < 20; i += 1) {
        await expectStatus(200);
      }
      expect((await lastAnswer()).status).toBe(status);
    },
  );

  it('has the whole of a large response, and then 404, if CONNECT follows', async () => {
    const bundle = request('GET /docs/assets/swagger-ui-bundle.js', ['Accept-Encoding: identity']);
    connection.send(`${bundle}CONNECT test:443 HTTP/1.1\r\nHost: test\r\n\r\n`);
    await expectStatus(200);
    expectError(await lastAnswer(), 404, 'route_not_found');
  });

  it.each([
    ['is one too many', LIVE.repeat(20), 503],
    ['has no valid Host', '', 400],
  ])('has no body in the response to a HEAD that %s', async (_what, before, status) => {
    const head = before === '' ? request('HEAD /').replace('test', 'a b') : request('HEAD /');
    connection.send(before + head);
    for (let i = 0; i < before.length / LIVE.length; i += 1) {
      await expectStatus(200);
    }
    expect(await connection.answer('HEAD')).toMatchObject({ status });
    expect(await connection.rest()).toBe('');
  });

  it.each([1, 3, 5, 20, 21, 22, 119, 130])(
    'has the responses to %i requests before the last words to what is no request',
    async (count) => {
      for (const last of ['garbage\r\n\r\n', 'CONNECT test:443 HTTP/1.1\r\nHost: test\r\n\r\n']) {
        const client = await RawConnection.open(service.port);
        client.send(LIVE.repeat(count) + last);
        for (let i = 0; i < Math.min(count, 20); i += 1) {
          expect((await client.answer()).status).toBe(200);
        }
        const answer = await client.answer();
        if (count > 20) {
          expectError(answer, 503, 'unavailable');
        } else if (last.startsWith('CONNECT')) {
          expectError(answer, 404, 'route_not_found');
        } else {
          expectError(answer, 400, 'invalid_request');
        }
        expect(answer.headers['connection']).toBe('close');
        expect(await client.rest()).toBe('');
      }
    },
  );

  it('has 400 for a body that breaks, also after the responses to what came before it', async () => {
    connection.send(list() + create(undefined, CHUNKED));
    await expectStatus(200);
    connection.send('zz\r\n');
    expectError(await lastAnswer(), 400, 'invalid_request');
  });

  it('has the response to a HEAD with a body, which is not read', async () => {
    connection.send(request('HEAD /v1/pets', [authorization], 'no JSON') + LIVE);
    expect(await connection.answer('HEAD')).toMatchObject({ status: 200 });
    await expectStatus(200);
  });

  it('has a request wait for as long as others, though its body came late', async () => {
    connection.send(create(REX, 'Expect: 100-Continue').split(REX)[0]!);
    await expectStatus(100);
    const late = performance.now() + service.limits.deadline + 1_000;
    const now = jest.spyOn(performance, 'now').mockReturnValue(late);
    connection.send(REX);
    await expectStatus(201).finally(() => now.mockRestore());
  });

  it('goes on where it is asked to by Expect: 100-Continue', async () => {
    connection.send(create(REX, 'Expect: 100-Continue').split(REX)[0]!);
    await expectStatus(100);
    connection.send(REX + LIVE);
    await expectStatus(201);
    await expectStatus(200);
  });

  it('is closed soon after the response to garbage, also if its client leaves its side open', async () => {
    const before = await service.connections();
    const client = connect({ port: service.port, host: '127.0.0.1', allowHalfOpen: true }).resume();
    client.write('garbage\r\n\r\n');
    await once(client, 'end');
    // Long before the limits of its time.
    await until('it is closed', async () => (await service.connections()) <= before, {
      seconds: 8,
    });
    client.destroy();
  });

  it.each([
    ['is empty', ['Upgrade:', 'Connection: Upgrade']],
    ['Connection does not name', ['Upgrade: h2c', 'Connection: keep-alive, x-upgrade']],
    ['stands alone', ['Upgrade: websocket']],
  ])('goes on after a request with an Upgrade that %s', async (_title, headers) => {
    connection.send(request('GET /health/live', headers) + LIVE);
    await expectStatus(200);
    await expectStatus(200);
  });

  it('whose client has closed its side gets all responses, and is closed', async () => {
    connection.send(list() + create(REX) + list());
    connection.halfClose();
    for (const status of [200, 201, 200]) {
      await expectStatus(status);
    }
    expect(await connection.rest()).toBe('');
  });

  it.each<[string, () => string, creates: number]>([
    ['a request with Upgrade', () => create(REX, 'Upgrade: h2c', 'Connection: Upgrade'), 1],
    ['Upgrade as one of its options', () => list('Upgrade: h2c', 'Connection: TE, Upgrade'), 0],
    // In HTTP/1.0, a connection goes on only after a request that asks for it.
    ['chunks in HTTP/1.0', () => of10(create(undefined, CHUNKED, KEPT)) + chunksOf(REX), 1],
    ['HTTP/1.0, which needs no Host', () => of10(list()).replace('Host: test\r\n', ''), 0],
    ['HTTP/1.0, which has no 100 (Continue),', () => of10(create(REX, 'Expect: 100-continue')), 1],
  ])(
    'ends with the response to %s, and handles nothing after it',
    async (_title, bytes, creates) => {
      const count = async () => (await service.query('select from pets')).length;
      const before = await count();
      connection.send(bytes() + create(REX) + list());
      expect((await lastAnswer()).status).toBe(200 + creates);
      expect(await count()).toBe(before + creates);
    },
  );

  it.each([
    ['amid the headers', () => 'GET /v1/pets HTTP/1.1\r\nHost: te'],
    ['before many answers', () => list().repeat(20)],
    ['after CONNECT behind a request', () => list() + request('CONNECT test:443')],
    ['amid a body', () => create(REX).slice(0, -9)],
  ])('that vanishes %s leaves no request behind, and no connection', async (_title, bytes) => {
    const before = await service.connections();
    for (let i = 0; i < 10; i += 1) {
      const other = await RawConnection.open(service.port);
      other.send(bytes());
      other.vanish();
    }
    await until('no request is handled', () => service.admitted() === 0);
    await until('they are closed', async () => (await service.connections()) <= before);
  });
});

const CONNECTIONS = '/proc/self/net/tcp';
const QUEUE = '/proc/sys/net/core/somaxconn';
// Skipped elsewhere: only Linux tells what it has not given to the service yet, and a system may allow fewer.
const itOfLinux = existsSync(QUEUE) && Number(readFileSync(QUEUE)) >= 1_000 ? it : it.skip;

itOfLinux(
  '700 connections that are opened at once are all there before one is accepted',
  async () => {
    const clients = Array.from({ length: 700 }, () => connect(service.port, '127.0.0.1'));
    // They connect in the next tick, in which none is accepted yet. 01 is established.
    await new Promise(process.nextTick);
    const port = service.port.toString(16).toUpperCase().padStart(4, '0');
    const there = readFileSync(CONNECTIONS, 'utf8').match(RegExp(`:${port} 01 `, 'g'));
    clients.forEach((client) => client.on('error', () => {}).destroy());
    await until('they are closed', async () => (await service.connections()) <= 2);
    expect(there?.length).toBeGreaterThanOrEqual(700);
  },
);

/** Responses that do not depend on the body. */
describe.each<[status: number, line: string, headers: () => string[]]>([
  [200, 'GET /v1/pets', () => [authorization]],
  [401, 'POST /v1/pets', () => [JSON_TYPE]],
  [404, 'POST /nowhere', () => [authorization]],
  [413, 'POST /v1/pets', () => [authorization, JSON_TYPE]],
  [415, 'POST /v1/pets', () => [authorization]],
])('%i to %s', (status, line, headers) => {
  it('comes in place of the 100 (Continue) that its client waits for', async () => {
    const all = [...headers(), 'Content-Length: 20000', 'Expect: 100-continue'];
    connection.send(request(line, all));
    expect((await lastAnswer()).status).toBe(status);
  });

  it('reaches its client, and so does the next response, if the body has at most 1 MiB', async () => {
    const chunks = chunksOf(...Array<string>(63).fill('x'.repeat(2 ** 14)));
    connection.send(request(line, headers(), 'x'.repeat(2 ** 20)) + LIVE);
    connection.send(request(line, [...headers(), CHUNKED]) + chunks + LIVE);
    for (const expected of [status, 200, status, 200]) {
      await expectStatus(expected);
    }
  });

  it('comes also if the body is malformed, unless that is read, which is 400', async () => {
    connection.send(`${request(line, [...headers(), CHUNKED])}zz\r\n`);
    await expectStatus(status === 413 ? 400 : status);
    expect(await connection.rest()).toBe('');
  });
});

it('a request has a time for its headers, and another one for all', () => {
  const server: Server = service.get(HttpAdapterHost).httpAdapter.getHttpServer();
  const { headersTimeout, requestTimeout, socketTimeout: timeout } = service.limits;
  expect(server).toMatchObject({ headersTimeout, requestTimeout, timeout });
});

describe('a body that nobody reads', () => {
  /** Sends chunks until the connection is closed. @returns the bytes that were sent. */
  async function sendWithoutEnd(chunks: string): Promise<number> {
    const client = connect(service.port, '127.0.0.1')
      .on('error', () => {})
      .resume();
    client.write(request('POST /v1/pets', [CHUNKED]));
    // After the response, Node reads in another way.
    await once(client, 'data');
    const goOn = (error?: Error | null) => error ?? client.write(chunks, goOn);
    goOn();
    await new Promise((resolve) => client.once('close', resolve));
    return client.bytesWritten;
  }

  it('has an end, even if its client sends without end, and is not read on if its chunks are tiny', async () => {
    const since = performance.now();
    const [, tiny] = await Promise.all([
      sendWithoutEnd(`ea60\r\n${'x'.repeat(60_000)}\r\n`),
      sendWithoutEnd('1\r\nx\r\n'.repeat(10_000)),
    ]);
    // Node looks once a second.
    expect(performance.now() - since).toBeLessThan(requestTimeout + 5_000);
    // The system's buffers are full.
    expect(tiny).toBeLessThan(12 * 1024 * 1024);
  });

  it('has another coding than chunks: 415', async () => {
    connection.send(create(undefined, 'Transfer-Encoding: gzip, chunked') + chunksOf(REX));
    const answer = await connection.answer();
    expectError(answer, 415, 'unsupported_media_type', ['Transfer-Encoding']);
    expect(answer.headers['accept-encoding']).toBe('identity');
  });

  it('is not kept after it was found too large', async () => {
    const guard = jest.spyOn(BodyGuard.prototype, 'canActivate');
    connection.send(create(undefined, CHUNKED) + `ea60\r\n${'x'.repeat(60_000)}\r\n`);
    await expectStatus(413);
    const [[context]] = guard.mock.calls as [[ExecutionContext]];
    guard.mockRestore();
    expect(context.switchToHttp().getRequest().listenerCount('data')).toBe(0);
  });

  it('is not read by a handler beyond its number of chunks: 413', async () => {
    for (const [spaces, status] of [
      [bodyChunks - REX.length, 201],
      [bodyChunks, 413],
    ] as const) {
      connection.send(create(undefined, CHUNKED) + chunksOf(...(' '.repeat(spaces) + REX)));
      await expectStatus(status);
    }
  });
});

describe('a request that is not well-formed HTTP', () => {
  const HOST = 'Host: test\r\n\r\n';

  /** A createPet with these header lines and these bytes for a body. */
  const post = (headers: string[], body: string) => create(undefined, ...headers) + body;

  it.each<[string, () => string, end?: 'cut short' | '']>([
    ['garbage', () => 'hello\r\n\r\n'],
    ['an unknown method', () => `FOO /v1/pets HTTP/1.1\r\n${HOST}`],
    ['LF alone after the request line', () => `GET /v1/pets HTTP/1.1\n${HOST}`],
    ['a Content-Length beside chunks', () => post([`Content-Length: 2\r\n${CHUNKED}`], '{}')],
    ['a chunk size that is no number', () => post([CHUNKED], 'zz\r\n')],
    ['gzip, whose end is unknown', () => post(['Transfer-Encoding: gzip'], '0\r\n\r\n')],
    ['a body cut short', () => post(['Content-Length: 100'], '{"name":'), 'cut short'],
    ['headers cut short', () => 'GET /v1/pets HTTP/1.1\r\nHost: te', 'cut short'],
  ])('gets 400, and ends its connection: %s', async (_title, bytes, end = '') => {
    connection.send(bytes());
    if (end === 'cut short') {
      connection.halfClose();
    }
    expectError(await lastAnswer(), 400, 'invalid_request');
  });

  it.each([
    '1.1',
    '2.0\r\nHost: a',
    '1.0\r\nHost: [',
    ...['1.1', '1.0'].map((version) => `${version}\r\nHost: a\r\nHost: a`),
    ...['a b', 'a/b@<x>', '[', '[::1', 'a:b:c', 'a:99999x', 'a%zz', 'a%4', '[::1]x', '[x]'].map(
      (host) => `1.1\r\nHost: ${host}`,
    ),
  ])('gets 400 if it has another version, or not one valid Host: %j', async (head) => {
    connection.send(`GET /v1/pets HTTP/${head}\r\n\r\n`);
    expectError(await connection.answer(), 400, 'invalid_request');
  });

  it.each(['', 'a_b.c:80', 'a%20b', '[::1]:80', '[v1.x:y]', "a!$&'()*+,;=~-b:"])(
    'is well-formed with the Host %j',
    async (host) => {
      connection.send(`GET /health/live HTTP/1.1\r\nHost: ${host}\r\n\r\n`);
      await expectStatus(200);
    },
  );

  it('gets 413 for chunk extensions without end', async () => {
    connection.send(post([CHUNKED], `2;${'x'.repeat(20_000)}\r\n{}\r\n0\r\n\r\n`));
    expectError(await lastAnswer(), 413, 'payload_too_large');
  });

  const longest = `X: ${'x'.repeat(headerBytes - '/health/liveHosttestX'.length)}`;
  // Host is one more.
  const most = Array<string>(headerFields - 1).fill('a:');

  it('is accepted up to the limits of its headers', async () => {
    connection.send(request('GET /health/live', [longest]) + request('GET /health/live', most));
    await expectStatus(200);
    await expectStatus(200);
  });

  it.each([
    ['headers', '/health/live', [`${longest}x`]],
    ['a target', `/${'x'.repeat(headerBytes)}`, []],
    ['fields', '/health/live', [...most, 'a:']],
  ])('gets 431 for %s over the limit', async (_what, target, headers) => {
    connection.send(request(`GET ${target}`, headers));
    expectError(await lastAnswer(), 431, 'headers_too_large');
  });
});
