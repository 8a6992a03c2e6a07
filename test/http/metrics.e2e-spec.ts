import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import fs from 'node:fs';
import { connect, type Socket } from 'node:net';
import { Client } from 'pg';
import { ApiKeyVerifier } from '../../src/auth/api-key-verifier.js';
import { VERSION } from '../../src/config/project-root.js';
import { DATABASE_LIMITS } from '../../src/database/limits.js';
import { OperatorError } from '../../src/errors/operator-error.js';
import { Gate } from '../../src/gate/gate.js';
import { HealthService } from '../../src/health/health.service.js';
import { Metrics } from '../../src/metrics/metrics.js';
import { PetsService } from '../../src/pets/pets.service.js';
import { operations } from '../support/contract.js';
import { expectError } from '../support/answers.js';
import { exchange, RawConnection, request } from '../support/raw-http.js';
import { until } from '../support/until.js';
import { serviceOfTests, startService, useRealTimes } from '../support/service.js';

useRealTimes();

describe('the metrics', () => {
  const service = serviceOfTests({ METRICS_PORT: '0', COMMIT: '0123abc' });

  const address = () => `http://127.0.0.1:${service.metricsPort()}/metrics`;
  const text = async () => (await fetch(address())).text();

  /** The value of one sample, `name{label="value",…}`; 0 if there is none. */
  async function valueOf(sample: string): Promise<number> {
    const line = (await text()).split('\n').find((one) => one.startsWith(`${sample} `));
    return Number(line?.split(' ').at(-1) ?? 0);
  }

  /** How much `work` adds to a sample. */
  async function added(sample: string, work: () => PromiseLike<unknown>): Promise<number> {
    const before = await valueOf(sample);
    await work();
    return (await valueOf(sample)) - before;
  }

  /** Expects that `work` adds its time in seconds, and not more, to a sum. */
  async function expectSeconds(sum: string, work: () => PromiseLike<unknown>): Promise<void> {
    let most = 0;
    const timed = async () => {
      const start = performance.now();
      await work();
      most = (performance.now() - start) / 1_000;
    };
    const seconds = await added(sum, timed);
    expect(seconds).toBeGreaterThan(0.000_1);
    expect(seconds).toBeLessThanOrEqual(most);
  }

  const requests = (operation: string, method: string, status: number, code = '', cause = '') =>
    `animal_store_http_requests_total{operation="${operation}",method="${method}",status="${status}",code="${code}",cause="${cause}"}`;

  /** Sends a request, malformed or not, with a valid key. */
  const send = (line: string, headers: string[] = []) =>
    exchange(service.port, request(line, [`Authorization: Bearer ${service.key}`, ...headers]));

  it.each([
    ['GET /v1/pets', requests('listPets', 'GET', 200)],
    ['HEAD /v1/pets', requests('listPets', 'HEAD', 200)],
    ['GET /v1/pets?limit=0', requests('listPets', 'GET', 400, 'invalid_request')],
    ['GET /v1/pets/987654321', requests('getPet', 'GET', 404, 'pet_not_found')],
    ['OPTIONS /v1/pets', requests('/v1/pets', 'OPTIONS', 204)],
    ['GET /nowhere', requests('none', 'GET', 404, 'route_not_found')],
    ['PROPFIND /v1/pets/1', requests('/v1/pets/:petId', 'other', 405, 'method_not_allowed')],
    ['hello /', requests('none', 'none', 400, 'invalid_request')],
    ['CONNECT /', requests('none', 'other', 404, 'route_not_found')],
  ])('count %s once: %s', async (line, sample) =>
    expect(await added(sample, () => send(line))).toBe(1),
  );

  it('have from the start which build runs, and the errors of the service, so that the first is an increase', async () => {
    const build = `version="${VERSION}",commit="0123abc",node="${process.version}"`;
    const errors = operations().map(({ operationId, method }) =>
      requests(operationId, method, 500, 'internal_error'),
    );
    const expected = [`animal_store_build_info{${build}} 1`, ...errors.map((one) => `${one} 0`)];
    expect((await text()).split('\n')).toEqual(expect.arrayContaining(expected));
  });

  it('time each request by operation and method', async () => {
    const labels = 'operation="createPet",method="POST"';
    const duration = 'animal_store_http_request_duration_seconds';
    const create = () => service.api.post('/v1/pets').send({ name: 'Rex', categoryId: 1 });
    expect(await added(`${duration}_bucket{le="+Inf",${labels}}`, create)).toBe(1);
    await expectSeconds(`${duration}_sum{${labels}}`, create);
  });

  it('time each statement by its name', () => {
    const sum = 'animal_store_statement_duration_seconds_sum{statement="pets-pages"}';
    return expectSeconds(sum, () => service.api.get('/v1/pets'));
  });

  it('count the sessions in use, the idle ones, and what waits for one', async () => {
    const most = service.sessionsOfOne();
    const held = await Promise.all(Array.from({ length: most }, () => service.pool.connect()));
    const connections = 'animal_store_database_connections';
    expect(await valueOf(`${connections}{state="in_use"}`)).toBeGreaterThanOrEqual(most);
    expect(await valueOf(`${connections}{state="idle"}`)).toBeLessThanOrEqual(10 - most);
    const others = (what: string) => valueOf(`${connections}_${what}{operations="others"}`);
    expect(await others('taken')).toBe(most);
    // The scrape's own question has a session within reach.
    expect(await others('awaited')).toBe(0);
    const next = service.pool.connect();
    expect(await others('awaited')).toBe(1);
    expect(await valueOf(`${connections}_awaited{operations="pets"}`)).toBe(0);
    held.forEach((session) => session.release());
    (await next).release();
    expect(await others('awaited')).toBe(0);
    // The service has questions of its own, a few each second.
    await until('none is taken', () => others('taken'), { holds: (count) => count === 0 });
    const inUse = () => valueOf(`${connections}{state="in_use"}`);
    await until('none is in use', inUse, { holds: (count) => count === 0 });
    expect(await valueOf(`${connections}{state="idle"}`)).toBeGreaterThanOrEqual(4);
  });

  it('name the groups of operations that each have a session within reach', async () => {
    const taken = /^animal_store_database_connections_taken\{operations="(.+)"\}/gm;
    const groups = Array.from((await text()).matchAll(taken), ([, name]) => name!);
    const pets = ['pets', 'new pets', 'idempotency keys'];
    const expected = [...pets, 'orders', 'api keys', 'health', 'others'];
    expect(groups.toSorted()).toEqual(expected.toSorted());
  });

  it('are served without the database, which is then not ready, within 5 seconds', async () => {
    const never = new Promise<never>(() => {});
    const hanging = [
      jest.spyOn(service.get(HealthService), 'ready').mockReturnValue(never),
      jest.spyOn(service.get(ApiKeyVerifier), 'expiring').mockReturnValue(never),
    ];
    const start = performance.now();
    expect(await valueOf('animal_store_ready')).toBe(0);
    expect(performance.now() - start).toBeLessThan(5_000);
    hanging.forEach((one) => one.mockRestore());
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
    expect(await added(sample, work)).toBe(2);
    const { id: revokedId, key } = await service.keys.issue('revoked');
    await service.keys.revoke(revokedId);
    await service.anonymous.get('/v1/pets/1').set('Authorization', `Bearer ${key}`).expect(401);
    expect(await text()).not.toContain(`key="${revokedId}"`);
  });

  it('show what requests wait for, and by its name a statement that PostgreSQL canceled, with all its time', async () => {
    const locker = new Client({ connectionString: service.databaseUrl });
    // An assertion below may leave it to the end of the database.
    locker.on('error', () => {});
    await locker.connect();
    await locker.query('begin; lock table pets in access exclusive mode');
    const paths = ['/v1/pets', '/v1/pets/1', '/v1/pets?status=sold'];
    const waiting = paths.map((path) => service.api.get(path).then(({ status }) => status));
    const inFlight = () => valueOf('animal_store_http_requests_in_flight');
    const connections = 'animal_store_database_connections';
    await until('all are in their handlers', async () => (await inFlight()) === 3);
    expect(await valueOf(`${connections}{state="in_use"}`)).toBeGreaterThanOrEqual(1);
    expect(await Promise.all(waiting)).toEqual([503, 503, 503]);
    expect(await valueOf(requests('listPets', 'GET', 503, 'unavailable', 'database_slow'))).toBe(2);
    expect(await valueOf(requests('getPet', 'GET', 503, 'unavailable', 'database_slow'))).toBe(1);
    const lines = service.log.map((line) => JSON.parse(line));
    expect(lines).toContainEqual(
      expect.objectContaining({ msg: 'request', status: 503, cause: 'database_slow' }),
    );
    await locker.end();
    expect(await inFlight()).toBe(0);
    expect(await valueOf(`${connections}_max`)).toBe(10);
    const bucket = (seconds: string) =>
      `animal_store_statement_duration_seconds_bucket{le="${seconds}",statement="pets-pages-by-status"}`;
    expect(await valueOf(bucket(`${DATABASE_LIMITS.statement / 1_000}`))).toBe(0);
    expect(await valueOf(bucket('+Inf'))).toBe(1);
  });

  it('name the cause of a 503 of readiness', async () => {
    const ready = (cause: string) => requests('/health/ready', 'GET', 503, 'unavailable', cause);
    const probe = () => send('GET /health/ready');
    await service.query('alter table pets rename to pets_that_were');
    expect(await added(ready('not_ready'), probe)).toBe(1);
    await service.query('alter table pets_that_were rename to pets');
    const health = service.get(HealthService);
    health.isStopping = true;
    expect(await added(ready('stopping'), probe)).toBe(1);
    health.isStopping = false;
  });

  it('say when a key expires that is in use and expires soon, or has just expired, but not one that was issued for a few days', async () => {
    const expiry = 'animal_store_api_key_expiry_timestamp_seconds';
    const [soon, unused, brief, later, idle, expired, replaced, past] = await Promise.all(
      [13, 13, 13, 15, 13, 13, 13, 13].map((days) =>
        service.keys.issue('client', days * 86_400_000),
      ),
    );
    /** When a key expired, and was last used. */
    const ends: [key: typeof soon, expired: string, used: string][] = [
      [expired, '2 hours', '2 hours 1 minute'],
      [replaced, '2 hours', '4 hours'],
      [past, '25 hours', '25 hours'],
    ];
    for (const [key, end, used] of ends) {
      await service.query(
        `update api_keys set created_at = now() - interval '60 days', expires_at = now() - $2::interval,
                last_used_at = now() - $3::interval where id = $1`,
        [key!.id, end, used],
      );
    }
    await service.query(
      `update api_keys set created_at = now() - interval '60 days',
              last_used_at = now() - case id when $3 then interval '31 days' else interval '29 days' end
        where id in ($1, $2, $3)`,
      [soon!.id, later!.id, idle!.id],
    );
    await service.query('update api_keys set last_used_at = now() where id = $1', [brief!.id]);
    const shown = [soon, expired].map((key) => `${expiry}{key="${key!.id}"}`);
    expect((await text()).match(/^animal_store_api_key_expiry.+(?= )/gm)).toEqual(shown);
    const days = ((await valueOf(`${expiry}{key="${soon!.id}"}`)) - Date.now() / 1000) / 86_400;
    expect(Math.round(days)).toBe(13);
    // An alert would end, and begin again.
    const verifier = service.get(ApiKeyVerifier);
    const failing = jest.spyOn(verifier, 'expiring').mockRejectedValue(new Error('no session'));
    expect((await text()).match(/^animal_store_api_key_expiry.+(?= )/gm)).toEqual(shown);
    failing.mockRestore();
    await service.keys.revoke(soon!.id);
    await service.keys.revoke(expired!.id);
    expect(await text()).not.toContain(`${expiry}{`);
    expect(unused).toBeDefined();
  });

  it('count the requests that each statement was sent for, equal ones too', async () => {
    const pets = service.get(PetsService);
    const later = () => performance.now() + 60_000;
    const rex = { name: 'Rex', categoryId: 1n, status: 'available' } as const;
    const create = () => pets.create(rex, later());
    const { id } = await create();
    const asked: Record<string, () => Promise<unknown>> = {
      'insert-pets': create,
      'pets-pages': () => pets.list({ limit: 20 }, later()),
      'pets-pages-by-status': () => pets.list({ limit: 20, status: 'sold' }, later()),
      'pets-by-id': () => pets.get(BigInt(id), later()),
    };
    for (const [statement, ask] of Object.entries(asked)) {
      const sample = `animal_store_statement_requests_total{statement="${statement}"}`;
      const count = `animal_store_statement_duration_seconds_count{statement="${statement}"}`;
      let requests = 0;
      const sent = await added(count, async () => {
        // Those of one turn of the event loop share a statement.
        requests = await added(sample, () => Promise.all([1, 2, 3].map(ask)));
      });
      expect([statement, sent, requests]).toEqual([statement, 1, 3]);
    }
  });

  it('say that all file descriptors are open if none is left to count them with', async () => {
    expect(await valueOf('process_open_fds')).toBeLessThan(await valueOf('process_max_fds'));
    const { readdirSync } = fs;
    const read = jest.spyOn(fs, 'readdirSync').mockImplementation(((path: string, ...rest: []) => {
      if (path === '/proc/self/fd') {
        throw Object.assign(new Error('too many open files'), { code: 'EMFILE' });
      }
      return readdirSync(path, ...rest);
    }) as typeof readdirSync);
    expect(await valueOf('process_open_fds')).toBe(await valueOf('process_max_fds'));
    read.mockRestore();
    expect(await valueOf('process_open_fds')).toBeLessThan(await valueOf('process_max_fds'));
  });

  it('ask the database once for all scrapes that come meanwhile, at most four of a connection', async () => {
    const ready = jest.spyOn(service.get(HealthService), 'ready');
    const connection = await RawConnection.open(service.metricsPort());
    connection.send(request('GET /metrics').repeat(5));
    const first = await connection.answer();
    for (const _ of [2, 3, 4]) {
      expect((await connection.answer()).text).toBe(first.text);
    }
    expectError(await connection.answer(), 503, 'unavailable');
    expect(ready).toHaveBeenCalledTimes(1);
    connection.vanish();
    ready.mockRestore();
  });

  it('are internal_error, and in the log, if they cannot be read, and are there again in the next scrape', async () => {
    const { registry } = service.get(Metrics);
    const read = jest.spyOn(registry, 'metrics').mockRejectedValueOnce(new Error('a mistake'));
    expectError(
      await exchange(service.metricsPort(), request('GET /metrics')),
      500,
      'internal_error',
    );
    const errors = service.log.filter((line) => JSON.parse(line).err?.message === 'a mistake');
    expect(errors).toHaveLength(1);
    expect(await valueOf('animal_store_ready')).toBe(1);
    read.mockRestore();
  });

  it('count mistakes in the listeners of the service, by event', async () => {
    const sample = 'animal_store_listener_errors_total{event="request"}';
    const arrive = jest.spyOn(service.get(Gate), 'arrive').mockImplementationOnce(() => {
      throw new Error('a mistake');
    });
    expect(await added(sample, () => service.api.get('/v1/pets').catch(() => {}))).toBe(1);
    arrive.mockRestore();
  });

  it('do not count a request whose client left before its response', async () => {
    const connection = await RawConnection.open(service.port);
    const head = [`Authorization: Bearer ${service.key}`, 'Content-Type: application/json'];
    service.log.length = 0;
    connection.send(request('POST /v1/pets', head, '{"name":"Rex"}').slice(0, -1));
    await service.api.get('/v1/pets').expect(200);
    connection.vanish();
    await until('it is logged', () => service.log.some((line) => line.includes('"POST"')));
    expect(await text()).not.toContain('status="undefined"');
  });

  it('show whether the process is ready, without a probe', async () => {
    expect(await valueOf('animal_store_ready')).toBe(1);
    await service.query('alter table pets rename to pets_that_were');
    expect(await text()).toContain('animal_store_ready 0\n');
    await service.query('alter table pets_that_were rename to pets');
    expect(await valueOf('animal_store_ready')).toBe(1);
  });

  it('have no label that a client chose', async () => {
    const targets = ['/needle', '/v1/pets/needle', '/docs/guides/needle', '/v1/pets?cursor=needle'];
    for (const target of targets) {
      await send(`GET ${target}`, ['X-Request-Id: needle', `X-API-Key: ${service.key}`]);
    }
    expect(await text()).not.toMatch(/needle|animalstore_/);
  });

  it('are at /metrics in the text format, and nothing else is there', async () => {
    const { headers } = await fetch(address());
    expect(headers.get('content-type')).toMatch(/^text\/plain; version=0\.0\.4/);
    for (const [method, path, status, code] of [
      ['GET', '/v1/pets', 404, 'route_not_found'],
      ['GET', '/metrics/', 404, 'route_not_found'],
      ['POST', '/metrics', 405, 'method_not_allowed'],
      ['DELETE', '/%00<b>', 404, 'route_not_found'],
    ] as const) {
      const answer = await exchange(service.metricsPort(), request(`${method} ${path}`));
      expectError(answer, status, code);
    }
    await service.api.get('/metrics').expect(404);
  });

  it('hold no connection when the service stops, though a client reads none of them', async () => {
    const other = await startService({ METRICS_PORT: '0' }, service.databaseUrl);
    const accepted: Socket[] = [];
    const note = (message: unknown) => void accepted.push((message as { socket: Socket }).socket);
    subscribe('net.server.socket', note);
    const client = connect(other.metricsPort(), '127.0.0.1').pause();
    client.on('error', () => {});
    await until('it is accepted', () => accepted.length > 0);
    unsubscribe('net.server.socket', note);
    // More than the system takes for it. Each time, those before are made.
    for (let i = 0; i < 80; i += 1) {
      client.write(request('GET /metrics').repeat(3));
      await exchange(other.metricsPort(), request('GET /metrics'));
    }
    await other.close();
    expect(accepted[0]!.destroyed).toBe(true);
    client.destroy();
  });

  it('are told of in one sentence if their port is taken, and no service starts', async () => {
    const METRICS_PORT = `${service.metricsPort()}`;
    const start = startService({ METRICS_PORT }, service.databaseUrl);
    await expect(start).rejects.toBeInstanceOf(OperatorError);
    await expect(start).rejects.toThrow(
      /^The metrics cannot be served: .*EADDRINUSE.+ Set HOST and METRICS_PORT to .+\.$/,
    );
  });
});
