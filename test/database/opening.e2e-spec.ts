import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { copyFileSync } from 'node:fs';
import { chmod, chown, readFile, rm, writeFile } from 'node:fs/promises';
import { type AddressInfo, connect, createServer } from 'node:net';
import { join } from 'node:path';
import { postgresAccount } from '../../src/embedded-postgres/embedded-postgres.js';
import { runMigrations } from '../../src/schema/migrations.js';
import { expectError } from '../support/answers.js';
import { ask, query } from '../support/ask.js';
import { runHere } from '../support/command.js';
import { createGrantedRole, roleOf } from '../support/granted-role.js';
import { Postgres } from '../support/postgres.js';
import {
  createMigratedDatabase,
  dropDatabase,
  startService,
  type TestService,
} from '../support/service.js';
import { until } from '../support/until.js';
import { temporaryFolder } from '../support/temporary-folder.js';

/** More requests than there are sessions, each for a session of its own. */
const requestsTo = ({ api, anonymous }: TestService) => [
  api.get('/v1/pets'),
  api.get('/v1/pets?status=sold'),
  api.get('/v1/pets/1'),
  api.get('/v1/store/orders'),
  api.post('/v1/pets').send({ name: 'Rex', categoryId: 1 }),
  api.post('/v1/pets').set('Idempotency-Key', 'one').send({ name: 'Rex', categoryId: 1 }),
  anonymous.get('/health/ready'),
];

const expectServed = async (service: TestService) => {
  const answers = await Promise.all(requestsTo(service));
  expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 200, 201, 201, 200]);
};

/** Takes sessions from the pool, as many as it gives up to `count`. `free` puts one back, `close` ends all. */
async function hold({ pool }: TestService, count: number) {
  const attempts = Array.from({ length: count }, () => pool.connect());
  const held = (await Promise.allSettled(attempts)).flatMap((one) =>
    one.status === 'fulfilled' ? one.value : [],
  );
  return {
    count: held.length,
    close: () => held.splice(0).forEach((one) => one.release(true)),
    free: () => held.pop()!.release(),
  };
}

describe('while PostgreSQL accepts no further session', () => {
  let server: Postgres;
  let service: TestService;
  let postmaster: number;
  beforeAll(async () => {
    server = await Postgres.start();
    await runMigrations(server.url);
    service = await startService({}, await createGrantedRole(server.url), { owner: server.url });
    await service.api.post('/v1/pets').send({ name: 'Rex', categoryId: 1 }).expect(201);
    const pid = `select split_part(pg_read_file('postmaster.pid'), E'\n', 1)::int as pid`;
    postmaster = (await ask(server.url, pid)).pid;
  });
  afterAll(async () => {
    await service.stop();
    await server.stop();
  });
  const limit = (to: number) =>
    query(server.url, `alter role ${roleOf(server.url)} connection limit ${to}`);

  it.each<[string, () => unknown, () => unknown]>([
    ['of its limit', () => limit(6), () => limit(-1)],
    [
      'only the postmaster hangs',
      () => process.kill(postmaster, 'SIGSTOP'),
      () => process.kill(postmaster, 'SIGCONT'),
    ],
  ])('because %s, all requests are served by those it has', async (_why, begin, end) => {
    const { close, free } = await hold(service, 6);
    free();
    await begin();
    try {
      for (let round = 0; round < 3; round += 1) {
        await expectServed(service);
      }
    } finally {
      close();
      await end();
    }
    await until('it opens more again', async () => {
      const { count, close } = await hold(service, 10);
      close();
      return count === 10;
    });
  });
});

