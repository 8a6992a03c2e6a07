import { execFileSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { appendFile, readFile } from 'node:fs/promises';
import { createServer, request as httpRequest, type Server } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { connect } from 'node:tls';
import { Environment } from '../../src/config/environment.js';
import { administerKeys } from '../../src/auth/api-keys.js';
import { type ErrorCode, ERRORS } from '../../src/errors/api-error.js';
import { HttpLimits } from '../../src/http/limits.js';
import supertest from 'supertest';
import { expectError } from '../support/answers.js';
import { query } from '../support/ask.js';
import { describeWith, itWith } from '../support/describe-with.js';
import { read } from '../support/documents.js';
import { freePort } from '../../scripts/free-port.mjs';
import { areInstalled } from '../support/program.js';
import { exchange, RawConnection, request } from '../support/raw-http.js';
import { Project, type Service } from '../support/project.js';
import { temporaryFolder } from '../support/temporary-folder.js';
import { until } from '../support/until.js';
import { PROXIES, Proxy, type ProxyName } from '../support/proxy.js';

describe('deploy/', () => {
  const limits = new HttpLimits();
  const { DRAIN_SECONDS } = new Environment();
  /** Each in milliseconds, by its name: haproxy's `timeout client`, or a directive of nginx. */
  const timesIn = (file: string, of: RegExp): Record<string, number> =>
    Object.fromEntries(
      Array.from(read(file).matchAll(of), ([, name, count, unit]) => [
        name!,
        Number(count) * (unit === 's' ? 1_000 : 1),
      ]),
    );
  const haproxy = timesIn('deploy/haproxy.cfg', /^ +timeout ([\w-]+) (\d+)(m?s)$/gm);
  const [upstream, server] = ['upstream', 'server'].map((block) => {
    const [text] = new RegExp(`^${block} .*?^}`, 'ms').exec(read('deploy/nginx.conf'))!;
    const times = text.matchAll(/^ +(\w+(?:timeout|time)) (\d+)(m?s);$/gm);
    return Object.fromEntries(Array.from(times, ([, name, n]) => [name!, Number(n) * 1_000]));
  }) as [Record<string, number>, Record<string, number>];
  /** The longest that the service takes after a request is complete: 503 without its database. */
  const RESPONSE = 5_000;

  it.each([
    ['haproxy', 'http-request', 'client', 'http-keep-alive', haproxy],
    ['nginx', 'client_header_timeout', 'send_timeout', 'keepalive_timeout', server],
  ] as const)(
    "%s waits for clients as long as the service, or a little longer, so that its errors are the service's",
    (_name, headers, silence, idle, times) => {
      expect(times[headers]).toBeGreaterThanOrEqual(limits.headersTimeout);
      expect(times[silence]).toBeGreaterThan(limits.socketTimeout);
      expect(times[idle]).toBeGreaterThanOrEqual(limits.keepAliveTimeout);
      // Clients that are slow, or gone, take none of its connections for long.
      expect(times[headers]).toBeLessThanOrEqual(2 * limits.headersTimeout);
      expect(times[silence]).toBeLessThanOrEqual(2 * limits.socketTimeout);
      expect(times[idle]).toBeLessThanOrEqual(2 * limits.keepAliveTimeout);
    },
  );

  it('both wait for a body as long as the service, and then for its response, also without its database', () => {
    const [, body] = /wait-for-body time (\d+)s$/m.exec(read('deploy/haproxy.cfg'))!;
    expect(Number(body) * 1_000).toBeGreaterThanOrEqual(limits.requestTimeout);
    expect(haproxy['server']).toBeGreaterThan(RESPONSE);
    expect(server['client_body_timeout']).toBeGreaterThanOrEqual(limits.requestTimeout);
    expect(server['proxy_read_timeout']).toBeGreaterThan(RESPONSE);
    // A process that hangs keeps no client waiting for long.
    expect(Number(body) * 1_000).toBeLessThanOrEqual(2 * limits.requestTimeout);
    expect(haproxy['server']).toBeLessThanOrEqual(2 * RESPONSE);
    expect(server['client_body_timeout']).toBeLessThanOrEqual(2 * limits.requestTimeout);
    for (const name of ['proxy_send_timeout', 'proxy_read_timeout']) {
      expect(server[name]).toBeLessThanOrEqual(2 * RESPONSE);
    }
  });

  it('both respond to a request, after attempts on processes that hang, before a client of the service gives up', () => {
    const number = (path: string, pattern: RegExp) => Number(pattern.exec(read(path))![1]);
    const patience =
      1_000 * number('clients/typescript/src/transport.ts', /ATTEMPT_TIMEOUT = (\d+)_000/);
    expect(1_000 * number('docs/guides/retries.md', /\btimeout=(\d+)\b/)).toBe(patience);
    const retries = number('deploy/haproxy.cfg', /^ +retries (\d+)$/m);
    expect((1 + retries) * haproxy['server']!).toBeLessThan(patience);
    const tries = number('deploy/nginx.conf', /proxy_next_upstream_tries (\d+);/);
    expect(tries * server['proxy_read_timeout']!).toBeLessThan(patience);
  });

  it('haproxy lets a WebSocket be idle longer than the service lets a connection of HTTP', () => {
    const [, hours] = /^ +timeout tunnel (\d+)h$/m.exec(read('deploy/haproxy.cfg'))!;
    expect(Number(hours) * 3_600_000).toBeGreaterThan(limits.keepAliveTimeout);
  });

  it.each([
    ['haproxy.cfg', 5],
    ['nginx.conf', 5],
  ])('%s has only errors of the service, in its form and with their statuses', (file, count) => {
    const lines = read(`deploy/${file}`).matchAll(
      /^.* (?:return|status) (\d{3}) (.*?)'(\{"code":.+\})'/gm,
    );
    const errors = Array.from(lines, ([, sent, type, text]) => ({ sent, type, text: text! }));
    expect(errors).toHaveLength(count);
    for (const { sent, type, text } of errors) {
      const { code, status, message, ...others } = JSON.parse(text);
      expect([text, ERRORS[code as ErrorCode]?.status]).toEqual([text, status]);
      expect([message, others]).toEqual([expect.stringMatching(/^[A-Z].+\.$/), {}]);
      // haproxy makes 503 of 502 and 504.
      expect(/^50[24]$/.test(sent!) ? 503 : Number(sent)).toBe(status);
      const header = "content-type 'application/json; charset=utf-8' string ";
      expect(type).toBe(file === 'nginx.conf' ? '' : header);
    }
  });

  it('haproxy serves its metrics to its own machine alone, and clients at the port, that the top of its file names', () => {
    const text = read('deploy/haproxy.cfg');
    const told = text.matchAll(/^# +(LISTEN|METRICS) .*, by default (\S+)$/gm);
    const defaults = Object.fromEntries(Array.from(told, ([, name, value]) => [name, value]));
    expect(defaults).toEqual({ LISTEN: ':8080', METRICS: expect.stringMatching(/^127\.0\.0\.1:/) });
    const binds = Array.from(text.matchAll(/^ +bind "\$\{(\w+)-(.+?)\}"/gm), ([, ...it]) => it);
    expect(binds).toEqual(['METRICS', 'LISTEN', 'LISTEN'].map((name) => [name, defaults[name]]));
  });

  it("both have the service's 503, with Retry-After, for a process that does not respond in time", () => {
    const errors = read('deploy/haproxy.cfg').match(/^ +http-error status 50\d .+$/gm)!;
    expect(errors.map((line) => /status (\d+)/.exec(line)![1])).toEqual(['502', '503', '504']);
    const body =
      '{"code":"unavailable","message":"The service cannot be reached; try again.","status":503}';
    for (const error of errors) {
      expect(error.endsWith(` string '${body}' hdr Retry-After 1`)).toBe(true);
    }
    expect(read('deploy/nginx.conf')).toMatch(/^ +error_page 502 504 = @unavailable;$/m);
  });

  it('both try another process soon if one accepts no connection', () => {
    for (const time of [haproxy['connect'], server['proxy_connect_timeout']]) {
      expect(time).toBeGreaterThanOrEqual(1_000);
      expect(time).toBeLessThanOrEqual(RESPONSE / 2);
    }
  });

  it('nginx closes idle connections to the service before the service does, and tries a process again after the time in docs/operations.md', () => {
    expect(upstream['keepalive_timeout']).toBeLessThan(limits.keepAliveTimeout);
    const [, seconds] = /it tries the process again after (\d+) seconds/.exec(
      read('docs/operations.md'),
    )!;
    const tries = read('deploy/nginx.conf').match(/^ +server .+$/gm)!;
    expect(tries).toEqual(
      tries.map(() => expect.stringMatching(` max_fails=1 fail_timeout=${seconds}s;$`)),
    );
  });

  it('haproxy notices within a second, and before the default of DRAIN_SECONDS ends, that a process stops, and waits for a busy one', () => {
    const [, inter, fall] = / check inter (\d+)ms fall (\d+) rise 1 /
      .exec(read('deploy/haproxy.cfg'))!
      .map(Number) as [number, number, number];
    expect(inter * fall).toBeLessThanOrEqual(1_000);
    expect(inter * fall).toBeLessThan(DRAIN_SECONDS * 1_000);
    const [, probe] = /probes a time-out of (\d+) seconds/.exec(read('docs/operations.md'))!;
    expect(haproxy['check']).toBe(Number(probe) * 1_000);
  });

  it('haproxy accepts half as many connections as a process', () => {
    const [, connections] = /^ +maxconn (\d+)$/m.exec(read('deploy/haproxy.cfg'))!;
    expect(Number(connections)).toBe(limits.connections / 2);
  });
});

/** Each may be missing on a developer's machine. */
const both = describeWith('haproxy and nginx', areInstalled(...PROXIES));

both('two processes of the service', () => {
  const project = Project.ofTests();
  const proxies = {} as Record<ProxyName, Proxy>;
  let DATABASE_URL: string;
  let key: string;
  let ports: [number, number];
  let services: [Service, Service];
  beforeAll(async () => {
    DATABASE_URL = await project.createMigratedDatabase();
    ({ key } = await administerKeys(DATABASE_URL, (keys) => keys.issue('test')));
    ports = [await freePort(), await freePort()];
    services = await Promise.all([serve(ports[0]), serve(ports[1])]);
    for (const name of PROXIES) {
      proxies[name] = await Proxy.start(name, ports);
    }
  });
  afterAll(() => Promise.all(Object.values(proxies).map((proxy) => proxy.stop())));

  const serve = (port: number) =>
    project.serve({
      NODE_ENV: 'production',
      DATABASE_URL,
      TRUST_PROXY: '1',
      PORT: String(port),
      // On a busy machine, the proxy may notice the drain late.
      DRAIN_SECONDS: '5',
    });

  /** Lists, or creates an animal; again after 409, as the guides say: a killed process may have begun to create it. */
  async function send(name: ProxyName, method: string, more = {}, body?: string): Promise<number> {
    const headers = { Authorization: `Bearer ${key}`, 'Content-Type': 'application/json' };
    const response = await fetch(`${proxies[name].origin}/v1/pets?limit=100`, {
      method,
      headers: { ...headers, 'X-Request-Id': name, ...more },
      ...(body !== undefined && { body }),
    });
    await response.arrayBuffer();
    return response.status === 409 ? send(name, method, more, body) : response.status;
  }

  describe.each(PROXIES)('behind %s as deploy/ configures it', (name) => {
    it('have the address of the client in their log, whatever it says itself', async () => {
      const headers = { 'X-Forwarded-For': '203.0.113.7' };
      const localAddress = { haproxy: '127.0.0.8', nginx: '127.0.0.9' }[name];
      httpRequest(`${proxies[name].origin}/docs`, { localAddress, headers }).end();
      const line = new RegExp(`"client":"${localAddress}"`);
      await Promise.any(services.map(({ program }) => program.says(line)));
    });

    it('have the id of the response in their log, as the proxy has', async () => {
      const ask = (id: string) =>
        fetch(`${proxies[name].origin}/docs`, { headers: { 'X-Request-Id': id } });
      for (const sent of ['own-17', 'with space']) {
        const id = (await ask(`${name}-${sent}`)).headers.get('x-request-id')!;
        const line = new RegExp(`"request":"${id}"`);
        await Promise.any(services.map(({ program }) => program.says(line)));
        await until('it is logged', async () => (await proxies[name].log()).includes(id));
      }
    });

    const POST = ['Authorization: Bearer KEY', 'Content-Type: application/json'];
    const LONG_BODY = request('POST /v1/pets', POST, ' '.repeat(20_000));
    const LONG_HEADER = request('GET /', [`X-Long: ${'x'.repeat(17_000)}`]);
    it.each([
      ['a request without Host', 'GET / HTTP/1.1\r\n\r\n', 400, 'invalid_request'],
      ['a body over 16 KiB', LONG_BODY, 413, 'payload_too_large'],
      ['headers over 16 KiB', LONG_HEADER, 431, 'headers_too_large'],
    ] as const)("reject %s with the service's error", async (_what, bytes, status, code) => {
      const answer = await exchange(proxies[name].port, bytes.replace('KEY', key));
      expectError(answer, status, code);
      expect(answer.headers['x-request-id']).toMatch(/^[\w-]{32,36}$/);
    });

    it('have headers and a body of as many bytes as they accept', async () => {
      const head = [...POST, `X-Long: ${'x'.repeat(15_000)}`];
      const bytes = request('POST /v1/pets', head, '{"name":"Rex","categoryId":1}'.padEnd(16_384));
      const { status } = await exchange(proxies[name].port, bytes.replace('KEY', key));
      expect(status).toBe(201);
    });

    it('serve others while a client leaves, time and again, without the body that it announced', async () => {
      const head = request('POST /v1/pets', [...POST, 'Content-Length: 9']);
      const body = '{"name":"Rex","categoryId":1}';
      for (let n = 0; n < 5; n += 1) {
        const connection = await RawConnection.open(proxies[name].port);
        connection.send(head);
        connection.vanish();
        const created = Array.from({ length: 4 }, () => send(name, 'POST', {}, body));
        expect(await Promise.all(created)).toEqual([201, 201, 201, 201]);
      }
    });
  });

  it('have their requests counted by haproxy, at /metrics alone, in the series of the alert on haproxy', async () => {
    const get = (path: string) => fetch(`http://${proxies.haproxy.metrics}${path}`);
    const lines = (await (await get('/metrics')).text()).split('\n');
    const used = read('docs/observability/alerts.yaml').matchAll(/\b(haproxy_\w+)\{(.+?)\}/g);
    const series = Array.from(used, ([, name, labels]) => [`${name}{`, ...labels!.split(', ')]);
    expect(series).toHaveLength(3);
    const missing = series.filter(
      ([name, ...labels]) =>
        !lines.some((line) => line.startsWith(name!) && labels.every((one) => line.includes(one))),
    );
    expect(missing).toEqual([]);
    expect((await get('/')).status).toBe(404);
  });

  // nginx learns that a process stops when it does not respond: a request on its way then must be sent again.
  it.each([
    ['all requests while one is restarted', 0, 'SIGTERM', 0, ['nginx']],
    ['all requests that may be repeated while one is killed', 1, 'SIGKILL', null, PROXIES],
  ] as const)(
    'respond with 2xx to %s, and create each animal once',
    async (_which, index, signal, code, withKey: readonly ProxyName[]) => {
      const statuses: number[] = [];
      const names: string[] = [];
      let isOver = false;
      const clients = [...PROXIES, ...PROXIES, ...PROXIES, ...PROXIES].map(async (name) => {
        while (!isOver) {
          const pet = randomUUID();
          names.push(pet);
          const headers = withKey.includes(name) ? { 'Idempotency-Key': pet } : {};
          const body = JSON.stringify({ name: pet, categoryId: 1 });
          statuses.push(await send(name, 'POST', headers, body), await send(name, 'GET'));
          // Leaves CPU time for a process to start.
          await wait(20);
        }
      });
      const more = async () => {
        const enough = statuses.length + 100;
        await until('more requests have responses', () => statuses.length >= enough);
      };
      try {
        await more();
        expect((await services[index].program.end(signal)).code).toBe(code);
        await more();
        services[index] = await serve(ports[index]);
        const { program } = services[index];
        await Promise.all(PROXIES.map((name) => program.says(new RegExp(`"${name}"`))));
        await more();
      } finally {
        isOver = true;
      }
      await Promise.all(clients);
      expect(statuses.filter((status) => status < 200 || status > 299)).toEqual([]);
      const rows = await query(DATABASE_URL, 'select name from pets');
      const created = rows.map((row) => row.name).filter((pet) => names.includes(pet));
      expect(created.toSorted()).toEqual(names.toSorted());
    },
  );
});

describe.each(PROXIES)('%s, if no process is up', (name) => {
  describeWith(name)('as deploy/ configures it', () => {
    let proxy: Proxy;
    const PAGE = ['Origin: https://app.example'];
    const PREFLIGHT = request('OPTIONS /v1/pets', [
      ...PAGE,
      'Access-Control-Request-Method: PATCH',
      'Access-Control-Request-Headers: authorization,x-unheard-of',
    ]);
    const ask = (bytes: string) => exchange(proxy.port, bytes);

    it('lets pages read its own errors, and send the request that a preflight asks for, each with an id', async () => {
      // Nobody listens on port 1.
      proxy = await Proxy.start(name, [1, 1], true);
      const id = expect.stringMatching(/^[\w-]{32,36}$/);
      const own = { 'access-control-allow-origin': '*', 'x-request-id': id };
      const away = await ask(request('GET /v1/pets', PAGE));
      expectError(away, 503, 'unavailable');
      const readable = { ...own, 'access-control-expose-headers': '*', 'retry-after': '1' };
      expect(away.headers).toMatchObject(readable);
      const long = { haproxy: 40_000, nginx: 1_100_000 }[name];
      const large = await ask(request('POST /v1/pets', PAGE, ' '.repeat(long)));
      expectError(large, 413, 'payload_too_large');
      expect(large.headers).toMatchObject(own);
      const { status, headers } = await ask(PREFLIGHT);
      expect(Math.floor(status / 100)).toBe(2);
      expect(headers).toMatchObject({
        ...own,
        'access-control-allow-methods': 'PATCH',
        'access-control-allow-headers': 'authorization,x-unheard-of',
      });
      await proxy.stop();
    });

    it('says nothing of CORS unless it is on, and logs no query', async () => {
      proxy = await Proxy.start(name, [1, 1]);
      for (const bytes of [request('GET /v1/pets?access_token=needle', PAGE), PREFLIGHT]) {
        const answer = await ask(bytes);
        expectError(answer, 503, 'unavailable');
        expect(Object.keys(answer.headers).join()).not.toMatch(/access-control/);
      }
      const log = await proxy.stop();
      expect(log).toMatch(/\/v1\/pets\b/);
      // As docs/operations.md reads it: no process could be connected to.
      expect(log).toMatch(
        { haproxy: / animal-store\/\S+ \S+ 503 \d+ SC--/, nginx: / 503 \d+ / }[name],
      );
      expect(log).not.toContain('needle');
    });
  });
});

describe.each(PROXIES)('without a process, %s as deploy/ configures it', (name) => {
  describeWith(name)('responds by itself', () => {
    let proxy: Proxy;
    beforeAll(async () => {
      proxy = await Proxy.start(name, [await freePort(), await freePort()]);
    });
    afterAll(() => proxy.stop());
    const ask = async (id?: string) => {
      const headers: Record<string, string> = id === undefined ? {} : { 'X-Request-Id': id };
      const answer = await supertest(proxy.origin).get('/v1/pets?status=secret').set(headers);
      expectError(answer, 503, 'unavailable');
      return answer.headers['x-request-id']!;
    };

    it.each(['nightly/import:17', 'aZ09._~:/+=@-'.padEnd(128, '.x')])(
      'with the id of the client, which its log has, and without the query: %s',
      async (id) => {
        expect(await ask(id)).toBe(id);
        const log = await until('it is logged', async () => {
          const text = await proxy.log();
          return text.includes(id) ? text : undefined;
        });
        expect(log).not.toContain('secret');
      },
    );

    it.each([
      undefined,
      'with space',
      'x'.repeat(129),
      'AnimalStore_abc',
      `see-${'aB3_'.repeat(12)}`,
    ])('with an id of its own for %j, which may contain an API key or is none', async (id) => {
      const own = await ask(id);
      expect(own).toMatch(/^[0-9a-f-]{32,36}$/);
      await until('it is logged', async () => (await proxy.log()).includes(own));
      expect(await proxy.log()).not.toContain(id ?? 'undefined');
    });

    it('with an id to a request that the service never sees', async () => {
      const head = ['X-Request-Id: large-17', 'Content-Type: application/json'];
      const bytes = request('POST /v1/pets', head, ' '.repeat(1_100_000));
      const { status, headers } = await exchange(proxy.port, bytes);
      expect([status, headers['x-request-id']]).toEqual([413, 'large-17']);
    });
  });
});

describeWith('nginx')('nginx as deploy/ configures it', () => {
  it.each([
    request('GET /a%00b'),
    request('GET /?%00=needle').replace('?%00', '%00?'),
    'GET /\r\n',
    'hello\r\n\r\n',
    request(`GET /${'x'.repeat(40_000)}`),
  ])('rejects what it cannot parse with an error of its own, not a failure: %#', async (bytes) => {
    const proxy = await Proxy.start('nginx', [1, 1], true);
    const connection = await RawConnection.open(proxy.port);
    connection.send(bytes);
    // HTTP/0.9 has no head.
    const text = await connection.rest();
    expect(text).toMatch(/"code":"(invalid_request|headers_too_large)"[^]+"status":4(00|31)\}$/);
    expect(text).toMatch(/^(HTTP\/1\.1 4|\{)/);
    const fields =
      /^Server: nginx\r\n[^]+\r\nX-Request-Id: \w+\r\nAccess-Control-Allow-Origin: \*\r\n/m;
    expect(text.startsWith('{') || fields.test(text)).toBe(true);
    expect(await proxy.stop()).not.toContain('needle');
  });
});

describe.each(PROXIES)('servers that close connections without a response, behind %s', (name) => {
  describeWith(name)('as deploy/ configures it', () => {
    /** In place of both processes. What comes is counted, and has no response if it is silent. */
    let server: Server;
    let port: number;
    let proxy: Proxy;
    let isSilent: boolean;
    let hangs: boolean;
    const requests: string[] = [];
    const stop = () => server.close().closeAllConnections();
    beforeEach(async () => {
      isSilent = false;
      hangs = false;
      requests.length = 0;
      server = createServer(({ url, method, socket }, response) => {
        if (url !== '/health/ready') {
          requests.push(method!);
          if (isSilent) {
            socket.destroy();
          }
          if (hangs) {
            return;
          }
        }
        response.end();
      }).listen(0, '127.0.0.1');
      await once(server, 'listening');
      ({ port } = server.address() as AddressInfo);
      proxy = await Proxy.start(name, [port, port]);
    });
    afterEach(async () => {
      await proxy.stop();
      stop();
    });

    /** On a connection of its own: the proxy may be closing one that was used before. */
    async function expectUnavailable(
      method: 'get' | 'post' | 'patch' = 'get',
      headers = {},
    ): Promise<void> {
      const answer = await supertest(proxy.origin)[method]('/').set(headers);
      expectError(answer, 503, 'unavailable');
      expect(answer.headers['retry-after']).toBe('1');
    }

    it.each([
      ['is sent again', 'get', {}, false],
      ['is sent again', 'post', { 'Idempotency-Key': 'once' }, false],
      ['is sent again', 'post', { 'Idempotency-Key': '0' }, false],
      ['is sent once', 'post', {}, true],
      ['is sent once', 'patch', {}, true],
    ] as const)('a request %s: %s with %j', async (_what, method, headers, isSentOnce) => {
      isSilent = true;
      await expectUnavailable(method, headers);
      expect(new Set(requests)).toEqual(new Set([method.toUpperCase()]));
      expect(requests.length === 1).toBe(isSentOnce);
      // In an outage, clients send again too.
      expect(requests.length).toBeLessThanOrEqual(3);
    });

    const soon = (text: string) =>
      text.replace(/(timeout server|proxy_read_timeout) \d+s/, '$1 1s');

    it("a request to which no process responds in time gets the service's error", async () => {
      hangs = true;
      await proxy.stop();
      proxy = await Proxy.start(name, [port, port], false, {}, soon);
      await expectUnavailable();
      expect(requests).toContain('GET');
    });

    it("a POST is sent to the other one if the first accepts no connection, and gets the service's error if none does", async () => {
      await proxy.stop();
      // Nobody listens on port 1. The port of a server that was stopped might be given to another test.
      proxy = await Proxy.start(name, [1, port]);
      for (let n = 0; n < 10; n += 1) {
        expect((await fetch(proxy.origin, { method: 'POST' })).status).toBe(200);
      }
      expect(requests).toHaveLength(10);
      stop();
      await expectUnavailable();
    });

    const keyed = { method: 'POST', headers: { 'Idempotency-Key': '0' } };

    // One kind at a time, because nginx sends nothing for a while to a process that has failed.
    it.each([
      ['GET', 'ends its connection', {}, (socket: Socket) => socket.destroy()],
      ['GET', 'hangs', {}, () => {}],
      ['POST with a key', 'ends its connection', keyed, (socket: Socket) => socket.destroy()],
      ['POST with a key', 'hangs', keyed, () => {}],
    ])('a %s goes to the other process if one %s', async (_what, _how, init, refuse) => {
      let refused = 0;
      const refusing = createServer(({ url, socket }, response) => {
        if (url === '/health/ready') {
          response.end();
        } else {
          refused += 1;
          refuse(socket);
        }
      }).listen(0, '127.0.0.1');
      // Jest ends, whatever fails below.
      refusing.unref();
      await once(refusing, 'listening');
      await proxy.stop();
      const ports: [number, number] = [(refusing.address() as AddressInfo).port, port];
      proxy = await Proxy.start(name, ports, false, {}, soon);
      const answers = Array.from({ length: 5 }, () => fetch(proxy.origin, init));
      const statuses = (await Promise.all(answers)).map(({ status }) => status);
      expect(statuses).toEqual(Array(5).fill(200));
      expect(refused).toBeGreaterThan(0);
      expect(requests).toHaveLength(5);
    });

    it('an address has 1,000 connections, then no more, which pages may read, and other addresses have theirs', async () => {
      await proxy.stop();
      proxy = await Proxy.start(name, [port, port], true);
      // Whose body is missing: nginx counts connections with a request.
      const head = request('POST /', ['Content-Length: 9']);
      const open = async (address: string, bytes = head) => {
        const connection = await RawConnection.open(proxy.port, address);
        connection.send(bytes);
        return connection;
      };
      const connections = await Promise.all(Array.from({ length: 1_000 }, () => open('127.0.0.5')));
      const ends = connections.map((connection) => connection.rest().catch(() => 'lost'));
      const one = (address: string) =>
        open(address, request('GET /', ['Connection: close']))
          .then((connection) => connection.rest())
          .catch(() => 'lost');
      const rejection = {
        haproxy: /^(lost)?$/,
        nginx:
          /^HTTP\/1\.1 429 [^]+\r\nX-Request-Id: \w+\r\nRetry-After: 1\r\n(Access-Control-[AE]\S+: \*\r\n){2}[^]+"rate_limited"/,
      }[name];
      try {
        await until('one more is rejected', async () => rejection.test(await one('127.0.0.5')));
        expect(await one('127.0.0.6')).toMatch(/^HTTP\/1\.1 200 /);
        expect(connections.filter(({ isSilent }) => isSilent)).toHaveLength(1_000);
      } finally {
        connections.forEach((connection) => connection.vanish());
        await Promise.all(ends);
      }
    });

    it('pages read only what the service lets them, though they may read errors of the proxy', async () => {
      await proxy.stop();
      proxy = await Proxy.start(name, [port, port], true);
      const headers = { Origin: 'https://app.example', 'Access-Control-Request-Method': 'POST' };
      for (const method of ['GET', 'OPTIONS']) {
        const answer = await fetch(proxy.origin, { method, headers });
        const names = [...answer.headers.keys()].filter((one) => one.startsWith('access-control'));
        expect([answer.status, names]).toEqual([200, []]);
      }
      expect(requests).toEqual(['GET', 'OPTIONS']);
    });

    it('no query is logged', async () => {
      await fetch(`${proxy.origin}/v1/pets?needle=1`);
      if (name === 'haproxy') {
        await proxy.program.says(/^.+ GET \/v1\/pets HTTP\/1.1$/m);
      }
      expect(proxy.program.stdout).not.toContain('needle');
    });
  });
});

describeWith('haproxy')('haproxy as deploy/ configures it', () => {
  it('gives an id of its own to a request with two', async () => {
    const proxy = await Proxy.start('haproxy', [1, 1]);
    const two = request('GET /', ['X-Request-Id: one-1', 'X-Request-Id: two-2']);
    expect((await exchange(proxy.port, two)).headers['x-request-id']).toMatch(/^[0-9a-f-]{36}$/);
    await proxy.stop();
  });

  itWith('openssl')('speaks TLS and HTTP/2 with CERTIFICATE, and looks PROCESSES up', async () => {
    const folder = await temporaryFolder();
    const make =
      'req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=test -keyout both.pem -out both.crt';
    execFileSync('openssl', make.split(' '), { cwd: folder, stdio: 'pipe' });
    const CERTIFICATE = join(folder, 'both.pem');
    await appendFile(CERTIFICATE, await readFile(join(folder, 'both.crt')));
    const variables = { CERTIFICATE, PROCESSES: 'localhost:1' };
    const proxy = await Proxy.start('haproxy', [1, 1], false, variables);
    const ALPNProtocols = ['h2', 'http/1.1'];
    const socket = connect({ port: proxy.port, ALPNProtocols, rejectUnauthorized: false });
    await once(socket, 'secureConnect');
    expect(socket.alpnProtocol).toBe('h2');
    socket.destroy();
    await proxy.stop();
  });
});
