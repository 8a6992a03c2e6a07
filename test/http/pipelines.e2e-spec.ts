import { connect } from 'node:net';
import { jest } from '@jest/globals';
import { HTTP_LIMITS } from '../../src/http/limits.js';
import { until } from '../process/until.js';
import { startService, type TestService } from '../service.js';
import { RawConnection, request } from './raw-http.js';

describe('a client that sends requests without waiting for answers', () => {
  const COUNT = 2_000;
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
    let received = 0;
    client.on('data', (bytes) => (received += bytes.length));
    client.resume();
    await until('all are answered', () => received > COUNT * byteLength);
    client.destroy();
  });

  it('is cut off where more of them wait than the service holds, and others are not', async () => {
    const held = jest.replaceProperty(HTTP_LIMITS as { held: number }, 'held', 10);
    for (let i = 0; i < 3; i += 1) {
      const greedy = await RawConnection.open(service.port);
      greedy.send(list.repeat(HTTP_LIMITS.pipelined + 20));
      await greedy.rest().catch(() => undefined);
    }
    const modest = await RawConnection.open(service.port);
    modest.send(list.repeat(HTTP_LIMITS.pipelined + 10));
    for (let i = 0; i < HTTP_LIMITS.pipelined + 10; i += 1) {
      expect((await modest.answer()).status).toBe(200);
    }
    modest.vanish();
    held.restore();
  });

  it('gets them in order, however many they are', async () => {
    const connection = await RawConnection.open(service.port);
    const count = HTTP_LIMITS.pipelined * 20;
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
