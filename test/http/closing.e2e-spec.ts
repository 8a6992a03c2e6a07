import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import type { Server } from 'node:http';
import { connect, type Socket } from 'node:net';
import { PassThrough, pipeline } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { setTimeout as wait } from 'node:timers/promises';
import { Controller, Get, Module, Res, StreamableFile } from '@nestjs/common';
import type { Response } from 'express';
import { HttpAdapterHost } from '@nestjs/core';
import { Gate } from '../../src/gate/gate.js';
import { HttpLimits } from '../../src/http/limits.js';
import { expectError } from '../support/answers.js';
import { held, HeldModule } from '../support/held-requests.js';
import { exchange, RawConnection, request } from '../support/raw-http.js';
import { serviceOfTests, startService } from '../support/service.js';
import { until } from '../support/until.js';

const BUNDLE = request('GET /docs/assets/swagger-ui-bundle.js', ['Accept-Encoding: identity']);

const LIVE = request('GET /health/live');

const create = (key: string) =>
  request(
    'POST /v1/pets',
    [`Authorization: Bearer ${key}`, 'Content-Type: application/json'],
    '{"name":"Rex","categoryId":1}',
  );

/**
 * Whether the system holds bytes that a client has not read, also of a connection that the process has closed.
 *
 * @param state the connection's, as Linux writes it: 04 if the service has ended its side alone.
 */
const isUnread = (port: number, state = '..'): boolean => {
  const local = port.toString(16).padStart(4, '0').toUpperCase();
  return new RegExp(`: [0-9A-F]+:${local} [0-9A-F:]+ ${state} (?!0{8})`).test(
    readFileSync('/proc/self/net/tcp', 'utf8'),
  );
};

// Skipped elsewhere: only Linux tells how much a client has not read.
const itOfLinux = process.platform === 'linux' ? it : it.skip;

