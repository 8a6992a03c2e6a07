import fs from 'node:fs';
import { InternalServerErrorException } from '@nestjs/common';
import { QueryFailedError } from 'typeorm';
import { newApiKey } from '../../src/api-key.js';
import { traceIdOf } from '../../src/access-log/access-log.js';
import { Gate } from '../../src/gate/gate.js';
import { networkOf } from '../../src/http/network.js';
import { bufferedStandardOutput, createLogger, logLosses } from '../../src/logging/logger.js';
import { showProgress } from '../../src/logging/progress.js';
import { exchange, RawConnection, request } from '../support/raw-http.js';
import { until } from '../support/until.js';
import { serviceOfTests } from '../support/service.js';

const JSON_TYPE = 'Content-Type: application/json';
const FORGED = '{"level":"fatal","forged":true}';
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;
const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736';
const TRACEPARENT = `00-${TRACE}-00f067aa0ba902b7-01`;

describe('the log', () => {
  const service = serviceOfTests();
  beforeEach(() => {
    service.log.length = 0;
  });

  const requestLines = () =>
    service.log.map((line) => JSON.parse(line)).filter(({ msg }) => msg === 'request');

  it('has one line for each request, with its id, method, route, status, duration, key and trace', async () => {
    await service.api
      .get('/v1/pets/123')
      .set({ 'X-Request-Id': 'one', traceparent: TRACEPARENT })
      .expect(404);
    expect(requestLines()).toEqual([
      {
        level: 'info',
        time: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
        request: 'one',
        method: 'GET',
        route: '/v1/pets/:petId',
        status: 404,
        code: 'pet_not_found',
        ms: expect.any(Number),
        key: '1',
        client: '127.0.0.1',
        trace: TRACE,
        msg: 'request',
      },
    ]);
  });

  // test/http/metrics has more routes.
  it.each([
    ['debug', 200, request('GET /health/live')],
    ['info', 404, request('GET /health/')],
    ['info', 404, request('CONNECT test:443')],
    ['info', 400, 'hello\r\n\r\n'],
  ])('has one line, at %s, with the client, for %i to %j', async (level, status, bytes) => {
    await exchange(service.port, bytes);
    expect(requestLines()).toMatchObject([{ level, status, client: '127.0.0.1' }]);
  });

  it('has one line for each request of a client that vanished: amid a body, with a valid key or not, or unread', async () => {
    const bundle = request('GET /docs/assets/swagger-ui-bundle.js');
    const list = request('GET /v1/pets', [`Authorization: Bearer ${service.key}`]);
    const creates = [service.key, newApiKey()].map((key) =>
      request('POST /v1/pets', [`Authorization: Bearer ${key}`, JSON_TYPE], '{"name":"Rex"}'),
    );
    // The lists' responses wait for the first ones, which the system does not hold.
    const unread = bundle.repeat(8) + list.repeat(4);
    for (const bytes of [unread, ...creates.map((create) => create.slice(0, -1))]) {
      const connection = await RawConnection.open(service.port);
      connection.send(bytes);
      await service.api.get('/v1/pets').expect(200);
      connection.vanish();
    }
    await until('all are there', () => requestLines().length === 17);
    const statuses = requestLines().flatMap((line) => (line.method === 'POST' ? [line] : []));
    // One has no response: it waits for the rest of its body.
    expect(statuses.map(({ status }) => status)).toEqual([undefined, 401]);
    const clients = requestLines().map(({ client }) => client);
    expect(clients).toEqual(clients.map(() => '127.0.0.1'));
  });

  it('holds no value of a request that failed, though PostgreSQL has them in the details and the context of its error', async () => {
    await service.query(`
      create function fail() returns void language plpgsql as
        $$ begin raise exception 'it failed' using detail = 'needle', hint = 'a hint'; end $$;
      create function fail_with_name() returns trigger language plpgsql as
        $$ begin execute format('select fail() /* %s */', new.name); return new; end $$;
      create trigger fail before insert on pets for each row execute function fail_with_name()`);
    await service.api.post('/v1/pets').send({ name: 'needle', categoryId: 1 }).expect(500);
    await service.query('drop trigger fail on pets');
    expect(service.log.join('')).toContain('it failed');
    expect(service.log.join('')).not.toContain('needle');
  });

  it('holds no value of a statement of TypeORM that failed', () => {
    const lines: string[] = [];
    const reason = new Error('duplicate key value violates unique constraint "owners_email_key"');
    const refused = Object.assign(reason, { code: '23505', detail: 'Key (email)=(needle) exists' });
    const err = new QueryFailedError('insert into owners', ['needle'], refused);
    createLogger('error', { write: (line) => void lines.push(line) }).error({ err }, 'It failed');
    expect(lines.join('')).toContain('owners_email_key');
    expect(lines.join('')).not.toContain('needle');
  });

  it('has milliseconds: those from the request to its response', async () => {
    const start = performance.now();
    await service.api.get('/v1/pets').expect(200);
    const [{ ms }] = requestLines();
    expect(ms).toBeGreaterThan(0.01);
    expect(ms).toBeLessThan(performance.now() - start);
  });

  const idOf = async (...ids: string[]) => {
    const headers = ids.map((id) => `X-Request-Id: ${id.replace('SECRET', secret())}`);
    headers.push(`Authorization: Bearer ${service.key}`);
    const answer = await exchange(service.port, request('GET /v1/pets', headers));
    expect(requestLines()).toMatchObject([{ request: answer.headers['x-request-id'] }]);
    return answer.headers['x-request-id'];
  };
  const secret = () => service.key.replace('animalstore_', '');

  it.each(['a', 'x'.repeat(128), 'A-Z_a.z~0:9/+=@'])('has the id that was sent: %s', async (id) =>
    expect(await idOf(id)).toBe(id),
  );

  it.each([
    ['nothing', []],
    ['the secret of its key', ['id-SECRET']],
    ['another key', [`id=${newApiKey().toUpperCase()}`]],
    ['129 characters', ['x'.repeat(129)]],
    ['a space', ['a b']],
    ['two', ['a', 'b']],
  ])('has an id of its own in place of %s', async (_what, ids) =>
    expect(await idOf(...ids)).toMatch(UUID),
  );

  it.each([
    [TRACE, TRACEPARENT],
    [TRACE, TRACEPARENT.replace('00', 'cc')],
    [TRACE, `${TRACEPARENT.replace('00', 'cc')}-more`],
    [undefined, `${TRACEPARENT}-more`],
    [undefined, TRACEPARENT.toUpperCase()],
    [undefined, TRACEPARENT.replace('00', 'ff')],
    [undefined, TRACEPARENT.replace('-01', '')],
    [undefined, TRACEPARENT.replace(TRACE, '0'.repeat(32))],
    [undefined, TRACEPARENT.replace(/00f\w+/, '0'.repeat(16))],
  ])('has the trace %s of the traceparent %s', (trace, traceparent) =>
    expect(traceIdOf(traceparent)).toBe(trace),
  );

  it('holds no key and nothing of a query, a path, a body or a malformed header, nor a line of a client', async () => {
    const forged = `\n${FORGED}\n`;
    const encoded = encodeURIComponent(forged);
    for (const key of [service.key, newApiKey(), 'not-a-key-but-a-secret']) {
      service.log.length = 0;
      const headers = [`Authorization: Bearer ${key}`, JSON_TYPE];
      const list = (...others: string[]) => request('GET /v1/pets', [...others, ...headers]);
      const body = JSON.stringify({ name: FORGED, categoryId: FORGED, access_token: key });
      const all = [
        request(`GET /v1/pets?access_token=${key}&limit=${encoded}`, headers),
        request(`GET /v1/pets/${encoded}`, headers),
        request(`PUT /${key}/${encoded}`, headers),
        request('POST /v1/pets', headers, body),
        list(`traceparent: ${key}`, `X-Forwarded-For: ${key}`, `X-Request-Id: a ${key}`),
        list(`X-Request-Id: a\r\n ${FORGED}`, `traceparent: a\r\n ${FORGED}`),
        request('GET /v1/pets', [`Authorization: Basic ${key}`]),
        request('GET /v1/pets', [`Authorization: ${key}\r\n ${FORGED}`]),
        `${key} ${forged}\r\n\r\n`,
      ];
      for (const bytes of all) {
        await exchange(service.port, bytes);
      }
      expect(requestLines()).toHaveLength(all.length);
      for (const line of service.log) {
        expect(line).toMatch(/^[^\n\r]+\n$/);
        expect(line).not.toContain(key);
        expect(line).not.toContain('forged');
      }
    }
  });
});

