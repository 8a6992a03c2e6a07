import { execFileSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { appendFile, mkdtemp, readFile, rm } from 'node:fs/promises';
import { createServer, request as httpRequest, type Server } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { administerKeys } from '../../src/auth/api-keys.js';
import { BATCH_LIMITS } from '../../src/database/batcher.js';
import { administer } from '../../src/database/database.js';
import { DATABASE_TIMEOUTS } from '../../src/database/pool.js';
import { HttpLimits } from '../../src/http/limits.js';
import { expectError } from '../support/answers.js';
import { freePort } from '../../scripts/free-port.mjs';
import { exchange, request } from '../support/raw-http.js';
import { Project, type Service } from '../support/project.js';
import { until } from '../support/until.js';
import { createMigratedDatabase, dropDatabase } from '../support/service.js';
import {
  checkHaproxy,
  configurationOf,
  hasProxy,
  PROXIES,
  Proxy,
  type ProxyName,
} from '../support/proxy.js';

/** Two HTTP servers in place of the service's processes, which count what comes. */
class Stubs {
  readonly requests: string[] = [];
  /** The connections on which requests came. */
  readonly connections = new Set<Socket>();
  /** Whether they close a connection in place of a response. */
  isSilent = false;
  private readonly servers: Server[] = [1, 2].map(() => this.listen());

  static async start(): Promise<Stubs> {
    const stubs = new Stubs();
    await Promise.all(stubs.servers.map((server) => once(server, 'listening')));
    return stubs;
  }

  get ports(): [number, number] {
    return this.servers.map((server) => (server.address() as AddressInfo).port) as [number, number];
  }

  async stop(servers = this.servers): Promise<void> {
    for (const server of servers.filter(({ listening }) => listening)) {
      server.close().closeAllConnections();
      await once(server, 'close');
    }
  }

  async stopOne(): Promise<void> {
    await this.stop(this.servers.slice(0, 1));
  }

  private listen(): Server {
    return createServer((incoming, response) => {
      if (incoming.url === '/health/ready') {
        response.end();
        return;
      }
      this.requests.push(`${incoming.method}`);
      this.connections.add(incoming.socket);
      if (this.isSilent) {
        incoming.socket.destroy();
      } else {
        response.end();
      }
    }).listen(0, '127.0.0.1');
  }
}

const HTTP_LIMITS = new HttpLimits();

/** Milliseconds: the longest wait in a batcher, for a connection and for a statement. */
const RESPONSE_TIME =
  BATCH_LIMITS.waitingTime + DATABASE_TIMEOUTS.connection + DATABASE_TIMEOUTS.use;

describe('the limits of the proxies let the service respond first', () => {
  /** @returns what gives the value of a setting, in milliseconds or bytes. */
  const settingsOf = (configuration: string) => (setting: string) => {
    const units = { ms: 1, s: 1_000, k: 1_024, m: 1_024 ** 2, '': 1 };
    const [, number, unit] =
      new RegExp(`^ *${setting} (\\d+)(ms|s|k|m|);?$`, 'm').exec(configuration) ?? [];
    return Number(number) * units[unit as keyof typeof units];
  };

  it('haproxy', async () => {
    const value = settingsOf(await configurationOf('haproxy'));
    expect(value('timeout http-request')).toBe(HTTP_LIMITS.headersTimeout);
    expect(value('timeout http-keep-alive')).toBe(HTTP_LIMITS.keepAliveTimeout);
    expect(value('timeout client')).toBeGreaterThanOrEqual(HTTP_LIMITS.socketTimeout);
    expect(value('timeout client')).toBeGreaterThan(HTTP_LIMITS.requestTimeout);
    const toResponse = HTTP_LIMITS.requestTimeout + RESPONSE_TIME;
    expect(value('timeout server')).toBeGreaterThan(toResponse);
    expect(value('timeout check')).toBeGreaterThan(RESPONSE_TIME);
    expect(value('tune.bufsize')).toBeGreaterThan(HTTP_LIMITS.headerBytes);
    expect(value('maxconn')).toBeLessThan(HTTP_LIMITS.connections);
  });

  it('nginx', async () => {
    const [upstream, server] = (await configurationOf('nginx')).split('\nserver {');
    const kept = settingsOf(upstream!)('keepalive_timeout');
    expect(kept).toBeLessThan(HTTP_LIMITS.keepAliveTimeout);
    const value = settingsOf(server!);
    expect(value('client_header_timeout')).toBe(HTTP_LIMITS.headersTimeout);
    expect(value('client_body_timeout')).toBe(HTTP_LIMITS.requestTimeout);
    expect(value('keepalive_timeout')).toBe(HTTP_LIMITS.keepAliveTimeout);
    expect(value('send_timeout')).toBeGreaterThanOrEqual(HTTP_LIMITS.socketTimeout);
    expect(value('proxy_read_timeout')).toBeGreaterThan(RESPONSE_TIME);
    expect(value('large_client_header_buffers 4')).toBeGreaterThan(HTTP_LIMITS.headerBytes);
    expect(value('client_max_body_size')).toBeGreaterThan(HTTP_LIMITS.bodyBytes);
  });
});

describe.each(PROXIES)('behind %s', (name: ProxyName) => {
  // A developer's machine may have neither; in CI, where these tests must run, hasProxy() fails without them.
  const isInstalled = hasProxy(name);
  if (!isInstalled) {
    console.warn(`${name} is not tested: it is not installed.`);
  }
  const withProxy = isInstalled ? it : it.skip;

  describe('two processes of the service', () => {
    let project: Project;
    let DATABASE_URL: string;
    let key: string;
    let ports: [number, number];
    let services: [Service, Service];
    let proxy: Proxy;
    beforeAll(async () => {
      project = await Project.create();
      DATABASE_URL = await createMigratedDatabase();
      ({ key } = await administerKeys(DATABASE_URL, (keys) => keys.issue('test')));
      ports = [await freePort(), await freePort()];
      services = [await serve(ports[0]), await serve(ports[1])];
    });
    afterAll(async () => {
      await project.remove();
      await dropDatabase(DATABASE_URL);
    });
    beforeEach(async () => {
      proxy = await Proxy.start(name, ports);
    });
    afterEach(() => proxy.stop());

    const serve = (port: number) =>
      project.serve({
        NODE_ENV: 'production',
        DATABASE_URL,
        TRUST_PROXY: '1',
        PORT: String(port),
        // Longer than the test takes: it ends the drain when the proxy has noticed it.
        DRAIN_SECONDS: '60',
      });

    async function send(method: string, headers: Record<string, string> = {}, body?: string) {
      const response = await fetch(`${proxy.origin}/v1/pets?limit=100`, {
        method,
        headers: { Authorization: `Bearer ${key}`, 'Content-Type': 'application/json', ...headers },
        ...(body !== undefined && { body }),
      });
      await response.arrayBuffer();
      return response.status;
    }

    /**
     * Creates an animal as the guides say, and sends the request again after 409: the database may still work on the
     * first one, which the proxy sent to a process that was killed then.
     */
    async function create(headers: Record<string, string>, body: string): Promise<number> {
      const status = await send('POST', headers, body);
      return status === 409 ? create(headers, body) : status;
    }

    /** Stops a process; behind haproxy, once haproxy knows that it is no longer ready. */
    async function stop(index: 0 | 1): Promise<void> {
      const { program } = services[index];
      if (name === 'haproxy') {
        program.send('SIGTERM');
        await until('haproxy knows', async () => !(await proxy.areUp())[index]);
      }
      expect((await program.end('SIGINT')).code).toBe(0);
    }

    async function restart(index: 0 | 1): Promise<void> {
      services[index] = await serve(ports[index]);
      if (name === 'haproxy') {
        await until('haproxy knows', async () => (await proxy.areUp())[index]!);
      }
      await services[index].program.says(/"route":"\/v1\/pets"/);
    }

    /**
     * Has clients list and create without pause while `change` happens, and expects that each response is 2xx and that each
     * animal was created once.
     *
     * @param change is given a function that waits until more requests have their responses.
     */
    async function underLoad(
      headersOf: (pet: string) => Record<string, string>,
      change: (more: () => Promise<void>) => Promise<void>,
    ): Promise<void> {
      const statuses: number[] = [];
      const names: string[] = [];
      let isOver = false;
      const clients = Array.from({ length: 8 }, async () => {
        while (!isOver) {
          const pet = randomUUID();
          names.push(pet);
          const body = JSON.stringify({ name: pet, categoryId: 1 });
          statuses.push(await create(headersOf(pet), body), await send('GET'));
        }
      });
      const more = async () => {
        const enough = statuses.length + 100;
        await until('more requests have responses', () => statuses.length >= enough);
      };
      await more();
      await change(more).finally(() => (isOver = true));
      await Promise.all(clients);
      expect(statuses.filter((status) => status < 200 || status > 299)).toEqual([]);
      const rows = await administer(DATABASE_URL, (dataSource) =>
        dataSource.query<{ name: string }[]>('select name from pets where name = any($1)', [names]),
      );
      expect(rows.map((row) => row.name).toSorted()).toEqual(names.toSorted());
    }

    const withKey = (pet: string) => ({ 'Idempotency-Key': pet });
    // nginx learns that a process stops when it does not respond: a request on its way then must be sent again.
    const restarting = { haproxy: () => ({}), nginx: withKey }[name];

    withProxy('respond with 2xx to all requests while one after the other is restarted', () =>
      underLoad(restarting, async (more) => {
        for (const index of [0, 1] as const) {
          await stop(index);
          await more();
          await restart(index);
        }
        await more();
      }),
    );

    withProxy('respond with 2xx to all requests that may be repeated while one is killed', () =>
      underLoad(withKey, async (more) => {
        await services[0].program.end('SIGKILL');
        await more();
        await restart(0);
        await more();
      }),
    );

    withProxy('have the address of the client in their log, whatever it says itself', async () => {
      const sent = httpRequest(`${proxy.origin}/docs`, {
        localAddress: '127.0.0.9',
        headers: { 'X-Forwarded-For': '203.0.113.7' },
      }).end();
      const [response] = await once(sent, 'response');
      response.resume();
      expect(response.statusCode).toBe(200);
      await Promise.any(services.map(({ program }) => program.says(/"client":"127\.0\.0\.9"/)));
    });

    withProxy.each([
      ['a request without Host', 'GET / HTTP/1.1\r\n\r\n', 400, 'invalid_request'],
      [
        'a body over 16 KiB',
        request(
          'POST /v1/pets',
          ['Authorization: Bearer KEY', 'Content-Type: application/json'],
          ' '.repeat(20_000),
        ),
        413,
        'payload_too_large',
      ],
      [
        'headers over 16 KiB',
        request('GET /', [`X-Long: ${'x'.repeat(17_000)}`]),
        431,
        'headers_too_large',
      ],
    ] as const)("reject %s with the service's error", async (_what, bytes, status, code) => {
      expectError(await exchange(proxy.port, bytes.replace('KEY', key)), status, code);
    });
  });

  describe('servers that close connections without a response', () => {
    let stubs: Stubs;
    let proxy: Proxy;
    beforeEach(async () => {
      stubs = await Stubs.start();
      proxy = await Proxy.start(name, stubs.ports);
    });
    afterEach(async () => {
      await proxy.stop();
      await stubs.stop();
    });

    withProxy.each([
      ['is sent again', 'GET', {}, false],
      ['is sent again', 'POST', { 'Idempotency-Key': 'once' }, false],
      ['is sent once', 'POST', {}, true],
    ] as const)('a request %s: %s with %j', async (_what, method, headers, isSentOnce) => {
      stubs.isSilent = true;
      const response = await fetch(proxy.origin, { method, headers });
      expectError(
        {
          status: response.status,
          headers: Object.fromEntries(response.headers),
          text: await response.text(),
        },
        503,
        'unavailable',
      );
      expect(response.headers.get('retry-after')).toBe('1');
      expect(stubs.requests.every((sent) => sent === method)).toBe(true);
      expect(stubs.requests.length > 1).toBe(!isSentOnce);
    });

    withProxy('a POST is sent to the other one if the first accepts no connection', async () => {
      await stubs.stopOne();
      for (let n = 0; n < 10; n += 1) {
        const response = await fetch(proxy.origin, { method: 'POST' });
        expect([response.status, await response.text()]).toEqual([200, '']);
      }
      expect(stubs.requests).toHaveLength(10);
    });

    withProxy('connections to them are used again', async () => {
      for (let n = 0; n < 100; n += 1) {
        expect((await fetch(proxy.origin)).status).toBe(200);
      }
      expect(stubs.requests).toHaveLength(100);
      expect(stubs.connections.size).toBeLessThan(10);
    });
  });
});

(hasProxy('haproxy') ? describe : describe.skip)('deploy/haproxy.cfg', () => {
  it('may be given a certificate, or one name for all processes', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'animal-store-certificate-'));
    const pem = join(folder, 'animals.pem');
    const make = 'req -x509 -newkey rsa:2048 -nodes -subj /CN=localhost -keyout';
    execFileSync('openssl', [...make.split(' '), pem, '-out', `${pem}.crt`], { stdio: 'ignore' });
    await appendFile(pem, await readFile(`${pem}.crt`));
    checkHaproxy({ CERTIFICATE: pem, PROCESSES: 'localhost:3000' });
    await rm(folder, { recursive: true });
  });
});
