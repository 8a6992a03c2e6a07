import { administerKeys } from '../../src/auth/api-keys.js';
import { expectError } from '../support/answers.js';
import { Wire } from '../support/wire.js';
import { RawConnection, request } from '../support/raw-http.js';
import { Project, type Service } from '../support/project.js';
import { until } from '../support/until.js';

const project = Project.ofTests();
let DATABASE_URL: string;
let key: string;
beforeAll(async () => {
  DATABASE_URL = await project.createMigratedDatabase();
  ({ key } = await administerKeys(DATABASE_URL, (keys) => keys.issue('test')));
});

describe('SIGTERM', () => {
  let service: Service;
  let port: number;
  let list: string;
  beforeEach(async () => {
    service = await project.serve({ DATABASE_URL, DRAIN_SECONDS: '3' });
    port = Number(new URL(service.base).port);
    list = request('GET /v1/pets', [`Authorization: Bearer ${key}`]);
  });

  it('fails readiness at once and serves on, then ends each connection with its last answer', async () => {
    const [kept, busy, idle] = await Promise.all([1, 2, 3].map(() => RawConnection.open(port)));
    const ended = service.program.end('SIGTERM');
    const since = performance.now();
    const health = new URL('/health/ready', service.base);
    await until('readiness fails', async () => (await fetch(health)).status === 503);
    busy!.send(list);
    const { status, headers } = await busy!.answer();
    expect([status, headers['connection']]).toEqual([200, 'keep-alive']);
    expect((await fetch(new URL('/health/live', service.base))).status).toBe(200);

    await until('new connections are refused', async () =>
      fetch(health).then(
        () => false,
        () => true,
      ),
    );
    expect(performance.now() - since).toBeGreaterThan(2_900);
    kept!.send(request('GET /health/ready'));
    const last = await kept!.answer();
    expectError(last, 503, 'unavailable', ['stopping']);
    expect(last.headers['connection']).toBe('close');
    expect(await kept!.rest()).toBe('');
    expect(await idle!.rest()).toBe('');
    expect(await ended).toMatchObject({ code: 0, stderr: '' });
  });

  it('that comes twice, as from npm and from whoever told npm, counts once', async () => {
    const ended = service.program.end('SIGTERM');
    service.program.send('SIGTERM');
    const health = new URL('/health/ready', service.base);
    await until('readiness fails', async () => (await fetch(health)).status === 503);
    service.program.send('SIGTERM');
    expect((await fetch(health)).status).toBe(503);
    expect((await ended).code).toBe(0);
  });
});

describe('a long SIGTERM', () => {
  it.each(['SIGTERM', 'SIGINT'] as const)('is cut short by a later %s', async (signal) => {
    const { base, program } = await project.serve({ DATABASE_URL, DRAIN_SECONDS: '60' });
    const idle = await RawConnection.open(Number(new URL(base).port));
    program.send('SIGTERM');
    const since = performance.now();
    await until(
      'readiness fails, and it is no longer the same signal',
      async () =>
        (await fetch(new URL('/health/ready', base))).status === 503 &&
        performance.now() - since > 1_100,
    );
    expect((await program.end(signal)).code).toBe(0);
    expect(await idle.rest()).toBe('');
    expect(performance.now() - since).toBeLessThan(30_000);
  });
});

describe('npm run start:prod', () => {
  it('hands a SIGTERM to the service, and ends with it', async () => {
    const program = project.npm('start:prod', { DATABASE_URL });
    await program.says(/^Animal Store Service at/m);
    expect((await program.end('SIGTERM')).code).toBe(0);
  });
});

describe('SIGINT', () => {
  it('ends the service although its database has come to a halt', async () => {
    const wire = await Wire.to(DATABASE_URL);
    const { base, program } = await project.serve({ DATABASE_URL: wire.url });
    expect((await fetch(new URL('/health/ready', base))).status).toBe(200);
    wire.stall();
    expect(await program.end('SIGINT')).toMatchObject({ code: 0, stderr: '' });
    wire.cut();
  });
});
