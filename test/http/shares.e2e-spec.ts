import { connect } from 'node:net';
import { setImmediate as turn } from 'node:timers/promises';
import { Controller, Get, Module, Param } from '@nestjs/common';
import { HttpAdapterHost } from '@nestjs/core';
import { Client } from 'pg';
import { Public } from '../../src/auth/public.decorator.js';
import { statements } from '../../src/database/statement.js';
import { Gate } from '../../src/gate/gate.js';
import { expectError } from '../support/answers.js';
import { held, HeldModule, started } from '../support/held-requests.js';
import { metric } from '../support/metric.js';
import { exchange, RawConnection, request } from '../support/raw-http.js';
import { serviceOfTests, type TestService } from '../support/service.js';
import { until } from '../support/until.js';

const LIVE = request('GET /health/live');
const BUNDLE = request('GET /docs/assets/swagger-ui-bundle.js', ['Accept-Encoding: identity']);

const listWith = (key: string) =>
  request('GET /v1/pets?limit=100', [`Authorization: Bearer ${key}`]);

/** Opens a connection that sends the bytes and reads nothing. */
function openUnread({ port }: TestService, bytes: string) {
  const socket = connect(port, '127.0.0.1').on('error', () => {});
  socket.pause().write(bytes);
  return socket;
}

/** Locks a table, on a session of its own. @returns what unlocks it. */
async function lock({ databaseUrl }: TestService, table: string): Promise<() => Promise<void>> {
  const locker = new Client({ connectionString: databaseUrl });
  // If the test fails before, the database is dropped with the session.
  locker.on('error', () => {});
  await locker.connect();
  await locker.query(`begin; lock table ${table}`);
  return () => locker.end();
}

describe('of what clients share', () => {
  const service = serviceOfTests({}, undefined, {
    limits: { connections: 3, pendingRequests: 30 },
  });
  const open = () => RawConnection.open(service.port);
  afterEach(() => until('all are closed', async () => (await service.connections()) === 0));

  const expectAlive = async (connection: RawConnection) => {
    connection.send(LIVE);
    expect((await connection.answer()).status).toBe(200);
  };
  const expectClosed = async (connection: RawConnection) =>
    expect(await connection.rest().catch(() => '')).toBe('');

  it('a new connection gets that of the idlest, not of one that has just come', async () => {
    const [first, second] = [await open(), await open()];
    await expectAlive(first);
    await expectAlive(second);
    const now = jest.spyOn(performance, 'now').mockReturnValue(performance.now() + 1001);
    await expectAlive(first);
    now.mockRestore();
    const silent = await open();
    const third = await open();
    await expectClosed(second);
    for (const connection of [first, silent, third]) {
      await expectAlive(connection);
      connection.vanish();
    }
  });

  it('a new connection gets that of one whose body does not arrive', async () => {
    const fields = [`Authorization: Bearer ${service.key}`, 'Content-Length: 100'];
    const unfinished = request('POST /v1/pets', [...fields, 'Content-Type: application/json']);
    const waiting = await Promise.all([open(), open(), open()]);
    waiting.forEach((connection) => connection.send(unfinished));
    await until('they are accepted', async () => (await service.connections()) === 3);
    const other = await open();
    await expectAlive(other);
    await until('one is closed', async () => (await service.connections()) === 3);
    [...waiting, other].forEach((connection) => connection.vanish());
  });

  it('a new connection gets none of one that a handler works for', async () => {
    const unlock = await lock(service, 'pets');
    const busy = await Promise.all([open(), open(), open()]);
    busy.forEach((connection) => connection.send(listWith(service.key)));
    await until('they are in their handlers', () => service.admitted() === 3);
    await expectClosed(await open());
    await unlock();
    for (const connection of busy) {
      expect((await connection.answer()).status).toBe(200);
      connection.vanish();
    }
  });

  it('a connection with one request has it handled, however many of others are in handlers', async () => {
    const unlock = await lock(service, 'pets');
    const [one, other, third] = [await open(), await open(), await open()];
    const list = request('GET /v1/pets', [`Authorization: Bearer ${service.key}`]);
    one.send(list.repeat(20));
    other.send(list.repeat(10));
    await until('they are in their handlers', () => service.admitted() === 30);
    await expectAlive(third);
    await unlock();
    [one, other, third].forEach((connection) => connection.vanish());
  });

  it('requests get the place of those whose responses are unread the longest', async () => {
    const unread = openUnread(service, BUNDLE.repeat(20));
    // Meanwhile, the system takes all that it can hold of the unread ones, in steps.
    for (let i = 0; i < 3; i += 1) {
      await exchange(service.port, BUNDLE);
    }
    const other = await open();
    for (let i = 0; i < 19; i += 1) {
      other.send(BUNDLE);
    }
    await until('it is closed', async () => (await service.connections()) === 1);
    expect((await other.answer()).status).toBe(200);
    other.vanish();
    unread.destroy();
  });
});

