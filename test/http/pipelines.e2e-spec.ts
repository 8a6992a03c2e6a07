import { connect } from 'node:net';
import { newApiKey } from '../../src/api-key.js';
import { FULL_LENGTH } from '../support/full-length.js';
import { until } from '../support/until.js';
import { startService, type TestService } from '../support/service.js';
import { RawConnection, request } from '../support/raw-http.js';
import { setLimits } from '../support/set-limits.js';

describe('a client that sends requests without waiting for answers', () => {
  const COUNT = FULL_LENGTH ? 2_000 : 800;
  let service: TestService;
  let list: string;
  beforeAll(async () => {
    service = await startService();
    await service.query(
      `insert into pets (name, category_id) select repeat('x', 255), 1 from generate_series(1, 100)`,
    );
    list = request('GET /v1/pets?limit=100', [`Authorization: Bearer ${service.key}`]);
  });
  afterAll(() => service.stop());

  /** So large that Node stops reading it, where nobody does. */
  const unread = request('POST /v1/pets', [], 'x'.repeat(17_000));

  /** Waits until a few other requests were answered. */
  const quiet = async () => {
    for (let i = 0; i < 20; i += 1) {
      await service.api.get('/v1/pets/1').expect(200);
    }
  };

  const answered = () => service.log.filter((line) => line.includes('"/v1/pets"')).length;

  it('and takes none has few of them worked on, and gets all when it does', async () => {
    const client = connect(service.port, '127.0.0.1').pause();
    client.write(list.repeat(COUNT));
    let before = -1;
    await until('nothing more happens', async () => {
      const isQuiet = before === answered() && before > 0;
      before = answered();
      await service.api.get('/v1/pets/1').expect(200);
      return isQuiet;
    });
    // What the operating system's buffers hold, and one round more.
    expect(before).toBeLessThan(COUNT / 2);
    const { byteLength } = await fetch(`${service.origin}/v1/pets?limit=100`, {
      headers: { Authorization: `Bearer ${service.key}` },
    }).then((answer) => answer.arrayBuffer());
    client.setTimeout(60_000, () => client.destroy(new Error('nothing came for 60 seconds')));
    let received = 0;
    for await (const bytes of client) {
      received += bytes.length;
      if (received > COUNT * byteLength) {
        break;
      }
    }
    expect(received).toBeGreaterThan(COUNT * byteLength);
  });

  it('is cut off if it has most of more requests than may wait, and others are not', async () => {
    const resetLimits = setLimits({ waiting: 60 });
    for (let i = 0; i < 3; i += 1) {
      const database = await service.pool.connect();
      await database.query('begin; lock table pets in access exclusive mode');
      const [greedy, modest] = await Promise.all(
        [1, 2].map(() => RawConnection.open(service.port)),
      );
      greedy!.send(list.repeat(56));
      await service.anonymous.get('/health/live').expect(200);
      modest!.send(list.repeat(11));
      expect(await greedy!.rest().catch(() => '')).toBe('');
      await database.query('commit');
      database.release();
      for (let n = 0; n < 11; n += 1) {
        expect((await modest!.answer()).status).toBe(200);
      }
      modest!.vanish();
    }
    resetLimits();
  });

  it('and a large body that nobody reads among them, gets an answer to each, and no other', async () => {
    const large = request('GET /openapi.json');
    const live = request('GET /health/live');
    const sent: [string, number][] = [
      [request('GET /v1/pets', [`Authorization: Bearer ${newApiKey()}`]), 401],
      [unread, 401],
      ...Array.from({ length: 31 }, (): [string, number] => [live, 200]),
      ...Array.from({ length: 200 }, (): [string, number] => [large, 200]),
    ];
    const connection = await RawConnection.open(service.port);
    connection.send(sent.map(([bytes]) => bytes).join(''));
    for (let i = 0; i < 2; i += 1) {
      await quiet();
      connection.send(live);
    }
    await quiet();
    for (const [, status] of [...sent, [live, 200]]) {
      expect((await connection.answer()).status).toBe(status);
    }
    expect((await connection.answer()).status).toBe(200);
    connection.vanish();
  });

  it('has none of them overtaken, nor left out for the last one of the connection', async () => {
    const database = await service.pool.connect();
    await database.query('begin; lock table pets in access exclusive mode');
    const connection = await RawConnection.open(service.port);
    connection.send(list + unread + list);
    connection.send(request('GET /health/live', ['Connection: Upgrade', 'Upgrade: h2c']));
    await service.anonymous.get('/health/live').expect(200);
    await database.query('commit');
    database.release();
    const lengths = [];
    for (let i = 0; i < 4; i += 1) {
      const { status, text } = await connection.answer();
      lengths.push([status, text.length > 1_000]);
    }
    expect(lengths).toEqual([
      [200, true],
      [401, false],
      [200, true],
      [200, false],
    ]);
    expect(await connection.rest()).toBe('');
  });

  it('has an animal created before a request behind it is worked on, and after those before it', async () => {
    const authorization = `Authorization: Bearer ${service.key}`;
    const json = 'Content-Type: application/json';
    const create = (name: string, headers: string[] = []) =>
      request(
        'POST /v1/pets',
        [authorization, json, ...headers],
        `{"name":"${name}","categoryId":1}`,
      );
    const { body: last } = await service.api.post('/v1/pets').send({ name: 'x', categoryId: 1 });
    const idOf = (text: string) => Number(/"id":(\d+)/.exec(text)?.[1]);
    const get = (id: number) => request(`GET /v1/pets/${id}`, [authorization]);
    for (let i = 0, id = last.id; i < 10; i += 1, id += 3) {
      const connection = await RawConnection.open(service.port);
      const keyed = create('keyed', [`Idempotency-Key: ${i}`]);
      connection.send(
        get(id + 1) + create('plain') + get(id + 1) + keyed + create('last') + get(id + 3),
      );
      const answers = [];
      for (let n = 0; n < 6; n += 1) {
        answers.push(await connection.answer());
      }
      expect(answers.map(({ status, text }) => [status, idOf(text) - id])).toEqual([
        [404, NaN],
        [201, 1],
        [200, 1],
        [201, 2],
        [201, 3],
        [200, 3],
      ]);
      connection.vanish();
    }
  });

  it('has few handled in one turn of the event loop, so that others have theirs', async () => {
    const handledInTurns: number[] = [];
    let isOver = false;
    const count = () => {
      handledInTurns.push(service.log.splice(0).length);
      if (!isOver) {
        setImmediate(count);
      }
    };
    const connection = await RawConnection.open(service.port);
    service.log.length = 0;
    connection.send(request('GET /nowhere').repeat(COUNT));
    count();
    for (let i = 0; i < COUNT; i += 1) {
      expect((await connection.answer()).status).toBe(404);
    }
    isOver = true;
    connection.vanish();
    expect(Math.max(...handledInTurns)).toBeLessThan(10);
  });

  it('gets them in order, however many they are', async () => {
    const connection = await RawConnection.open(service.port);
    const count = 640;
    const bytes = Array.from({ length: count }, (_, i) =>
      request(i % 2 === 0 ? 'GET /v1/pets?limit=1' : 'GET /nowhere', [
        `Authorization: Bearer ${service.key}`,
        `X-Request-Id: ${i}`,
      ]),
    );
    connection.send(bytes.join(''));
    for (let i = 0; i < count; i += 1) {
      const { status, headers } = await connection.answer();
      expect([status, headers['x-request-id']]).toEqual([i % 2 === 0 ? 200 : 404, `${i}`]);
    }
    connection.vanish();
  });
});
