import { administerKeys } from '../../src/auth/api-keys.js';
import { expectError } from '../support/answers.js';
import { Wire } from '../support/wire.js';
import { RawConnection, request } from '../support/raw-http.js';
import { Project } from '../support/project.js';
import { until } from '../support/until.js';

const project = Project.ofTests();
let DATABASE_URL: string;
let key: string;
beforeAll(async () => {
  DATABASE_URL = await project.createMigratedDatabase();
  ({ key } = await administerKeys(DATABASE_URL, (keys) => keys.issue('test')));
});

const isReady = async (base: string) =>
  (await fetch(new URL('/health/ready', base))).status === 200;
const failsReadiness = (base: string) =>
  until('readiness fails', async () => !(await isReady(base)));

it('SIGTERM fails readiness at once; the service serves on, then ends each connection with its last response', async () => {
  const { base, program } = await project.serve({ DATABASE_URL, DRAIN_SECONDS: '3' });
  const port = Number(new URL(base).port);
  const [kept, busy, idle] = await Promise.all([1, 2, 3].map(() => RawConnection.open(port)));
  const ended = program.end('SIGTERM');
  const since = performance.now();
  await failsReadiness(base);
  busy!.send(request('GET /v1/pets', [`Authorization: Bearer ${key}`]));
  const { status, headers } = await busy!.answer();
  expect([status, headers['connection']]).toEqual([200, 'keep-alive']);
  expect((await fetch(new URL('/health/live', base))).status).toBe(200);

  const isRefused = () => isReady(base).then(() => false, () => true); // prettier-ignore
  await until('new connections are refused', isRefused);
  expect(performance.now() - since).toBeGreaterThan(2_900);
  kept!.send(request('GET /health/ready'));
  const last = await kept!.answer();
  expectError(last, 503, 'unavailable', ['stopping']);
  expect(last.headers['connection']).toBe('close');
  expect(await kept!.rest()).toBe('');
  expect(await idle!.rest()).toBe('');
  expect(await ended).toMatchObject({ code: 0, stderr: '' });
});

it('SIGTERM reaches the service through npm, and counts once if both get it', async () => {
  const program = project.npm('start:prod', { DATABASE_URL, DRAIN_SECONDS: '2' });
  const [, base] = await program.says(/^Animal Store Service at (\S+)/m);
  program.send('SIGTERM');
  await failsReadiness(base!);
  program.signalGroup('SIGTERM');
  expect(await isReady(base!)).toBe(false);
  expect((await program.outcome).code).toBe(0);
});

it('SIGINT ends the drain', async () => {
  const { base, program } = await project.serve({ DATABASE_URL, DRAIN_SECONDS: '60' });
  program.send('SIGTERM');
  await failsReadiness(base);
  const since = performance.now();
  expect(await program.end('SIGINT')).toMatchObject({ code: 0, stderr: '' });
  expect(performance.now() - since).toBeLessThan(20_000);
});

it('SIGHUP ends the service without a drain, with an exit code that makes a supervisor start it again', async () => {
  const { base, program } = await project.serve({ DATABASE_URL, DRAIN_SECONDS: '60' });
  expect(await isReady(base)).toBe(true);
  const { code, stdout, stderr } = await program.end('SIGHUP');
  expect([code, stderr]).toEqual([129, '']);
  expect(stdout).toMatch(/"reason":"SIGHUP","msg":"stopped"\}\n$/);
});

it('SIGINT ends the service although its database has come to a halt', async () => {
  const wire = await Wire.to(DATABASE_URL);
  const { base, program } = await project.serve({ DATABASE_URL: wire.url });
  expect(await isReady(base)).toBe(true);
  wire.stall();
  expect(await program.end('SIGINT')).toMatchObject({ code: 0, stderr: '' });
  wire.cut();
});
