import { execFileSync } from 'node:child_process';
import { chmod, chown, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { postgresAccount } from '../../src/embedded-postgres/embedded-postgres.js';
import { expectError } from '../support/answers.js';
import { query } from '../support/ask.js';
import { createGrantedRole, dropGrantedRole, roleOf } from '../support/granted-role.js';
import { Postgres } from '../support/postgres.js';
import {
  createMigratedDatabase,
  dropDatabase,
  onServer,
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

/** Takes sessions from the pool, as many as it gives up to `count`. `free` puts one back, `release` all. */
async function hold({ pool }: TestService, count: number) {
  const attempts = Array.from({ length: count }, () => pool.connect());
  const held = (await Promise.allSettled(attempts)).flatMap((one) =>
    one.status === 'fulfilled' ? one.value : [],
  );
  return {
    count: held.length,
    release: () => held.splice(0).forEach((one) => one.release()),
    free: () => held.pop()!.release(),
  };
}

describe('while PostgreSQL accepts no further session', () => {
  let owner: string;
  let service: TestService;
  beforeAll(async () => {
    owner = await createMigratedDatabase();
    service = await startService({}, await createGrantedRole(owner), { owner });
    await service.api.post('/v1/pets').send({ name: 'Rex', categoryId: 1 }).expect(201);
  });
  afterAll(async () => {
    await service.stop();
    await dropGrantedRole(owner);
    await dropDatabase(owner);
  });

  it.each([
    ['the role', (to: number) => `alter role ${roleOf(owner)} connection limit ${to}`],
    [
      'the database',
      (to: number) => `alter database ${new URL(owner).pathname.slice(1)} connection limit ${to}`,
    ],
  ])('because of a limit of %s, all requests are served by those it has', async (_whose, limit) => {
    await onServer(limit(6));
    const { release, free } = await hold(service, 6);
    free();
    try {
      for (let round = 0; round < 10; round += 1) {
        const answers = await Promise.all(requestsTo(service));
        expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 200, 201, 201, 200]);
      }
    } finally {
      release();
      await onServer(limit(-1));
    }
    await until('it opens more again', async () => {
      const { count, release } = await hold(service, 10);
      release();
      return count === 10;
    });
  });
});

describe('while TLS with PostgreSQL fails', () => {
  let server: Postgres;
  let folder: string;
  let service: TestService;
  const FILES = ['server.crt', 'server.key', 'root.crt', 'client.crt', 'client.key'];
  const file = (name: string) => join(folder, name);
  /** Replaces the content of a file, whose owner and mode stay. */
  const copy = async (from: string, to: string) => writeFile(file(to), await readFile(file(from)));
  /** Makes a self-signed certificate and its key. */
  function certify(name: string, host = 'localhost', days = 2): void {
    const [key, request] = [file(`${name}.key`), file(`${name}.csr`)];
    for (const command of [
      `req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout ${key} -out ${request} -subj /CN=${host} -addext subjectAltName=DNS:${host}`,
      `x509 -req -in ${request} -signkey ${key} -copy_extensions copy -out ${file(`${name}.crt`)} -days ${days}`,
    ]) {
      execFileSync('openssl', command.split(' '), { stdio: 'pipe' });
    }
  }
  const configure = (settings: Record<string, string>) =>
    query(
      server.url,
      ...Object.entries(settings).map(([name, value]) => `alter system set ${name} = '${value}'`),
      'select pg_reload_conf()',
    );
  const restore = async () => {
    await Promise.all(FILES.map((name) => copy(`${name}.kept`, name)));
    await configure({ ssl: 'on', ssl_ca_file: '' });
  };
  /** The server presents another certificate, which the service trusts. */
  const present = async (host: string, days?: number) => {
    certify('other', host, days);
    await copy('other.crt', 'server.crt');
    await copy('other.key', 'server.key');
    await copy('other.crt', 'root.crt');
  };
  beforeAll(async () => {
    folder = await temporaryFolder();
    ['server', 'client', 'other'].forEach((name) => certify(name));
    await copy('server.crt', 'root.crt');
    await Promise.all(FILES.map((name) => copy(name, `${name}.kept`)));
    const { uid = process.getuid!(), gid = process.getgid!() } = await postgresAccount(folder);
    await chmod(file('server.key'), 0o600);
    await chown(file('server.key'), uid, gid);
    server = await Postgres.start();
    const [ssl_cert_file, ssl_key_file] = [file('server.crt'), file('server.key')];
    await configure({ ssl_cert_file, ssl_key_file, ssl: 'on' });
    const parameters = `sslmode=verify-full&sslrootcert=${file('root.crt')}&sslcert=${file('client.crt')}&sslkey=${file('client.key')}`;
    service = await startService(
      {},
      `${server.url.replace('127.0.0.1', 'localhost')}?${parameters}`,
    );
    await service.api.post('/v1/pets').send({ name: 'Rex', categoryId: 1 }).expect(201);
  }, 60_000);
  afterAll(async () => {
    await service?.stop();
    await server?.stop();
  });

  it.each<[string, () => unknown]>([
    ['another CA has issued the certificate', () => copy('other.crt', 'root.crt')],
    ['the certificate has expired', () => present('localhost', -1)],
    ['the certificate has another name', () => present('example.com')],
    ['the file of the CA is gone', () => rm(file('root.crt'))],
    ['the file of the CA has no certificate', () => writeFile(file('root.crt'), 'no certificate')],
    ['the file of the client certificate is gone', () => rm(file('client.crt'))],
    ['the key is not that of the client certificate', () => copy('other.key', 'client.key')],
    ['the server rejects the client certificate', () => configure({ ssl_ca_file: file('other.crt') })], // prettier-ignore
    ['the server has no TLS', () => configure({ ssl: 'off' })],
  ])('because %s, all is 503, no socket stays open, and it recovers', async (_why, change) => {
    const sockets = () =>
      process.getActiveResourcesInfo().filter((name) => name === 'TCPSocketWrap').length;
    await change();
    await configure({});
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
    await restore();
    await until('it serves', async () => (await service.api.get('/v1/pets')).status === 200);
  });
});

describe('while only the postmaster hangs', () => {
  it('all requests are served by the sessions that exist', async () => {
    const server = await Postgres.start();
    const service = await startService({}, server.url);
    await service.api.post('/v1/pets').send({ name: 'Rex', categoryId: 1 }).expect(201);
    const { release, free } = await hold(service, 4);
    free();
    const [{ pid }] = await service.query(
      `select split_part(pg_read_file('postmaster.pid'), E'\n', 1)::int as pid`,
    );
    process.kill(pid, 'SIGSTOP');
    try {
      for (let round = 0; round < 3; round += 1) {
        const answers = await Promise.all(requestsTo(service));
        expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 200, 201, 201, 200]);
      }
    } finally {
      process.kill(pid, 'SIGCONT');
      release();
      await service.stop();
      await server.stop();
    }
  });
});
