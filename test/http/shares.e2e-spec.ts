import { connect } from 'node:net';
import { gzipSync } from 'node:zlib';
import { HttpLimits } from '../../src/http/limits.js';
import { expectError } from '../support/answers.js';
import { exchange, RawConnection, request } from '../support/raw-http.js';
import { serviceOfTests } from '../support/service.js';
import { until } from '../support/until.js';

const LIVE = request('GET /health/live');

describe('of what clients share', () => {
  const service = serviceOfTests({}, undefined, { limits: { connections: 3, openRequests: 30 } });
  const open = () => RawConnection.open(service.port);

  async function isAlive(connection: RawConnection): Promise<boolean> {
    connection.send(LIVE);
    return connection.answer().then(
      () => true,
      () => false,
    );
  }

  it('a new connection gets that of the idlest: first of those without a request', async () => {
    const [silent, first, second] = [await open(), await open(), await open()];
    expect(await isAlive(first)).toBe(true);
    expect(await isAlive(second)).toBe(true);
    expect(await isAlive(first)).toBe(true);
    const third = await open();
    expect(await silent.rest().catch(() => '')).toBe('');
    expect(await isAlive(third)).toBe(true);
    const fourth = await open();
    expect(await second.rest().catch(() => '')).toBe('');
    for (const connection of [first, third, fourth]) {
      expect(await isAlive(connection)).toBe(true);
      connection.vanish();
    }
    await until('they are closed', async () => (await service.connections()) === 0);
  });

  it('a new connection gets none of one that a handler works for', async () => {
    await service.query('begin');
    const locker = await service.pool.connect();
    await locker.query('begin; lock table pets');
    const list = request('GET /v1/pets', [`Authorization: Bearer ${service.key}`]);
    const busy = await Promise.all([open(), open(), open()]);
    busy.forEach((connection) => connection.send(list));
    await until('they are in their handlers', () => service.admitted() === 3);
    const late = await open();
    expect(await late.rest().catch(() => '')).toBe('');
    await locker.query('rollback');
    locker.release();
    for (const connection of busy) {
      expect((await connection.answer()).status).toBe(200);
      connection.vanish();
    }
    await until('they are closed', async () => (await service.connections()) === 0);
  });

  it('requests get the place of those whose responses are unread the longest', async () => {
    const bundle = request('GET /docs/assets/swagger-ui-bundle.js', ['Accept-Encoding: identity']);
    const unread = connect(service.port, '127.0.0.1')
      .on('error', () => {})
      .pause();
    unread.write(bundle.repeat(20));
    await until(
      'they are handled',
      () => service.log.filter((line) => line.includes('assets')).length >= 0,
    );
    const other = await open();
    for (let i = 0; i < 11; i += 1) {
      other.send(bundle);
    }
    await until('it is closed', async () => (await service.connections()) === 1);
    expect((await other.answer()).status).toBe(200);
    other.vanish();
    unread.destroy();
    await until('they are closed', async () => (await service.connections()) === 0);
  });
});

describe('places in handlers', () => {
  const service = serviceOfTests({}, undefined, { limits: { handlers: 2, requests: 20 } });
  let list: string;
  beforeAll(async () => {
    list = request('GET /v1/pets?limit=100', [`Authorization: Bearer ${service.key}`]);
    await service.query(
      `insert into pets (name, category_id) select repeat('x', 255), 1 from generate_series(1, 100)`,
    );
  });

  it('are free when the handler has ended its response, though the client does not read', async () => {
    const bundle = request('GET /docs/assets/swagger-ui-bundle.js', ['Accept-Encoding: identity']);
    // Lists behind an asset that is not read cannot be sent.
    const unread = connect(service.port, '127.0.0.1')
      .on('error', () => {})
      .pause();
    unread.write(bundle.repeat(4) + list.repeat(6));
    await until('all are handled', () => service.admitted() === 0);
    expect((await exchange(service.port, list)).status).toBe(200);
    unread.destroy();
  });

  it('are not taken by requests without a key, which wait for nothing', async () => {
    const key = `Authorization: Bearer ${service.key}x`;
    for (const line of ['GET /v1/pets', 'GET /docs', 'GET /', 'GET /no']) {
      const unread = connect(service.port, '127.0.0.1')
        .on('error', () => {})
        .pause();
      unread.write(request(line, [key]).repeat(20));
      expect((await exchange(service.port, list)).status).toBe(200);
      unread.destroy();
    }
    expect(service.admitted()).toBe(0);
  });

  it('are not taken by requests whose body has not arrived', async () => {
    const slow = await Promise.all(
      Array.from({ length: 5 }, () => RawConnection.open(service.port)),
    );
    const headers = [`Authorization: Bearer ${service.key}`, 'Content-Type: application/json'];
    slow.forEach((one) => one.send(request('POST /v1/pets', [...headers, 'Content-Length: 9'])));
    expect((await exchange(service.port, list)).status).toBe(200);
    expect(service.admitted()).toBe(0);
    slow.forEach((one) => one.vanish());
  });

  it('are half of all at most for the requests of one key, and 503 comes after 401 and before 415', async () => {
    const { key } = await service.keys.issue('other');
    const locker = await service.pool.connect();
    await locker.query('begin; lock table pets');
    const one = await RawConnection.open(service.port);
    one.send(list.repeat(10));
    await until('they came', () => service.admitted() === 2);
    const text = { 'Content-Type': 'text/plain' };
    const create = () => service.api.post('/v1/pets').set(text).send('x');
    expectError(await create(), 503, 'unavailable', ['overloaded']);
    expectError(await create().unset('Authorization'), 401, 'missing_api_key');
    const others = create().set('Authorization', `Bearer ${key}`);
    expectError(await others, 415, 'unsupported_media_type');
    await locker.query('rollback');
    locker.release();
    for (let i = 0; i < 10; i += 1) {
      expect((await one.answer()).status).toBe(200);
    }
    expectError(await create(), 415, 'unsupported_media_type');
    one.vanish();
  });
});