describe('where a client that takes nothing has two seconds', () => {
  const service = serviceOfTests({}, undefined, {
    limits: { socketTimeout: 2_000, headersTimeout: 200, requestTimeout: 200 },
  });

  it('one that does not read its responses is cut off', async () => {
    const client = connect(service.port, '127.0.0.1').pause();
    // More than the operating system holds for it.
    client.write(BUNDLE.repeat(8));
    await until('it is connected', async () => (await service.connections()) === 1);
    // A paused socket does not see its end.
    await until('it is cut off', async () => (await service.connections()) === 0);
    client.destroy();
  });

  it('one that reads them slowly is not', async () => {
    const total = 18 * (await exchange(service.port, BUNDLE)).text.length;
    const client = connect(service.port, '127.0.0.1');
    client.write(BUNDLE.repeat(18));
    const start = performance.now();
    let received = 0;
    for await (const { length } of client) {
      received += length;
      if (received > total) {
        break;
      }
      // All of it takes three seconds. The system holds an eighth, so the service sees that it is read.
      await wait(Math.max(start + (received / total) * 3_000 - performance.now(), 0));
    }
    expect(received).toBeGreaterThan(total);
  });

  const closing = BUNDLE.replace('\r\n', '\r\nConnection: close\r\n');

  itOfLinux.each<[string, (client: Socket) => unknown]>([
    ['asks for the end of its connection', (client) => client.write(closing)],
    ['has ended its own side', (client) => client.end(BUNDLE)],
    ['sends garbage after its request', (client) => client.write(`${BUNDLE}garbage\r\n\r\n`)],
    ['keeps its connection, and then ends its own side', (client) => client.write(BUNDLE)],
    ['asks for its end, and then ends its own side', (client) => client.write(closing)],
  ])('the system holds nothing for one that %s, when it is cut off', async (what, act) => {
    const client = connect({ port: service.port, host: '127.0.0.1', allowHalfOpen: true }).pause();
    client.on('error', () => {});
    act(client);
    const state = what.startsWith('asks') ? '04' : undefined;
    await until('it does not read', () => isUnread(service.port, state));
    if (what.endsWith('and then ends its own side')) {
      client.end();
    }
    await until('it is cut off', async () => (await service.connections()) === 0);
    expect(isUnread(service.port)).toBe(false);
    client.destroy();
  });

  itOfLinux('the system holds nothing for one that makes room for another', async () => {
    const client = connect(service.port, '127.0.0.1').pause();
    client.on('error', () => {}).write(closing);
    // Its response is complete, so it goes first.
    await until('it does not read', () => isUnread(service.port, '04'));
    service.limits.connections = 1;
    expect((await exchange(service.port, LIVE)).status).toBe(200);
    service.limits.connections = new HttpLimits().connections;
    await until('nothing is held', () => !isUnread(service.port), { seconds: 20 });
    client.destroy();
  });

  itOfLinux('one that reads late has all before the end that it asked for', async () => {
    const client = connect(service.port, '127.0.0.1').pause();
    client.write(closing);
    await until('it does not read', () => isUnread(service.port));
    expect((await buffer(client)).length).toBeGreaterThan(1_000_000);
    await until('it is closed', async () => (await service.connections()) === 0);
  });

  it('one that sends far too many requests at once gets 20 responses and a 503', async () => {
    const flood = await RawConnection.open(service.port);
    flood.send(`${LIVE.repeat(300)}GET`);
    const responses = (await flood.rest()).split(/(?=HTTP)/);
    expect(responses.map((response) => response.slice(9, 12))).toEqual([
      ...Array<string>(20).fill('200'),
      '503',
    ]);
  });

  it.each(['', '\r\n', '\r\n\r\n\r\n'])(
    'one that sends no request is closed without a response and without a line in the log: %j',
    async (bytes) => {
      const lines = service.log.length;
      const silent = await RawConnection.open(service.port);
      silent.send(bytes);
      expect(await silent.rest()).toBe('');
      expect(service.log).toHaveLength(lines);
    },
  );

  it.each(['G', '\r\nGET /', LIVE + '\r\nGET / HTTP'])(
    'one that sends a part of a request, such as %j, gets 408',
    async (bytes) => {
      const late = await RawConnection.open(service.port);
      late.send(bytes);
      const [last] = (await late.rest()).split(/(?=HTTP\/1)/).slice(-1);
      expect(last).toMatch(/^HTTP\/1\.1 408 [^]+"request_timeout"/);
    },
  );

  it('one that sends the rest of its request too late gets 408, and creates nothing, nor does what follows', async () => {
    const bytes = create(service.key);
    const late = await RawConnection.open(service.port);
    late.send(bytes.slice(0, -1));
    expectError(await late.answer(), 408, 'request_timeout');
    late.send(bytes.slice(-1) + bytes);
    await until('it is logged', () => service.log.some((line) => line.includes('"status":408')));
    expect(await service.query(`select from pets where name = 'Rex'`)).toEqual([]);
    late.vanish();
  });
});

it('clients that send far too many requests at once keep nobody waiting for long, from their own address neither', async () => {
  const service = await startService({}, undefined, { limits: { excess: 1_000 } });
  const open = (count: number) =>
    Promise.all(Array.from({ length: count }, () => RawConnection.open(service.port)));
  const [others, floods] = [await open(30), await open(8)];
  await until('they are connected', async () => (await service.connections()) === 38);
  floods.forEach((flood) => flood.send(LIVE.repeat(600)));
  others.forEach((other) => other.send(LIVE));
  const statuses = await Promise.all(others.map(async (other) => (await other.answer()).status));
  expect(new Set(statuses)).toEqual(new Set([200]));
  const [later] = await open(1);
  later!.send(LIVE);
  expect((await later!.answer()).status).toBe(200);
  const areClosed = async () => (await service.connections()) <= others.length + 1;
  await until('the floods are closed', areClosed);
  [...others, ...floods, later!].forEach((one) => one.vanish());
  await service.stop();
});