const handled: string[] = [];

@Public()
@Controller('handled')
class HandledController {
  @Get(':name')
  get(@Param('name') name: string): void {
    handled.push(name);
  }
}

@Module({ controllers: [HandledController] })
class HandledModule {}

describe('places in handlers', () => {
  const service = serviceOfTests({}, undefined, {
    limits: { places: 2, rowsPerPlace: 1_000, admittedRequests: 20 },
    modules: [HandledModule],
  });
  const expectServed = async () =>
    expect((await exchange(service.port, listWith(service.key))).status).toBe(200);

  it('are free when the handler has ended its response, though the client does not read', async () => {
    await service.query(
      `insert into pets (name, category_id) select repeat('x', 255), 1 from generate_series(1, 100)`,
    );
    // Lists behind an asset that is not read cannot be sent.
    const unread = openUnread(service, BUNDLE.repeat(4) + listWith(service.key).repeat(6));
    await until('they have come', async () => (await service.connections()) > 0);
    await expectServed();
    await until('all are handled', () => service.admitted() === 0);
    unread.destroy();
  });

  it('are not taken by requests without a valid key, which wait for nothing, nor before the body is there', async () => {
    const strangers = ['GET /v1/pets', 'GET /docs', 'GET /', 'GET /no'].map((line) =>
      request(line, [`Authorization: Bearer ${service.key}x`]),
    );
    const headers = [`Authorization: Bearer ${service.key}`, 'Content-Type: application/json'];
    const slow = request('POST /v1/pets', [...headers, 'Content-Length: 9']);
    for (const bytes of [strangers.join(''), slow]) {
      const unread = Array.from({ length: 5 }, () => openUnread(service, bytes));
      await expectServed();
      expect(service.admitted()).toBe(0);
      unread.forEach((one) => one.destroy());
    }
  });

  it('are half of all at most for the requests of one key, and 503 comes after 401 and 415', async () => {
    const unlock = await lock(service, 'pets');
    const one = await RawConnection.open(service.port);
    one.send(listWith(service.key).repeat(10));
    await until('they came', () => service.admitted() === 2);
    const create = (type: string) => service.api.post('/v1/pets').type(type).send('{}');
    expectError(await create('json'), 503, 'unavailable', ['overloaded']);
    expectError(await create('json').unset('Authorization'), 401, 'missing_api_key');
    expectError(await create('text'), 415, 'unsupported_media_type');
    await unlock();
    for (let i = 0; i < 10; i += 1) {
      expect((await one.answer()).status).toBe(200);
    }
    expectError(await create('json'), 400, 'invalid_request');
    one.vanish();
  });

  it('are had soon by a request with a key, and connections are accepted, amid a flood without one', async () => {
    service.limits.places = 1_000;
    const open = () => RawConnection.open(service.port);
    const flood = await Promise.all(Array.from({ length: 10 }, open));
    const keyed = await open();
    keyed.send(listWith(service.key));
    expect((await keyed.answer()).status).toBe(200);
    let handledBefore = Infinity;
    const server = service.get(HttpAdapterHost).httpAdapter.getHttpServer();
    server.on('connection', () => (handledBefore = handled.length));
    flood.forEach((connection) => connection.send(request('GET /handled/flood').repeat(20)));
    keyed.send(request('GET /handled/keyed', [`Authorization: Bearer ${service.key}`]));
    const others = await Promise.all(Array.from({ length: 5 }, open));
    await keyed.answer();
    expect(handled.indexOf('keyed')).toBeLessThan(10);
    // A turn in which a connection is accepted handles a few requests.
    expect(handledBefore).toBeLessThan(40);
    [...flood, keyed, ...others].forEach((connection) => connection.vanish());
  });
});