/** For each `TRUST_PROXY`: values of `X-Forwarded-For`, and the client that the log then names. */
describe.each<[string, [forwardedFor: string[], client: string][]]>([
  ['', [[['203.0.113.7', '10.1.2.3'], '127.0.0.1']]],
  [
    '1',
    [
      [['2001:db8::7'], '2001:db8::7'],
      [['198.51.100.1, 203.0.113.7'], '203.0.113.7'],
      [['198.51.100.1', '203.0.113.7'], '203.0.113.7'],
      [['203.0.113.9:1, [2001:DB8::7]:443'], '2001:db8::7'],
      [['::ffff:203.0.113.7'], '203.0.113.7'],
      [[`fe80::7%${'x'.repeat(64)}`], 'fe80::7'],
      [['x'.repeat(64)], '127.0.0.1'],
      [['a:b:c:d:e:f:g:h:i'], '127.0.0.1'],
    ],
  ],
  [
    '127.0.0.1, 10.0.0.0/8',
    [
      [['198.51.100.1, 203.0.113.7, 10.1.2.3'], '203.0.113.7'],
      [['198.51.100.1:1, 203.0.113.7:2, 10.1.2.3:443'], '203.0.113.7'],
      [['not-an-address'], '127.0.0.1'],
    ],
  ],
])('with TRUST_PROXY=%s', (TRUST_PROXY, cases) => {
  const service = serviceOfTests({ TRUST_PROXY });

  it.each(cases)('of X-Forwarded-For %j the log has %s', async (forwardedFor, client) => {
    service.log.length = 0;
    const arrived = jest.spyOn(service.get(Gate), 'arrive');
    const headers = forwardedFor.map((value) => `X-Forwarded-For: ${value}`);
    const probe = request('GET /health/live', headers);
    await exchange(service.port, probe);
    // It takes turns with others of its network. The proxy itself has none.
    const network = client === '127.0.0.1' && TRUST_PROXY !== '' ? '' : networkOf(client);
    expect(arrived.mock.calls[0]![0].req.network).toBe(network);
    await exchange(service.port, probe.replace('Host: test', 'Host: a b'));
    expect(service.log.map((line) => JSON.parse(line).client)).toEqual([client, client]);
    arrived.mockRestore();
  });
});