it('clients that sent far too many requests leave nothing behind for those that come when they are closed', async () => {
  const service = await startService({}, undefined, { limits: { excess: 1_000 } });
  for (let i = 0; i < 5; i += 1) {
    const flood = await RawConnection.open(service.port);
    flood.send(LIVE.repeat(300));
    // 20 responses, and a 503.
    expect((await flood.rest()).split('HTTP/1.1 ')).toHaveLength(22);
    await until('it is closed', async () => (await service.connections()) === 0);
  }
  await service.stop();
});

it('clients that flood on new connections, again and again, leave the turns of their own address to others', async () => {
  const service = await startService();
  let isOver = false;
  let floods = 0;
  const flood = async () => {
    while (!isOver) {
      const connection = await RawConnection.open(service.port);
      connection.send(LIVE.repeat(1_000));
      await connection.rest().catch(() => '');
      floods += 1;
    }
  };
  const flooding = Array.from({ length: 20 }, flood);
  try {
    await until('they flood', () => floods > 20);
    for (let i = 0; i < 5; i += 1) {
      const probe = await RawConnection.open(service.port);
      probe.send(LIVE);
      const before = floods;
      expect((await probe.answer()).status).toBe(200);
      // At most two more of each of the 20.
      expect(floods - before).toBeLessThanOrEqual(40);
      probe.vanish();
    }
    const before = floods;
    await until('they still flood', () => floods > before);
  } finally {
    isOver = true;
    await Promise.all(flooding);
  }
  await service.stop();
});

it("a socket that was upgraded is another protocol's: it is not closed for others, and has its time, and an end, with the service", async () => {
  const limits = { connections: 3, stopTimeout: 2_000 };
  const service = await startService({}, undefined, { limits });
  const server: Server = service.get(HttpAdapterHost).httpAdapter.getHttpServer();
  const timeouts: unknown[] = [];
  server.on('upgrade', (_request, socket: Socket) => {
    setImmediate(() => timeouts.push(socket.timeout));
    socket.on('error', () => {}).on('data', (chunk) => socket.write(chunk));
    socket.write(
      'HTTP/1.1 101 Switching Protocols\r\nUpgrade: echo\r\nConnection: Upgrade\r\n\r\n',
    );
  });
  const upgraded = connect(service.port, '127.0.0.1').setEncoding('latin1');
  upgraded.write(request('GET /echo', ['Upgrade: echo', 'Connection: Upgrade']));
  expect(String(await once(upgraded, 'data'))).toContain('101');
  const others: RawConnection[] = [];
  for (let i = 0; i < 6; i += 1) {
    others.push(await RawConnection.open(service.port));
    others.at(-1)!.send(LIVE);
    expect((await others.at(-1)!.answer()).status).toBe(200);
  }
  upgraded.write('hello');
  expect(String(await once(upgraded, 'data'))).toBe('hello');
  expect(timeouts).toEqual([0]);
  others.slice(0, -1).forEach((one) => one.vanish());
  const closed = once(upgraded, 'close');
  const stopped = service.close();
  expect(await others.at(-1)!.rest()).toBe('');
  // One that is idle is closed by now.
  upgraded.write('again');
  expect(await Promise.race([once(upgraded, 'data'), closed])).toEqual(['again']);
  await closed;
  await stopped;
  expect(service.listenerErrors()).toEqual({});
});

it('an Upgrade behind one request too many ends the connection, and is no other protocol', async () => {
  const service = await startService();
  const server: Server = service.get(HttpAdapterHost).httpAdapter.getHttpServer();
  const states: boolean[][] = [];
  server.on('upgrade', (_request, socket: Socket) =>
    states.push([socket.writable, socket.listenerCount('error') > 0]),
  );
  const connection = await RawConnection.open(service.port);
  connection.send(LIVE.repeat(21) + request('GET /echo', ['Upgrade: echo', 'Connection: Upgrade']));
  await connection.rest();
  await until('it is closed', async () => (await service.connections()) === 0);
  expect(states).toEqual([[false, true]]);
  await service.stop();
});

