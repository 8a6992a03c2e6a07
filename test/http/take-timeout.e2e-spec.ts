import { connect } from 'node:net';
import { expectError } from '../support/answers.js';
import { until } from '../support/until.js';
import { startService, type TestService } from '../support/service.js';
import { RawConnection, request } from '../support/raw-http.js';

describe('where a client that takes nothing has two seconds', () => {
  let service: TestService;
  let list: string;
  beforeAll(async () => {
    service = await startService({}, undefined, {
      limits: { socketTimeout: 2_000, headersTimeout: 1_000, requestTimeout: 1_000 },
    });
    await service.query(
      `insert into pets (name, category_id) select repeat('x', 255), 1 from generate_series(1, 100)`,
    );
    list = request('GET /v1/pets?limit=100', [`Authorization: Bearer ${service.key}`]);
  });
  afterAll(async () => {
    await service.stop();
  });

  const half = 'POST /v1/pets HTTP/1.1\r\nHost: test\r\nContent-Length: 9\r\n\r\n{';

  it.each([
    // More than the operating system holds for it.
    ['one that does not read its responses', () => list.repeat(2_000)],
    [
      'one that does not read them, and sends half of a request behind',
      () => list.repeat(400) + half,
    ],
  ])('%s is cut off', async (_title, bytes) => {
    const client = connect(service.port, '127.0.0.1').pause();
    client.write(bytes());
    await until('it is connected', async () => (await service.connections()) === 1);
    // A paused socket does not see its end.
    await until('it is cut off', async () => (await service.connections()) === 0);
    client.destroy();
  });

  it('one that reads them slowly is not', async () => {
    const client = connect(service.port, '127.0.0.1').pause();
    const count = 150;
    client.write(list.repeat(count));
    const { byteLength } = await fetch(`${service.origin}/v1/pets?limit=100`, {
      headers: { Authorization: `Bearer ${service.key}` },
    }).then((response) => response.arrayBuffer());
    let received = 0;
    client.on('data', (bytes) => {
      received += bytes.length;
      client.pause();
      setTimeout(() => client.resume(), 25);
    });
    client.resume();
    await until('it has all', () => received > count * byteLength);
    client.destroy();
  });

  it('one that does not send the rest of its request has the time of a request, then 408', async () => {
    const connection = await RawConnection.open(service.port);
    const create = request(
      'POST /v1/pets',
      [`Authorization: Bearer ${service.key}`, 'Content-Type: application/json'],
      '{"name":"Rex","categoryId":1}',
    );
    connection.send(create.slice(0, -1));
    expectError(await connection.answer(), 408, 'request_timeout');
    expect(await connection.rest()).toBe('');
  });
});