describe('TLS with PostgreSQL', () => {
  let server: Postgres;
  let url: string;
  let folder: string;
  let service: TestService;
  const file = (name: string) => join(folder, name);
  /** Replaces the content of a file, whose owner and mode stay. */
  const copy = async (from: string, to: string) => writeFile(file(to), await readFile(file(from)));
  /** Makes a self-signed certificate and its key. */
  function certify(name: string): void {
    const make = `req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=localhost -addext subjectAltName=DNS:localhost`;
    const files = ['-keyout', file(`${name}.key`), '-out', file(`${name}.crt`)];
    execFileSync('openssl', [...make.split(' '), ...files], { stdio: 'pipe' });
  }
  const configure = (settings: Record<string, string>) =>
    query(
      server.url,
      ...Object.entries(settings).map(([name, value]) => `alter system set ${name} = '${value}'`),
      'select pg_reload_conf()',
    );
  beforeAll(async () => {
    folder = await temporaryFolder();
    ['server', 'client', 'other'].forEach((name) => certify(name));
    await copy('server.crt', 'root.crt');
    const { uid = process.getuid!(), gid = process.getgid!() } = await postgresAccount(folder);
    await chmod(file('server.key'), 0o600);
    await chown(file('server.key'), uid, gid);
    server = await Postgres.start();
    await configure(TLS());
    const parameters = `sslmode=verify-full&sslrootcert=${file('root.crt')}&sslcert=${file('client.crt')}&sslkey=${file('client.key')}`;
    url = server.url.replace('127.0.0.1', 'localhost');
    service = await startService({}, `${url}?${parameters}`);
    await service.api.post('/v1/pets').send({ name: 'Rex', categoryId: 1 }).expect(201);
    ['root.crt', 'client.key'].forEach((name) => copyFileSync(file(name), file(`${name}.kept`)));
  }, 60_000);
  afterAll(async () => {
    await service?.stop();
    await server?.stop();
  });
  const TLS = () => ({
    ssl_cert_file: file('server.crt'),
    ssl_key_file: file('server.key'),
    ssl_ca_file: '',
    ssl: 'on',
  });

  it.each([
    ['?sslmode=require&sslrootcert=FILE', /^ok +TLS: on, .+ is verified$/m],
    ['?sslrootcert=system', /^FAIL +database: .*self-signed certificate/m],
    ['?sslmode=no-verify', /^ok +TLS: on, .+ is not verified$/m],
    ['', /^ok +TLS: off/m],
  ])('check says of %j what it means', async (parameters, report) => {
    const DATABASE_URL = url + parameters.replace('FILE', file('root.crt'));
    expect((await runHere('check', { DATABASE_URL })).stdout).toMatch(report);
  });

  it.each<[string, () => unknown]>([
    ['another CA has issued the certificate', () => copy('other.crt', 'root.crt')],
    ['the file of the CA is gone', () => rm(file('root.crt'))],
    ['the key is not that of the client certificate', () => copy('other.key', 'client.key')],
    [
      'the server rejects the client certificate',
      () => configure({ ssl_ca_file: file('other.crt') }),
    ],
    ['the server has no TLS', () => configure({ ssl: 'off' })],
  ])(
    'fails because %s: all is 503, no socket stays open, and it recovers',
    async (_why, change) => {
      const sockets = () =>
        process.getActiveResourcesInfo().filter((name) => name === 'TCPSocketWrap').length;
      await change();
      await query(
        server.url,
        `select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'animal-store'`,
      );
      await until('its sessions have ended', () => service.pool.totalCount === 0);
      service.log.length = 0;
      await service.anonymous.get('/health/live').expect(200);
      const before = sockets();
      for (let round = 0; round < 5; round += 1) {
        for (const answer of await Promise.all(requestsTo(service))) {
          expectError(answer, 503, 'unavailable', ['database', 'try again']);
          expect(answer.headers['retry-after']).toBe('1');
        }
      }
      expect(sockets()).toBeLessThan(before + 10);
      expect(service.log.join('')).not.toContain('"level":"error"');
      await copy('root.crt.kept', 'root.crt');
      await copy('client.key.kept', 'client.key');
      await configure(TLS());
      await until('it serves', async () => (await service.api.get('/v1/pets')).status === 200);
    },
  );
});

describe('on a busy machine', () => {
  it('a start waits longer for its sessions than a request does', async () => {
    const url = await createMigratedDatabase();
    const { hostname, port } = new URL(url);
    let unanswered = 0;
    const slow = createServer((client) => {
      const server = connect(Number(port), hostname).on('error', () => client.destroy());
      server.pipe(client).on('error', () => server.destroy());
      client.on('data', (data) => {
        // The first session that would serve requests gets no response.
        if (data.includes('isReadOnly') && unanswered === 0) {
          unanswered += 1;
        } else {
          server.write(data);
        }
      });
    }).listen(0, '127.0.0.1');
    await once(slow, 'listening');
    const host = `127.0.0.1:${(slow.address() as AddressInfo).port}`;
    const service = await startService({}, Object.assign(new URL(url), { host }).href);
    await service.api.get('/v1/pets').expect(200);
    await service.stop();
    slow.close();
    await dropDatabase(url);
    expect(unanswered).toBe(1);
  });
});
