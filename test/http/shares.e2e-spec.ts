import { connect } from 'node:net';
import { Controller, Get, Module, Param } from '@nestjs/common';
import { HttpAdapterHost } from '@nestjs/core';
import { Public } from '../../src/auth/public.decorator.js';
import { expectError } from '../support/answers.js';
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

/** @returns what unlocks the table. */
async function lockPets({ pool }: TestService): Promise<() => Promise<void>> {
  const locker = await pool.connect();
  await locker.query('begin; lock table pets');
  return async () => {
    await locker.query('rollback');
    locker.release();
  };
}

describe('of what clients share', () => {
  const service = serviceOfTests({}, undefined, { limits: { connections: 3, openRequests: 30 } });
  const open = () => RawConnection.open(service.port);
  afterEach(() => until('all are closed', async () => (await service.connections()) === 0));

  const expectAlive = async (connection: RawConnection) => {
    connection.send(LIVE);
    expect((await connection.answer()).status).toBe(200);
  };
  const expectClosed = async (connection: RawConnection) =>
    expect(await connection.rest().catch(() => '')).toBe('');

  it('a new connection gets that of the idlest: first of those without a request', async () => {
    const [first, second] = [await open(), await open()];
    await expectAlive(first);
    await expectAlive(second);
    const now = jest.spyOn(performance, 'now').mockReturnValue(performance.now() + 1001);
    await expectAlive(first);
    now.mockRestore();
    const silent = await open();
    const third = await open();
    await expectClosed(silent);
    await expectAlive(third);
    const fourth = await open();
    await expectClosed(second);
    for (const connection of [first, third, fourth]) {
      await expectAlive(connection);
      connection.vanish();
    }
  });

  it('a new connection gets none of one that a handler works for', async () => {
    const unlock = await lockPets(service);
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

  it('requests get the place of those whose responses are unread the longest', async () => {
    const unread = openUnread(service, BUNDLE.repeat(20));
    const other = await open();
    for (let i = 0; i < 11; i += 1) {
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
    limits: { handlers: 2, requests: 20 },
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

  it('are half of all at most for the requests of one key, and 503 comes after 401 and before 415', async () => {
    const unlock = await lockPets(service);
    const one = await RawConnection.open(service.port);
    one.send(listWith(service.key).repeat(10));
    await until('they came', () => service.admitted() === 2);
    const create = () => service.api.post('/v1/pets').type('text').send('x');
    expectError(await create(), 503, 'unavailable', ['overloaded']);
    expectError(await create().unset('Authorization'), 401, 'missing_api_key');
    await unlock();
    for (let i = 0; i < 10; i += 1) {
      expect((await one.answer()).status).toBe(200);
    }
    expectError(await create(), 415, 'unsupported_media_type');
    one.vanish();
  });

  it('are had soon by a connection that had a key, and connections are accepted, amid a flood without one', async () => {
    service.limits.handlers = 1_000;
    const open = () => RawConnection.open(service.port);
    const flood = await Promise.all(Array.from({ length: 10 }, open));
    const keyed = await open();
    keyed.send(listWith(service.key));
    expect((await keyed.answer()).status).toBe(200);
    let handledBefore = Infinity;
    const server = service.get(HttpAdapterHost).httpAdapter.getHttpServer();
    server.on('connection', () => (handledBefore = handled.length));
    flood.forEach((connection) => connection.send(request('GET /handled/flood').repeat(20)));
    keyed.send(request('GET /handled/keyed'));
    const others = await Promise.all(Array.from({ length: 5 }, open));
    await keyed.answer();
    expect(handled.indexOf('keyed')).toBeLessThan(3);
    expect(handledBefore).toBeLessThan(10);
    [...flood, keyed, ...others].forEach((connection) => connection.vanish());
  });
});