it('a socket that its module destroys when it is upgraded is closed at once, whatever its client has read', async () => {
  const service = await startService();
  const server: Server = service.get(HttpAdapterHost).httpAdapter.getHttpServer();
  const closed: boolean[] = [];
  // Without a listener for its errors.
  server.on('upgrade', (_request, socket: Socket) => {
    socket.destroy();
    closed.push(socket.destroyed);
  });
  const connection = await RawConnection.open(service.port);
  connection.send(request('GET /openapi.json'));
  expect((await connection.answer()).text.length).toBeGreaterThan(8 * 1024);
  connection.send(request('GET /echo', ['Upgrade: echo', 'Connection: Upgrade']));
  expect(await connection.rest()).toBe('');
  expect(closed).toEqual([true]);
  await service.stop();
});

it('a connection that makes room closes its response once', async () => {
  const service = await startService({}, undefined, { limits: { connections: 1 } });
  const server: Server = service.get(HttpAdapterHost).httpAdapter.getHttpServer();
  const closes: number[] = [];
  server.on('request', (_request, response) => {
    const came = closes.push(0);
    response.on('close', () => (closes[came - 1]! += 1));
  });
  const waiting = await RawConnection.open(service.port);
  waiting.send(create(service.key).slice(0, -1));
  await until('it has come', () => closes.length === 1);
  const other = await RawConnection.open(service.port);
  other.send(LIVE);
  await other.answer();
  await waiting.rest();
  await until('both are closed', () => !closes.includes(0));
  // Node emits it when it has closed the socket.
  await new Promise(setImmediate);
  expect(closes).toEqual([1, 1]);
  other.vanish();
  await service.stop();
});

it.each([
  ['accepts a connection', 'connection', (gate: Gate) => jest.spyOn(gate, 'accepted')],
  ['notes a request', 'request', (gate: Gate) => jest.spyOn(gate, 'arrive')],
  ['handles one', 'request', (_gate: Gate, app: any) => jest.spyOn(app, 'handle')],
] as const)(
  'a mistake in what %s is logged and counted, and ends that connection alone',
  async (_what, event, spyOn) => {
    const service = await startService();
    const other = await RawConnection.open(service.port);
    const exchanged = async () => {
      other.send(LIVE);
      return (await other.answer()).status;
    };
    expect(await exchanged()).toBe(200);
    const app = service.get(HttpAdapterHost).httpAdapter.getInstance();
    const spy: jest.SpyInstance = spyOn(service.get(Gate), app);
    spy.mockImplementationOnce(() => {
      throw new Error('a mistake');
    });
    const connection = await RawConnection.open(service.port);
    connection.send(LIVE);
    expect(await connection.rest()).toBe('');
    expect(await exchanged()).toBe(200);
    expect(service.listenerErrors()).toEqual({ [event]: 1 });
    expect(service.log.filter((line) => line.includes('a mistake'))).toHaveLength(1);
    other.vanish();
    await service.stop();
  },
);

it('a client that comes when there are too many connections does not end the upload of one that was idle before', async () => {
  const service = await startService({}, undefined, { limits: { connections: 3 } });
  const open = async () => {
    const connection = await RawConnection.open(service.port);
    connection.send(LIVE);
    expect((await connection.answer()).status).toBe(200);
    return connection;
  };
  const [uploading, another, idle] = [await open(), await open(), await open()];
  const { now } = performance;
  const clock = jest
    .spyOn(performance, 'now')
    .mockImplementation(() => now.call(performance) + 2_000);
  const bytes = create(service.key);
  uploading.send(bytes.slice(0, -1));
  // Its headers have been read once a later request on another connection is answered.
  another.send(LIVE);
  await another.answer();
  const last = await open();
  clock.mockRestore();
  uploading.send(bytes.slice(-1));
  expect((await uploading.answer()).status).toBe(201);
  expect(await idle.rest()).toBe('');
  [uploading, another, last].forEach((one) => one.vanish());
  await service.stop();
});