/** Requests with a key in handlers, and those that wait for handlers. */
const inHandlers = (service: TestService) => metric(service, 'http_requests_in_flight');
const waiting = (service: TestService) => metric(service, 'http_requests_queued');

const times = (count: number, name: string) => Array.from({ length: count }, (_, i) => name + i);

const keyed = (line: string, key: string, ...headers: string[]) =>
  request(line, [`Authorization: Bearer ${key}`, ...headers]);

/** Opens connections that send these requests at once, 20 each. */
async function flood(port: number, requests: string[]): Promise<RawConnection[]> {
  const count = Math.ceil(requests.length / 20);
  const open = await Promise.all(Array.from({ length: count }, () => RawConnection.open(port)));
  open.forEach((one, i) => one.send(requests.slice(20 * i, 20 * i + 20).join('')));
  return open;
}

describe('turns', () => {
  const PLACES = 4;
  const service = serviceOfTests({ METRICS_PORT: '0' }, undefined, {
    limits: { places: PLACES, requestsPerTurn: 2 },
    modules: [HeldModule],
  });
  const keys: string[] = [];
  beforeAll(async () => {
    for (const name of ['a', 'b', 'c']) {
      keys.push((await service.keys.issue(name)).key);
    }
  });

  const connections: RawConnection[] = [];
  const come = async (key: number, names: string[], method = 'GET') =>
    connections.push(
      ...(await flood(
        service.port,
        names.map((name) => keyed(`${method} /held/${name}`, keys[key]!)),
      )),
    );
  const untilCame = (count: number) =>
    until(
      `${count} are in handlers or wait for them`,
      async () => held.size + (await waiting(service)) === count,
    );

  afterEach(async () => {
    connections.splice(0).forEach((connection) => connection.vanish());
    await until('none waits', async () => (await waiting(service)) === 0);
    held.forEach((end) => end());
    await until('all have left', async () => (await inHandlers(service)) === 0);
    started.length = 0;
  });

  it.each([
    ['keys', 1, 'GET'],
    ["a key's operations", 0, 'POST'],
  ])(
    'are taken at places in handlers by %s, however many requests of one wait',
    async (_who, key, method) => {
      await come(0, times(200, 'many'));
      await untilCame(200);
      expect(started).toHaveLength(PLACES);
      await come(key, times(10, 'few'), method);
      await untilCame(210);
      while (!started.includes('few9')) {
        await until('one is in its handler', () => held.size > 0);
        held.values().next().value!();
      }
      const before = started.slice(0, started.indexOf('few9'));
      expect(before.filter((name) => name.startsWith('many')).length).toBeLessThanOrEqual(
        PLACES + 10 + PLACES,
      );
    },
  );

  it('are not waited for by keys and operations below their share, though the handlers of one key hang in all places', async () => {
    await come(0, times(100, 'hanging'));
    await untilCame(100);
    await come(1, ['second']);
    await come(2, ['third']);
    await come(0, ['create'], 'POST');
    await until('they are in their handlers', () => started.length === PLACES + 3);
    expect((await exchange(service.port, keyed('GET /v1/pets', keys[1]!))).status).toBe(200);
    expect(started.filter((name) => name.startsWith('hanging'))).toHaveLength(PLACES);
    expect(held.size).toBe(PLACES + 3);
  });

  it('stay taken by all requests of a client that has left, until their handlers end', async () => {
    await come(0, ['first', 'second']);
    await until('both are in their handlers', () => held.size === 2);
    connections.splice(0).forEach((connection) => connection.vanish());
    await until('it is closed', async () => (await service.connections()) === 0);
    expect(await inHandlers(service)).toBe(2);
  });

  it('are taken by keys before their requests are handled too', async () => {
    const noted = (key: number, names: string[]) =>
      names.map((name) => keyed(`GET /noted/${name}`, keys[key]!)).join('');
    const open = () => RawConnection.open(service.port);
    const greedy = await Promise.all(Array.from({ length: 10 }, open));
    const modest = await open();
    connections.push(...greedy, modest);
    // Their keys are known.
    for (const connection of connections) {
      connection.send(noted(connection === modest ? 1 : 0, ['first']));
      expect((await connection.answer()).status).toBe(200);
    }
    started.length = 0;
    greedy.forEach((connection) => connection.send(noted(0, times(20, 'many'))));
    modest.send(noted(1, ['few']));
    expect((await modest.answer()).status).toBe(200);
    expect(started.indexOf('few')).toBeLessThan(20);
  });
});

