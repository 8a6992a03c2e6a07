import { Client } from 'pg';
import { newApiKey } from '../../src/api-key.js';
import { VERSION } from '../../src/config/project-root.js';
import { SENT_BATCHES } from '../../src/database/batcher.js';
import { OperatorError } from '../../src/errors/operator-error.js';
import { RawConnection, request } from '../support/raw-http.js';
import { until } from '../support/until.js';
import { serviceOfTests, startService } from '../support/service.js';

describe('without METRICS_PORT', () => {
  it('nothing is measured', async () => {
    const service = await startService();
    expect(service.observesResponses()).toBe(false);
    expect(SENT_BATCHES.hasSubscribers).toBe(false);
    await service.stop();
  });
});

describe('the metrics', () => {
  const service = serviceOfTests({ METRICS_PORT: '0', COMMIT: '0123abc' });
  let metrics: string;
  beforeAll(async () => {
    metrics = `http://127.0.0.1:${service.metricsPort()}/metrics`;
  });

  const text = async () => (await fetch(metrics)).text();

  /** The value of one sample, `name{label="value",…}`; 0 if there is none. */
  async function valueOf(sample: string): Promise<number> {
    const line = (await text()).split('\n').find((one) => one.startsWith(`${sample} `));
    return Number(line?.split(' ').at(-1) ?? 0);
  }

  /** How much `work` adds to each of `samples`. */
  async function added(samples: string[], work: () => Promise<unknown>): Promise<number[]> {
    const before = await Promise.all(samples.map(valueOf));
    await work();
    const after = await Promise.all(samples.map(valueOf));
    return after.map((value, i) => value - before[i]!);
  }

  const requests = (operation: string, method: string, status: number, code = '') =>
    `animal_store_http_requests_total{operation="${operation}",method="${method}",status="${status}",code="${code}"}`;

  /** Sends a request, malformed or not, with a valid key. */
  async function send(line: string, headers: string[] = [], body?: string): Promise<void> {
    const connection = await RawConnection.open(service.port);
    const all = [`Authorization: Bearer ${service.key}`, ...headers];
    connection.send(request(line, all, body));
    await connection.answer(line.split(' ')[0]);
    connection.vanish();
  }

  it.each([
    ['GET /v1/pets', requests('listPets', 'GET', 200)],
    ['HEAD /v1/pets', requests('listPets', 'HEAD', 200)],
    ['GET /v1/pets?limit=0', requests('listPets', 'GET', 400, 'invalid_request')],
    ['GET /v1/pets/987654321', requests('getPet', 'GET', 404, 'pet_not_found')],
    ['GET /v1/store/orders', requests('listOrders', 'GET', 200)],
    ['GET /health/ready', requests('/health/ready', 'GET', 200)],
    ['OPTIONS /v1/pets', requests('/v1/pets', 'OPTIONS', 204)],
    ['GET /nowhere', requests('none', 'GET', 404, 'route_not_found')],
    ['PROPFIND /v1/pets/1', requests('/v1/pets/:petId', 'other', 405, 'method_not_allowed')],
    ['hello /', requests('none', 'other', 400, 'invalid_request')],
  ])('count %s once, by operation, method, status and code', async (line, sample) => {
    expect(await added([sample], () => send(line))).toEqual([1]);
  });

  it('have the errors of the service for each operation from the start, so that the first is an increase', async () => {
    const samples = ['listPets', 'getPet', 'listOrders'].map((operation) =>
      requests(operation, 'GET', 500, 'internal_error'),
    );
    for (const sample of [...samples, requests('createPet', 'POST', 500, 'internal_error')]) {
      expect(await text()).toContain(`${sample} 0\n`);
    }
  });

  it('time each request by operation and method', async () => {
    const labels = 'operation="createPet",method="POST"';
    const body = '{"name":"Rex","categoryId":1}';
    const change = await added(
      [
        `animal_store_http_request_duration_seconds_bucket{le="+Inf",${labels}}`,
        `animal_store_http_request_duration_seconds_count{${labels}}`,
      ],
      () => send('POST /v1/pets', ['Content-Type: application/json'], body),
    );
    expect(change).toEqual([1, 1]);
    const sum = `animal_store_http_request_duration_seconds_sum{${labels}}`;
    expect(await valueOf(sum)).toBeGreaterThan(0);
  });

  it('count rejected keys, and never show one', async () => {
    const key = newApiKey();
    const change = await added([requests('listPets', 'GET', 401, 'invalid_api_key')], () =>
      service.anonymous.get('/v1/pets').set('Authorization', `Bearer ${key}`),
    );
    expect(change).toEqual([1]);
    expect(await text()).not.toContain('animalstore_');
  });

  it('count who still uses getPet, by the id of the key', async () => {
    const [{ id }] = await service.query('select id from api_keys');
    const sample = `animal_store_deprecated_requests_total{operation="getPet",key="${id}"}`;
    const work = async () => {
      await send('GET /v1/pets/1');
      await send('HEAD /v1/pets/1');
      await send('GET /v1/pets');
      await service.anonymous.get('/v1/pets/1').expect(401);
    };
    expect(await added([sample], work)).toEqual([2]);
  });

  it('count how many requests share a statement', async () => {
    const sample = `animal_store_database_batch_size_sum{batch="pet_pages"}`;
    expect(await added([sample], () => send('GET /v1/pets'))).toEqual([1]);
  });

  it('show what requests wait for while the database does not respond', async () => {
    const locker = new Client({ connectionString: service.databaseUrl });
    await locker.connect();
    await locker.query('begin; lock table pets in access exclusive mode');
    const waiting = [1, 2, 3].map(() => service.api.get('/v1/pets').then(({ status }) => status));
    await until('all are in their handlers', async () => {
      return (await valueOf('animal_store_http_requests_in_flight')) === 3;
    });
    expect(
      await valueOf('animal_store_database_connections{state="in_use"}'),
    ).toBeGreaterThanOrEqual(1);
    await locker.end();
    expect(await Promise.all(waiting)).toEqual([200, 200, 200]);
    expect(await valueOf('animal_store_http_requests_in_flight')).toBe(0);
    expect(await valueOf('animal_store_database_connections_max')).toBe(10);
  });

  it('show whether the process is ready, without a probe', async () => {
    expect(await valueOf('animal_store_ready')).toBe(1);
    await service.query('alter table pets rename to pets_that_were');
    expect(await text()).toContain('animal_store_ready 0\n');
    await service.query('alter table pets_that_were rename to pets');
    expect(await valueOf('animal_store_ready')).toBe(1);
  });

  it('have no label that a client chose', async () => {
    const secret = 'needle';
    for (const line of [
      `GET /${secret}`,
      `GET /v1/pets/${secret}`,
      `GET /docs/guides/${secret}`,
      `GET /v1/pets?cursor=${secret}`,
      `PUT /v1/pets/${secret}`,
    ]) {
      await send(line, [`X-Request-Id: ${secret}`]);
    }
    expect(await text()).not.toContain(secret);
  });

  it('say which build runs, and have those of Node.js', async () => {
    const labels = `version="${VERSION}",commit="0123abc",node="${process.version}"`;
    expect(await valueOf(`animal_store_build_info{${labels}}`)).toBe(1);
    for (const name of ['eventloop_lag_p99_seconds', 'heap_size_used_bytes', 'gc_duration']) {
      expect(await text()).toContain(`nodejs_${name}`);
    }
  });

  it('are at /metrics in the text format, and nothing else is there', async () => {
    const response = await fetch(metrics);
    expect(response.headers.get('content-type')).toMatch(/^text\/plain; version=0\.0\.4/);
    expect((await fetch(metrics.replace('metrics', 'v1/pets'))).status).toBe(404);
    expect((await fetch(metrics, { method: 'POST' })).status).toBe(404);
    await service.api.get('/metrics').expect(404);
  });

  it('keep a process from starting if their port is taken, and say so', async () => {
    const start = startService(
      { METRICS_PORT: String(service.metricsPort()) },
      service.databaseUrl,
    );
    await expect(start).rejects.toThrow(OperatorError);
    await expect(start).rejects.toThrow(/METRICS_PORT/);
  });
});