describe('behind a request whose handler has not ended,', () => {
  let source: PassThrough;
  @Controller('stream')
  class StreamController {
    @Get()
    read() {
      return new StreamableFile(source);
    }

    @Get('piped')
    pipe(@Res() response: Response) {
      pipeline(source, response, () => {});
    }

    @Get('broken-off')
    breakOff(@Res() response: Response) {
      response.write('x'.repeat(100_000), () => {
        response.destroy();
        response.end();
      });
    }
  }
  @Module({ controllers: [StreamController], imports: [HeldModule] })
  class StreamModule {}
  const service = serviceOfTests({}, undefined, { modules: [StreamModule] });
  const authorized = (line: string, ...headers: string[]) =>
    request(line, [`Authorization: Bearer ${service.key}`, ...headers]);

  it.each(['', '/piped'])(
    'a response that fails ends the connection in its turn: /stream%s',
    async (path) => {
      source = new PassThrough();
      const connection = await RawConnection.open(service.port);
      connection.send(authorized('GET /held/first') + authorized(`GET /stream${path}`) + LIVE);
      source.write('begun');
      await until('it is read', () => source.readableFlowing === true);
      // As a broken connection from which it came.
      source.destroy(Object.assign(new Error('The rest is lost.'), { code: 'ECONNRESET' }));
      await until('the first one is in its handler', () => held.has('first'));
      held.get('first')!();
      expect((await connection.answer()).status).toBe(200);
      expect(await connection.rest()).not.toContain('live');
    },
  );

  it('a response that was broken off does not look complete, though its handler ends it', async () => {
    const connection = await RawConnection.open(service.port);
    connection.send(authorized('GET /stream/broken-off') + LIVE);
    const received = await connection.rest();
    expect(received.match(/HTTP\/1\.1/g)).toHaveLength(1);
    expect(received).not.toMatch(/\r\n0\r\n\r\n/);
  });

  it.each(['', '/piped'])(
    'what a client that leaves would have read is destroyed: /stream%s',
    async (path) => {
      source = new PassThrough();
      const connection = await RawConnection.open(service.port);
      connection.send(authorized('GET /held/first') + authorized(`GET /stream${path}`));
      await until('it is read', () => source.readableFlowing === true && held.has('first'));
      connection.vanish();
      await until('it is destroyed', () => source.destroyed, { seconds: 30 });
      held.get('first')!();
    },
  );

  it('nothing of a body is kept while its response waits', async () => {
    const arrive = jest.spyOn(service.get(Gate), 'arrive');
    const connection = await RawConnection.open(service.port);
    connection.send(authorized('GET /held/first') + request('POST /no', [], 'x'.repeat(9_000)));
    const response = () => arrive.mock.calls[1]?.[0];
    await until('it waits', () => held.has('first') && response()?.writableEnded);
    const { req } = response()!;
    await until('none is kept', () => req.readableLength === 0, { seconds: 10 });
    arrive.mockRestore();
    held.get('first')!();
    expect((await connection.answer()).status).toBe(200);
    expect((await connection.answer()).status).toBe(404);
    connection.vanish();
  });

  it('a response reaches its client, though the rest of its form is malformed', async () => {
    const connection = await RawConnection.open(service.port);
    const form = ['Content-Type: multipart/form-data; boundary=b', 'Transfer-Encoding: chunked'];
    connection.send(authorized('GET /held/first') + authorized('POST /held/form', ...form));
    await until('both are in their handlers', () => held.has('first') && held.has('form'));
    held.get('form')!();
    // It is answered once a later request on another connection is.
    await service.anonymous.get('/health/live').expect(200);
    connection.send('zz\r\n');
    await exchange(service.port, LIVE);
    held.get('first')!();
    expect((await connection.answer()).status).toBe(200);
    expect((await connection.answer()).status).toBe(201);
    expect(await connection.rest()).toBe('');
  });
});

const EVERYTHING_BUT_SET_TIMEOUT = [
  ...(['Date', 'hrtime', 'nextTick', 'performance', 'queueMicrotask', 'setImmediate'] as const),
  ...(['clearImmediate', 'setInterval', 'clearInterval'] as const),
];