describe('a body that nobody reads', () => {
  const service = serviceOfTests();
  const chunked = 'Transfer-Encoding: chunked';

  it.each([
    [401, []],
    [413, ['KEY', 'Content-Type: application/json']],
    [415, ['KEY']],
    [404, []],
  ])('does not keep its client from %i, if it has at most 1 MiB', async (status, headers) => {
    const all = headers.map((one) => one.replace('KEY', `Authorization: Bearer ${service.key}`));
    const line = status === 404 ? 'POST /no' : 'POST /v1/pets';
    for (const size of [2 ** 19, 2 ** 14]) {
      const connection = await RawConnection.open(service.port);
      connection.send(request(line, [...all, `Content-Length: ${2 ** 20}`]) + 'x'.repeat(2 ** 20));
      expect((await connection.answer()).status).toBe(status);
      connection.send(LIVE);
      expect((await connection.answer()).status).toBe(200);
      const chunk = `${size.toString(16)}\r\n${'x'.repeat(size)}\r\n`;
      connection.send(
        request(line, [...all, chunked]) + chunk.repeat(2 ** 20 / size - 1) + '0\r\n\r\n',
      );
      expect((await connection.answer()).status).toBe(status);
      connection.vanish();
    }
  });

  it.each(['x'.repeat(60_000), 'x'])(
    'has an end, even if its client sends without end',
    async (data) => {
      const chunk = `${data.length.toString(16)}\r\n${data}\r\n`;
      const client = connect(service.port, '127.0.0.1')
        .on('error', () => {})
        .resume();
      client.write(request('POST /v1/pets', [chunked]));
      const goOn = () =>
        client.closed || client.write(chunk.repeat(Math.ceil(60_000 / chunk.length)), goOn);
      goOn();
      await new Promise((resolve) => client.once('close', resolve));
    },
  );

  it('is not read by a handler beyond its number of chunks: 413', async () => {
    const { bodyChunks } = new HttpLimits();
    const headers = [
      `Authorization: Bearer ${service.key}`,
      'Content-Type: application/json',
      chunked,
    ];
    const body = '{"name":"Rex","categoryId":1}';
    for (const [spaces, status] of [
      [bodyChunks - body.length, 201],
      [bodyChunks, 413],
    ] as const) {
      const chunks = Array.from(' '.repeat(spaces) + body, (byte) => `1\r\n${byte}\r\n`).join('');
      const bytes = `${request('POST /v1/pets', headers)}${chunks}0\r\n\r\n`;
      expect((await exchange(service.port, bytes)).status).toBe(status);
    }
  });
});

describe('static content', () => {
  const service = serviceOfTests();
  const bundle = '/docs/assets/swagger-ui-bundle.js';
  let connection: RawConnection;
  beforeEach(async () => {
    connection = await RawConnection.open(service.port);
  });
  afterEach(() => connection.vanish());

  const ask = (method: string, path: string, ...headers: string[]) => {
    connection.send(request(`${method} ${path}`, headers));
    return connection.answer(method);
  };

  it.each([bundle, '/docs', '/docs/guides/errors', '/openapi.json', '/openapi.yaml'])(
    'is gzipped for who accepts it, and has an ETag: %s',
    async (path) => {
      const { headers, text } = await ask('GET', path);
      expect(headers).not.toHaveProperty('content-encoding');
      expect(headers).toMatchObject({
        vary: 'Accept-Encoding',
        etag: expect.stringMatching(/^W\/"/),
      });
      const zipped = await ask('HEAD', path, 'Accept-Encoding: br, gzip');
      const size = gzipSync(text, { level: 9 }).length;
      const expected = { 'content-encoding': 'gzip', 'content-length': `${size}` };
      expect(zipped.headers).toMatchObject(expected);
      for (const accepted of ['identity', 'gzip']) {
        const same = [`Accept-Encoding: ${accepted}`, `If-None-Match: ${headers['etag']}`];
        expect((await ask('HEAD', path, ...same)).status).toBe(304);
      }
    },
  );

  it.each([
    'Range: bytes=0-9',
    'Range: bytes=99999999-',
    'If-Unmodified-Since: Thu, 01 Jan 1970 00:00:00 GMT',
    'Accept-Encoding: gzip;q=0',
    'Accept-Encoding: *;q=0',
  ])('is sent whole and plain in spite of %s', async (header) => {
    const { headers: usual } = await ask('HEAD', bundle);
    for (const method of ['GET', 'HEAD']) {
      const { status, headers } = await ask(method, bundle, header);
      expect(status).toBe(200);
      expect(headers['content-length']).toBe(usual['content-length']);
    }
  });
});