describe('large responses', () => {
  const service = serviceOfTests({}, undefined, { limits: { places: 16 } });
  const smallWith = (key: string) => keyed('GET /v1/pets?limit=1', key);
  beforeAll(() =>
    service.query(
      `insert into pets (name, category_id) select repeat('x', 255), 1 from generate_series(1, 100)`,
    ),
  );
  afterEach(() => (statements.observe = undefined));

  /** Sends 64 of these requests at once. @returns how many of them one statement served, at most. */
  async function mostAtOnce(bytes: string): Promise<number> {
    let most = 0;
    statements.observe = (_name, _ms, requests) => (most = Math.max(most, requests));
    const connections = await flood(service.port, Array<string>(64).fill(bytes));
    for (let i = 0; i < 64; i += 1) {
      expect((await connections[Math.floor(i / 20)]!.answer()).status).toBe(200);
    }
    connections.forEach((connection) => connection.vanish());
    return most;
  }

  it('are made a few at a time, and small ones many at a time', async () => {
    const small = await mostAtOnce(smallWith(service.key));
    expect((await exchange(service.port, listWith(service.key))).status).toBe(200);
    expect(await mostAtOnce(listWith(service.key))).toBeLessThanOrEqual(small / 2);
  });

  it('leave room for the small ones of another key', async () => {
    const { key } = await service.keys.issue('other');
    const open = () => RawConnection.open(service.port);
    const greedy = await Promise.all(Array.from({ length: 10 }, open));
    const modest = await open();
    // Its key is known.
    modest.send(smallWith(key));
    expect((await modest.answer()).status).toBe(200);
    greedy.forEach((connection) => connection.send(listWith(service.key).repeat(20)));
    modest.send(smallWith(key));
    let large = 0;
    const counting = greedy.map(async (connection) => {
      for (let i = 0; i < 20; i += 1) {
        expect((await connection.answer()).status).toBe(200);
        large += 1;
      }
    });
    expect((await modest.answer()).status).toBe(200);
    expect(large).toBeLessThan(50);
    await Promise.all(counting);
    [...greedy, modest].forEach((connection) => connection.vanish());
  });
});