describe('a service that is told to stop', () => {
  afterEach(() => void jest.useRealTimers());

  it('responds to the request in progress, and closes every other connection at once', async () => {
    const service = await startService();
    const list = request('GET /v1/pets', [`Authorization: Bearer ${service.key}`]);
    const [silent, idle, busy] = await Promise.all(
      [1, 2, 3].map(() => RawConnection.open(service.port)),
    );
    idle!.send(list);
    await idle!.answer();
    const bytes = create(service.key);
    busy!.send(bytes.slice(0, -1));
    // Its headers have been read once a later request on another connection is answered.
    idle!.send(list);
    await idle!.answer();

    const stopped = service.close();
    expect(await silent!.rest()).toBe('');
    expect(await idle!.rest()).toBe('');
    busy!.send(bytes.slice(-1));
    const { status, headers: last } = await busy!.answer();
    expect([status, last['connection']]).toEqual([201, 'close']);
    expect(await busy!.rest()).toBe('');
    await stopped;
  });

  it('responds to a request that was on its way, says that it stops, and ends the connection', async () => {
    const service = await startService();
    const [late, idle] = await Promise.all([1, 2].map(() => RawConnection.open(service.port)));
    await until('they are connected', async () => (await service.connections()) === 2);
    jest.useFakeTimers({ doNotFake: EVERYTHING_BUT_SET_TIMEOUT });
    const stopped = service.close();
    const isRefused = () => RawConnection.open(service.port).then(() => false, () => true); // prettier-ignore
    await until('new connections are refused', isRefused);
    jest.advanceTimersByTime(49);
    late!.send(request('GET /health/ready'));
    const last = await late!.answer();
    expectError(last, 503, 'unavailable', ['stopping']);
    expect(last.headers['connection']).toBe('close');
    expect(await late!.rest()).toBe('');
    jest.advanceTimersByTime(1);
    jest.useRealTimers();
    expect(await idle!.rest()).toBe('');
    await stopped;
  });

  it('closes a connection with the end of a response that has begun', async () => {
    const source = new PassThrough();
    @Controller('stream')
    class StreamController {
      @Get()
      read() {
        return new StreamableFile(source);
      }
    }
    @Module({ controllers: [StreamController] })
    class StreamModule {}
    const service = await startService({}, undefined, { modules: [StreamModule] });
    const socket = connect(service.port, '127.0.0.1');
    socket.write(request('GET /stream', [`Authorization: Bearer ${service.key}`]));
    source.write('begun');
    await once(socket, 'data');
    const idle = await RawConnection.open(service.port);
    const stopped = service.close();
    await idle.rest();
    const since = performance.now();
    socket.resume();
    source.end();
    await stopped;
    expect(performance.now() - since).toBeLessThan(service.limits.stopTimeout / 2);
  });

  it('sends the rest of a response whose handler has ended', async () => {
    const text = 'x'.repeat(16 * 1024 * 1024);
    let isHandled = false;
    @Controller('large')
    class LargeController {
      @Get()
      read() {
        isHandled = true;
        return text;
      }
    }
    @Module({ controllers: [LargeController] })
    class LargeModule {}
    const service = await startService({}, undefined, { modules: [LargeModule] });
    const socket = connect(service.port, '127.0.0.1').pause();
    socket.write(request('GET /large', [`Authorization: Bearer ${service.key}`]));
    await until('it is in its handler', () => isHandled);
    await service.anonymous.get('/health/live').expect(200);
    const stopped = service.close();
    let received = 0;
    for await (const { length } of socket) {
      received += length;
    }
    expect(received).toBeGreaterThan(text.length);
    await stopped;
  });

  it('waits no longer for one that takes no answers, after a CONNECT neither', async () => {
    const service = await startService({}, undefined, { limits: { stopTimeout: 100 } });
    const socket = connect(service.port, '127.0.0.1').pause();
    socket.write(BUNDLE.repeat(8) + request('CONNECT x:1'));
    await service.anonymous.get('/health/live').expect(200);
    const start = performance.now();
    await service.close();
    expect(performance.now() - start).toBeLessThan(service.limits.socketTimeout / 2);
    socket.destroy();
  });
});
