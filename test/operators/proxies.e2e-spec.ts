import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer, request as httpRequest, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as wait } from 'node:timers/promises';
import { Environment } from '../../src/config/environment.js';
import { administerKeys } from '../../src/auth/api-keys.js';
import { HttpLimits } from '../../src/http/limits.js';
import supertest from 'supertest';
import { expectError } from '../support/answers.js';
import { query } from '../support/ask.js';
import { describeWith } from '../support/describe-with.js';
import { read } from '../support/documents.js';
import { freePort } from '../../scripts/free-port.mjs';
import { areInstalled } from '../support/program.js';
import { exchange, RawConnection, request } from '../support/raw-http.js';
import { Project, type Service } from '../support/project.js';
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
    "%s waits for clients as long as the service, or longer, so that its errors are the service's",
    (_name, headers, silence, idle, times) => {
      expect(times[headers]).toBeGreaterThanOrEqual(limits.headersTimeout);
      expect(times[silence]).toBeGreaterThan(limits.socketTimeout);
      expect(times[idle]).toBeGreaterThanOrEqual(limits.keepAliveTimeout);
    },
  );

  it('both wait for a body as long as the service, and then for its response, also without its database', () => {
    const [, body] = /wait-for-body time (\d+)s$/m.exec(read('deploy/haproxy.cfg'))!;
    expect(Number(body) * 1_000).toBeGreaterThanOrEqual(limits.requestTimeout);
    expect(haproxy['server']).toBeGreaterThanOrEqual(limits.requestTimeout + RESPONSE);
    expect(server['client_body_timeout']).toBeGreaterThanOrEqual(limits.requestTimeout);
    expect(server['proxy_read_timeout']).toBeGreaterThan(RESPONSE);
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
    expect(tries).toEqual(tries.map(() => expect.stringMatching(` fail_timeout=${seconds}s;$`)));
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
      expectError(await exchange(proxies[name].port, bytes.replace('KEY', key)), status, code);
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

    it('lets pages read its own errors, and send the request that a preflight asks for', async () => {
      // Nobody listens on port 1.
      proxy = await Proxy.start(name, [1, 1], true);
      const own = { 'access-control-allow-origin': '*' };
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

    it('with the id of the client, which its log has, and without the query', async () => {
      expect(await ask('nightly/import:17')).toBe('nightly/import:17');
      const log = await until('it is logged', async () => {
        const text = await proxy.log();
        return text.includes('nightly/import:17') ? text : undefined;
      });
      expect(log).not.toContain('secret');
    });

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
    const proxy = await Proxy.start('nginx', [1, 1]);
    const connection = await RawConnection.open(proxy.port);
    connection.send(bytes);
    // HTTP/0.9 has no head.
    const text = await connection.rest();
    expect(text).toMatch(/"code":"(invalid_request|headers_too_large)"[^]+"status":4(00|31)\}$/);
    expect(text).toMatch(/^(HTTP\/1\.1 4|\{)/);
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
    const requests: string[] = [];
    const stop = () => server.close().closeAllConnections();
    beforeEach(async () => {
      isSilent = false;
      requests.length = 0;
      server = createServer(({ url, method, socket }, response) => {
        if (url !== '/health/ready') {
          requests.push(method!);
          if (isSilent) {
            socket.destroy();
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
    async function expectUnavailable(method: 'get' | 'post' = 'get', headers = {}): Promise<void> {
      const answer = await supertest(proxy.origin)[method]('/').set(headers);
      expectError(answer, 503, 'unavailable');
      expect(answer.headers['retry-after']).toBe('1');
    }

    it.each([
      ['is sent again', 'get', {}, false],
      ['is sent again', 'post', { 'Idempotency-Key': 'once' }, false],
      ['is sent again', 'post', { 'Idempotency-Key': '0' }, false],
      ['is sent once', 'post', {}, true],
    ] as const)('a request %s: %s with %j', async (_what, method, headers, isSentOnce) => {
      isSilent = true;
      await expectUnavailable(method, headers);
      expect(new Set(requests)).toEqual(new Set([method.toUpperCase()]));
      expect(requests.length === 1).toBe(isSentOnce);
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

    it('a request that may be sent again goes to the other process if one has responses for none', async () => {
      let refused = 0;
      const refusing = createServer(({ url, socket }, response) => {
        if (url === '/health/ready') {
          response.end();
        } else {
          refused += 1;
          socket.destroy();
        }
      }).listen(0, '127.0.0.1');
      // Jest ends, whatever fails below.
      refusing.unref();
      await once(refusing, 'listening');
      await proxy.stop();
      proxy = await Proxy.start(name, [(refusing.address() as AddressInfo).port, port]);
      for (let n = 0; n < 5; n += 1) {
        const headers = { 'Idempotency-Key': `${n}` };
        const answers = [fetch(proxy.origin), fetch(proxy.origin, { method: 'POST', headers })];
        const statuses = (await Promise.all(answers)).map(({ status }) => status);
        expect(statuses).toEqual([200, 200]);
      }
      expect(refused).toBeGreaterThan(0);
      expect(requests).toHaveLength(10);
    });

    it('an address has 1,000 connections, then no more, and other addresses have theirs', async () => {
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
      const rejection = { haproxy: /^(lost)?$/, nginx: /^HTTP\/1\.1 429 [^]+"rate_limited"/ }[name];
      try {
        await until('one more is rejected', async () => rejection.test(await one('127.0.0.5')));
        expect(await one('127.0.0.6')).toMatch(/^HTTP\/1\.1 200 /);
        expect(connections.filter(({ isSilent }) => isSilent)).toHaveLength(1_000);
      } finally {
        connections.forEach((connection) => connection.vanish());
        await Promise.all(ends);
      }
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