it('a line of the log is written within a second, however few there are', () => {
  jest.useFakeTimers();
  const written = jest.spyOn(fs, 'write').mockImplementation(() => {});
  const line = '{"msg":"a line"}\n';
  const isWritten = () =>
    written.mock.calls.some(([fd, bytes]) => fd === 1 && String(bytes) === line);
  try {
    bufferedStandardOutput().write(line);
    expect(isWritten()).toBe(false);
    jest.advanceTimersByTime(1_000);
    expect(isWritten()).toBe(true);
  } finally {
    written.mockRestore();
    jest.useRealTimers();
  }
});

it('the log says how many lines were lost, those that said so included, and no byte waits when all others are written', async () => {
  jest.useFakeTimers({ doNotFake: ['nextTick'] });
  const writes: [bytes: Buffer, done: (error: null, bytes: number) => void][] = [];
  const written = jest
    .spyOn(fs, 'write')
    .mockImplementation(
      ((_fd: 1, ...write: (typeof writes)[0]) => void writes.push(write)) as never,
    );
  const { lines, waiting } = logLosses;
  const output = bufferedStandardOutput();
  const line = `${JSON.stringify('x'.repeat(16 * 1024 - 3))}\n`;
  Array.from({ length: 1_000 }, () => output.write(line));
  const texts: string[] = [];
  const release = async (most = Infinity) => {
    const [bytes, done] = writes.shift()!;
    const count = Math.min(bytes.length, most);
    texts.push(bytes.toString('utf8', 0, count));
    done(null, count);
    await new Promise(process.nextTick);
  };
  try {
    expect(logLosses.lines - lines).toBe(1_000 - (12 * 1024) / 16);
    // Then there is no room for a line that says so.
    await release(1);
    while (writes[0] !== undefined && writes[0][0].length > 0) {
      await release();
      // What is less than 15 KiB is written within a second.
      jest.advanceTimersByTime(writes.length > 0 ? 0 : 1_000);
    }
  } finally {
    written.mockRestore();
    jest.useRealTimers();
  }
  const all = texts
    .join('')
    .trimEnd()
    .split('\n')
    .map((text) => JSON.parse(text));
  const reports = all.filter(({ msg }) => msg === 'Lines of the log were lost');
  expect(all.length - reports.length).toBe((12 * 1024) / 16);
  const reported = reports.reduce((sum, report) => sum + report.lines, 0);
  expect(reported).toBe(logLosses.lines - lines);
  expect(reported).toBe(1_000 - (12 * 1024) / 16 + 1);
  expect(logLosses.waiting).toBe(waiting);
});