describe('requests of clients that left', () => {
  const service = serviceOfTests({ METRICS_PORT: '0' }, undefined, {
    limits: { places: 3, rowsPerPlace: 1_000, admittedRequests: 12, requestsPerTurn: 1 },
    modules: [HeldModule, HandledModule],
  });
  const held5 = (key: string) => times(5, 'left').map((name) => keyed(`GET /held/${name}`, key));

  const untilNone = async () => {
    await until('no connection is left', async () => (await service.connections()) === 0);
    await until('none is in a handler', async () => (await inHandlers(service)) === 0);
    expect(await waiting(service)).toBe(0);
  };

  /** Five clients of a key send a request each, come to a stage of it, and leave. */
  type Stage = () => Promise<void>;
  const each = async (requests: string[]) =>
    Promise.all(
      requests.map(async (bytes) => {
        const connection = await RawConnection.open(service.port);
        connection.send(bytes);
        return connection;
      }),
    );
  const leave = (connections: RawConnection[]) => connections.forEach((one) => one.vanish());

  const STAGES: Record<string, Stage> = {
    'their turn': async () => {
      started.length = 0;
      const connections = await each(Array<string>(20).fill(LIVE));
      for (const connection of connections) {
        expect((await connection.answer()).status).toBe(200);
      }
      connections.forEach((one) => one.send(held5(service.key)[0]!.repeat(20)));
      while (started.length < 3) {
        await turn();
      }
      leave(connections);
    },
    'the lookup of their key': async () => {
      const { key } = await service.keys.issue('new');
      const unlock = await lock(service, 'api_keys');
      const connections = await each(held5(key));
      await until('they are looked up', async () => {
        const [{ count }] = await service.query(
          `select count(*)::int from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()`,
        );
        return count > 0;
      });
      leave(connections);
      await until('they have left', async () => (await service.connections()) === 0);
      await unlock();
      expect((await exchange(service.port, keyed('GET /v1/pets', key))).status).toBe(200);
    },
    'their body': async () => {
      const body = ['Content-Type: application/json', 'Content-Length: 9', 'Expect: 100-continue'];
      const connections = await each(
        Array<string>(5).fill(keyed('POST /held/left', service.key, ...body)),
      );
      for (const connection of connections) {
        expect((await connection.answer()).status).toBe(100);
      }
      leave(connections);
    },
    'a place': async () => {
      const { key } = await service.keys.issue('busy');
      started.length = 0;
      const busy = await each(times(3, 'busy').map((name) => keyed(`GET /held/${name}`, key)));
      await until('all places are taken', () => started.length === 3);
      // One is below its share.
      const connections = await each(held5(service.key));
      await until('they wait', async () => held.size + (await waiting(service)) >= 8);
      leave(connections);
      await until('none waits', async () => (await waiting(service)) === 0);
      held.forEach((end) => end());
      for (const connection of busy) {
        expect((await connection.answer()).status).toBe(200);
      }
      leave(busy);
    },
    'their handler': async () => {
      started.length = 0;
      const connections = await each(held5(service.key).slice(0, 3));
      await until('they are in their handlers', () => started.length === 3);
      leave(connections);
    },
    'the database': async () => {
      const unlock = await lock(service, 'pets');
      const connections = await each(Array<string>(3).fill(listWith(service.key)));
      await until('they are in their handlers', async () => (await inHandlers(service)) === 3);
      leave(connections);
      await untilNone();
      await unlock();
    },
  };

  it.each(Object.keys(STAGES))(
    'take nothing from others, and are not counted once their handlers have ended, if they waited for %s',
    async (stage) => {
      // More clients than there are places, and than requests of all keys may be.
      for (let round = 0; round < 5; round += 1) {
        await STAGES[stage]!();
        await until('they have left', async () => (await service.connections()) === 0);
        // Until then, they have their places.
        held.forEach((end) => end());
        await untilNone();
        held.clear();
      }
      started.length = 0;
      const [connection] = await flood(
        service.port,
        times(6, 'all').map((name) => keyed(`GET /held/${name}`, service.key)),
      );
      await until('as many wait as may', async () => (await waiting(service)) === 3);
      expect(started).toHaveLength(3);
      for (let i = 0; i < 6; i += 1) {
        await until('it is in its handler', () => held.has(`all${i}`));
        held.get(`all${i}`)!();
        expect((await connection!.answer()).status).toBe(200);
      }
      connection!.vanish();
      await untilNone();
    },
  );

  it('are not handled any more, and delay nobody', async () => {
    handled.length = 0;
    const flooding = Array<string>(3_000).fill(request('GET /handled/left'));
    const connections = await flood(service.port, flooding);
    await until('some are handled', () => handled.length > 0);
    leave(connections);
    await until('they have left', async () => (await service.connections()) === 0);
    const before = handled.length;
    expect((await exchange(service.port, request('GET /handled/last'))).status).toBe(200);
    expect(handled.slice(before)).toEqual(['last']);
    expect(before).toBeLessThan(3_000);
  });
});

