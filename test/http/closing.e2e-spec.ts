import { connect } from 'node:net';
import { setTimeout as wait } from 'node:timers/promises';
import { expectError } from '../support/answers.js';
import { exchange, RawConnection, request } from '../support/raw-http.js';
import { serviceOfTests, startService } from '../support/service.js';
import { until } from '../support/until.js';

const BUNDLE = request('GET /docs/assets/swagger-ui-bundle.js', ['Accept-Encoding: identity']);

const create = (key: string) =>
  request(
    'POST /v1/pets',
    [`Authorization: Bearer ${key}`, 'Content-Type: application/json'],
    '{"name":"Rex","categoryId":1}',
  );

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
    const client = connect(service.port, '127.0.0.1');
    client.write(BUNDLE.repeat(6));
    let left = 6 * (await exchange(service.port, BUNDLE)).text.length;
    for await (const { length } of client) {
      left -= length;
      if (left < 0) {
        break;
      }
      await wait(25);
    }
    expect(left).toBeLessThan(0);
  });

  it('one that never sends anything is closed without a response and without a line in the log', async () => {
    const lines = service.log.length;
    const silent = await RawConnection.open(service.port);
    expect(await silent.rest()).toBe('');
    expect(service.log).toHaveLength(lines);
  });

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

describe('a service that is told to stop', () => {
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

    const stopped = service.stop();
    expect(await silent!.rest()).toBe('');
    expect(await idle!.rest()).toBe('');
    busy!.send(bytes.slice(-1));
    const { status, headers: last } = await busy!.answer();
    expect([status, last['connection']]).toEqual([201, 'close']);
    expect(await busy!.rest()).toBe('');
    await stopped;
  });

  it.each([
    ['closes a connection with the last of the responses that have begun', 20_000, true],
    ['waits no longer for one that takes none, after a CONNECT neither', 100, false],
  ])('%s', async (_title, stopTimeout, reads) => {
    const service = await startService({}, undefined, { limits: { stopTimeout } });
    const client = connect(service.port, '127.0.0.1').pause();
    client.write(BUNDLE.repeat(8) + (reads ? '' : request('CONNECT x:1')));
    await service.anonymous.get('/health/live').expect(200);
    const since = performance.now();
    const stopped = service.stop();
    if (reads) {
      client.resume();
    }
    await stopped;
    // Before the first of them would be cut off.
    expect(performance.now() - since).toBeLessThan(10_000);
    client.destroy();
  });
});