it('the progress of long work is a line every ten seconds where there is no terminal, and ends with it', () => {
  jest.useFakeTimers();
  const written = jest.spyOn(process.stderr, 'write').mockReturnValue(true);
  const lines = () => written.mock.calls.map(([text]) => String(text)).join('');
  try {
    const progress = showProgress();
    progress.update({ what: 'pets', done: 100, total: 1_000 });
    jest.advanceTimersByTime(10_000);
    written.mockClear();
    progress.update({ what: 'pets', done: 600, total: 1_000 });
    jest.advanceTimersByTime(9_000);
    expect(lines()).toBe('');
    jest.advanceTimersByTime(1_000);
    expect(lines()).toMatch(/^pets [=-]+ 60 % \| 600 of 1000 \| 50\/s \| .+ left\n$/);
    progress.stop();
    expect(jest.getTimerCount()).toBe(0);
  } finally {
    written.mockRestore();
    jest.useRealTimers();
  }
});

describe('an error in the log', () => {
  const lines: string[] = [];
  const logger = createLogger('error', { write: (line) => void lines.push(line) });
  const logged = (fields: object): string => {
    logger.error(fields, 'The service failed');
    return lines.pop()!;
  };
  const refused = () =>
    Object.assign(new Error('duplicate key'), {
      code: '23505',
      detail: 'Key (name)=(needle) exists.',
      where: "PL/pgSQL function fail('needle')",
      internalQuery: "select fail('needle')",
    });

  it.each<[where: string, error: () => unknown]>([
    ['alone', refused],
    ['the cause', () => new InternalServerErrorException('It failed.', { cause: refused() })],
    ['the cause of the cause', () => new Error('', { cause: new Error('', { cause: refused() }) })],
    ['one of several', () => new AggregateError([new Error('another'), refused()])],
    [
      'the cause of one of several',
      () => new AggregateError([new Error('', { cause: refused() })]),
    ],
    ['a property', () => Object.assign(new Error('It failed.'), { original: refused() })],
    ['in an object that is thrown', () => ({ reasons: [refused()] })],
  ])('has its message, its code and its stack, and no value of a body: %s', (_where, error) => {
    const line = logged({ err: error() });
    expect(line).toMatch(/duplicate key.+    at .+"code":"23505"/);
    expect(line).not.toContain('needle');
  });

  it('is bounded, with an object that is its own member, a large one, and a deep one', () => {
    const circle: Record<string, unknown> = { rows: Array.from({ length: 10_000 }, () => ({})) };
    Object.assign(circle, { one: circle, two: circle, three: circle });
    const deep = Array.from({ length: 1_000 }).reduce((next) => ({ next }), {});
    const line = logged({ err: Object.assign(new Error('It failed.'), { deep, circle }) });
    expect(JSON.parse(line).err).toMatchObject({ message: 'It failed.', circle: {} });
    expect(line.length).toBeLessThan(20_000);
    expect(line.match(/"next"/g)!.length).toBeLessThan(10);
  });
});