describe('bytes that clients do not read', () => {
  const service = serviceOfTests({}, undefined, { limits: { heldBytes: 4 * 1024 * 1024 } });
  beforeAll(() =>
    service.query(
      `insert into pets (name, category_id) select repeat('x', 255), 1 from generate_series(1, 100)`,
    ),
  );

  it('cost those connections, whatever they have a key for, and nobody else', async () => {
    const reading = connect({ port: service.port, host: '127.0.0.1', localAddress: '127.0.0.2' });
    const greedy = openUnread(service, BUNDLE.repeat(8) + listWith(service.key).repeat(9));
    await until('it is connected', async () => (await service.connections()) === 2);
    const whole = (await exchange(service.port, BUNDLE)).text.length;
    reading.write(BUNDLE);
    let received = 0;
    for await (const { length } of reading) {
      received += length;
      if (received > whole) {
        break;
      }
    }
    expect(received).toBeGreaterThan(whole);
    const areClosed = async () => (await service.connections()) === 0;
    await until('the one that does not read is reset', areClosed);
    expect((await exchange(service.port, listWith(service.key))).status).toBe(200);
    greedy.destroy();
  });

  /** Sends a request many times, 20 of them at once, each with about 16 KB. @returns the connection. */
  async function sendMuch(bytes: string) {
    const connection = await RawConnection.open(service.port);
    for (let round = 0; round < 8; round += 1) {
      connection.send(bytes.repeat(20));
      for (let i = 0; i < 20; i += 1) {
        await connection.answer();
      }
    }
    return connection;
  }
  const LARGE_HEAD = request('GET /health/live', [`X: ${'x'.repeat(16_000)}`]);

  it.each([
    ['heads', LARGE_HEAD],
    ['bodies', request('POST /no', [], 'x'.repeat(16_000))],
  ])('are not those of requests that have come, however many: %s', async (_what, bytes) => {
    const crowded = jest.spyOn(service.get(Gate), 'crowded');
    const connection = await sendMuch(bytes);
    crowded.mockClear();
    // After it, bytes are counted at once.
    await exchange(service.port, BUNDLE);
    await until('they are counted', () => crowded.mock.calls.some(([isDue]) => !isDue));
    connection.send(LIVE);
    expect((await connection.answer()).status).toBe(200);
    crowded.mockRestore();
    connection.vanish();
  });

  it.each([
    ['responses', BUNDLE],
    ['heads', LARGE_HEAD.repeat(20)],
  ])('may be too many soon: others wait until it is known, after many %s', async (_what, bytes) => {
    const crowded = jest.spyOn(service.get(Gate), 'crowded');
    const isDue = async () => {
      await Promise.all([1, 2, 3, 4].map(() => exchange(service.port, bytes)));
      return crowded.mock.calls.some(([isCrowded]) => isCrowded);
    };
    await until('others wait', isDue, { seconds: 20 });
    crowded.mockRestore();
  });

  it('are those of heads too: connections whose heads do not arrive are reset', async () => {
    const head = request('GET /health/live', [`X: ${'x'.repeat(16_000)}`]).slice(0, -4);
    const open = await Promise.all(
      Array.from({ length: 120 }, () => RawConnection.open(service.port)),
    );
    open.forEach((one) => one.send(head));
    const areFew = async () => (await service.connections()) < 110;
    await until('some are reset', areFew, { seconds: 10 });
    expect((await exchange(service.port, LIVE)).status).toBe(200);
    expect(await service.connections()).toBeGreaterThan(60);
    open.forEach((one) => one.vanish());
  });
});
