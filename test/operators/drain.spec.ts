import { readdir } from 'node:fs/promises';
import { networkInterfaces } from 'node:os';
import { freePort } from '../../scripts/free-port.mjs';
import { administerKeys } from '../../src/auth/api-keys.js';
import { VERSION } from '../../src/config/project-root.js';
import { query } from '../support/ask.js';
import { Wire } from '../support/wire.js';
import { RawConnection, request } from '../support/raw-http.js';
import { Project } from '../support/project.js';
import { unreadPipe } from '../support/unread-pipe.js';
import { until } from '../support/until.js';

const project = Project.ofTests();
let DATABASE_URL: string;
let key: string;
let production: Record<string, string>;
beforeAll(async () => {
  DATABASE_URL = await project.createMigratedDatabase();
  production = { NODE_ENV: 'production', DATABASE_URL };
  ({ key } = await administerKeys(DATABASE_URL, (keys) => keys.issue('test')));
});

/** Without IPv6 in the kernel, only that of IPv4. */
const LOOPBACK = ['127.0.0.1', '::1'].filter((it) =>
  Object.values(networkInterfaces()).some((all) => all!.some(({ address }) => address === it)),
);

const isReady = async (base: string) =>
  (await fetch(new URL('/health/ready', base))).status === 200;
const failsReadiness = (base: string) =>
  until('readiness fails', async () => !(await isReady(base)));
const linesOf = (stdout: string) =>
  Array.from(stdout.matchAll(/^.+$/gm), ([line]) => JSON.parse(line));

describe('a process', () => {
  it('fails readiness at once on SIGTERM, serves on for the time of the drain, and logs all that in JSON alone', async () => {
    const variables = {
      DRAIN_SECONDS: '2',
      METRICS_PORT: '0',
      COMMIT: '0123abc',
      KEEP_ALIVE_SECONDS: '65',
    };
    const { base, program } = await project.serve({ ...production, ...variables });
    const port = Number(new URL(base).port);
    const [busy, idle] = await Promise.all([1, 2].map(() => RawConnection.open(port)));
    expect((await fetch(new URL('/health/live', base))).status).toBe(200);
    const ended = program.end('SIGTERM');
    const since = performance.now();
    await failsReadiness(base);
    busy!.send(request('GET /v1/pets', [`Authorization: Bearer ${key}`]));
    const { status, headers } = await busy!.answer();
    expect([status, headers['connection']]).toEqual([200, 'keep-alive']);
    expect(headers['keep-alive']).toBe('timeout=65');
    expect((await fetch(new URL('/health/live', base))).status).toBe(200);

    const isRefused = () => isReady(base).then(() => false, () => true); // prettier-ignore
    await until('new connections are refused', isRefused);
    const drained = performance.now() - since;
    expect(drained).toBeGreaterThan(1_900);
    expect(drained).toBeLessThan(15_000);
    expect(await idle!.rest()).toBe('');

    const { code, stdout, stderr } = await ended;
    expect([code, stderr]).toEqual([0, '']);
    // Of the probes, only those that failed.
    expect(stdout).not.toContain('/health/live');
    const lines = linesOf(stdout).filter(({ level, msg }) => level === 'info' && msg !== 'request');
    const metrics = expect.stringMatching(/^http:\/\/127\.0\.0\.1:\d+\/metrics$/);
    const build = { version: VERSION, commit: '0123abc', node: process.version };
    expect(lines).toMatchObject([
      { level: 'info', msg: 'started', ...build, pid: program.processId, metrics },
      { level: 'info', msg: 'draining', reason: 'SIGTERM', seconds: 2 },
      { level: 'info', msg: 'stopped', reason: 'SIGTERM' },
    ]);
  });

  it('serves metrics until its last response is sent', async () => {
    const METRICS_PORT = `${await freePort()}`;
    const { base, program } = await project.serve({ ...production, METRICS_PORT });
    const metrics = () => fetch(`http://127.0.0.1:${METRICS_PORT}/metrics`);
    const connection = await RawConnection.open(Number(new URL(base).port));
    const pet = '{"name":"Rex","categoryId":1}';
    const headers = [`Authorization: Bearer ${key}`, 'Content-Type: application/json'];
    const create = request('POST /v1/pets', [...headers, 'Expect: 100-continue'], pet);
    connection.send(create.split(pet)[0]!);
    // Its handler waits for the body.
    expect((await connection.answer()).status).toBe(100);
    // At HOST, as the service.
    await expect(fetch(`http://127.0.0.2:${METRICS_PORT}/metrics`)).rejects.toThrow();
    const ended = program.end('SIGTERM');
    const isRefused = () => isReady(base).then(() => false, () => true); // prettier-ignore
    await until('new connections are refused', isRefused);
    expect((await metrics()).status).toBe(200);
    connection.send(pet);
    expect((await connection.answer()).status).toBe(201);
    expect(await ended).toMatchObject({ code: 0 });
  });

  it('listens with HOST=* on the addresses of IPv6 and IPv4, and logs a client of IPv4 as such', async () => {
    const { base, program } = await project.serve({ ...production, HOST: '*' });
    const { port } = new URL(base);
    for (const address of LOOPBACK) {
      const host = address.includes(':') ? `[${address}]` : address;
      expect((await fetch(`http://${host}:${port}/v1/pets`)).status).toBe(401);
    }
    const { stdout } = await program.end('SIGTERM');
    const requests = linesOf(stdout).filter(({ msg }) => msg === 'request');
    expect(requests.map(({ client }) => client)).toEqual(LOOPBACK);
  });

  it('gets SIGTERM through npm, counts it once if both get it, and ends the drain on SIGINT', async () => {
    const variables = { DATABASE_URL, DRAIN_SECONDS: '60' };
    const program = project.start('npm', ['run', '--silent', 'start:prod'], variables);
    const [, base] = await program.says(/^Animal Store Service at (\S+)/m);
    program.send('SIGTERM');
    await failsReadiness(base!);
    program.signalGroup('SIGTERM');
    expect(await isReady(base!)).toBe(false);
    const since = performance.now();
    program.signalGroup('SIGINT');
    const { code, stderr } = await program.outcome;
    expect(stderr).toBe('');
    // npm passes its SIGINT on. On a busy machine that comes when Node has removed all handlers, and ends the process.
    expect([0, null]).toContain(code);
    expect(performance.now() - since).toBeLessThan(20_000);
  });

  it.each([
    ['SIGHUP', 'an exit code that makes a supervisor start it again', 129],
    ['SIGINT', 'the exit code of success', 0],
  ] as const)(
    'ends on %s without a drain, although its database has come to a halt, with %s',
    async (signal, _which, expected) => {
      const wire = await Wire.to(DATABASE_URL);
      const variables = { DATABASE_URL: wire.url, DRAIN_SECONDS: '60' };
      const { base, program } = await project.serve(variables);
      expect(await isReady(base)).toBe(true);
      wire.stall();
      const { code, stdout, stderr } = await program.end(signal);
      expect([code, stderr]).toEqual([expected, '']);
      expect(stdout).not.toContain('"draining"');
      expect(stdout).toMatch(new RegExp(`"reason":"${signal}","msg":"stopped"\\}\\n$`));
      wire.cut();
    },
  );

  it.each(['SIGTERM', 'SIGINT'] as const)(
    'ends on %s if that comes before it listens, with the exit code of success',
    async (signal) => {
      const early = `import { Server } from 'node:net'; const { listen } = Server.prototype;
        Server.prototype.listen = function (...args) { process.emit('${signal}', '${signal}'); return listen.apply(this, args); }`;
      const NODE_OPTIONS = `--import=data:text/javascript,${encodeURIComponent(early)}`;
      const { code, stdout } = await project.run('serve', [], { ...production, NODE_OPTIONS });
      expect(code).toBe(0);
      expect(linesOf(stdout).at(-1)).toMatchObject({ msg: 'stopped', reason: signal });
    },
  );

  it('listens with HOST=[::1] on that address, and has the exit code of success if it is told to stop, also if a SIGHUP follows', async () => {
    const HOST = LOOPBACK.length > 1 ? '[::1]' : '127.0.0.1';
    const { base, program } = await project.serve({ ...production, HOST, DRAIN_SECONDS: '2' });
    expect(new URL(base).hostname).toBe(HOST);
    program.send('SIGTERM');
    await failsReadiness(base);
    expect(await program.end('SIGHUP')).toMatchObject({ code: 0 });
  });

  it.each([
    ['warns once', 'in production without a rate limit', 'production', '', 1],
    ['does not warn', 'with one', 'production', '600', 0],
    ['does not warn', 'in development', 'development', '', 0],
  ])(
    '%s that a key may fill the disk: %s',
    async (_what, _when, NODE_ENV, RATE_LIMIT_PER_MINUTE, count) => {
      const variables = { ...production, NODE_ENV, RATE_LIMIT_PER_MINUTE, LOG_LEVEL: 'info' };
      const { program } = await project.serve(variables);
      const { stdout } = await program.end('SIGTERM');
      expect(stdout).toContain('"started"');
      expect(stdout.match(/RATE_LIMIT_PER_MINUTE is not set/g) ?? []).toHaveLength(count);
    },
  );

  it('logs which error ended it, and before by how much its clock is ahead', async () => {
    // A function that is found before PostgreSQL's own.
    await query(
      DATABASE_URL,
      'create schema late',
      `create function late.clock_timestamp() returns timestamptz language sql as
         $$ select pg_catalog.clock_timestamp() - interval '1 hour' $$`,
    );
    const late = `${DATABASE_URL}?options=-c%20search_path%3Dlate,pg_catalog,public`;
    const raise = `process.on('SIGUSR2', () => { throw new Error('unforeseen'); })`;
    const NODE_OPTIONS = `--import=data:text/javascript,${encodeURIComponent(raise)}`;
    const variables = { ...production, DATABASE_URL: late, NODE_OPTIONS };
    const { program } = await project.serve(variables);
    const { code, stdout } = await program.end('SIGUSR2');
    const [{ msg, clockAhead }] = linesOf(stdout);
    expect([msg, Math.round(clockAhead / 600)]).toEqual(['started', 6]);
    const stopped = { level: 'fatal', msg: 'stopped', reason: 'error' };
    const last = linesOf(stdout).at(-1);
    expect([code, last]).toMatchObject([1, { ...stopped, err: { message: 'unforeseen' } }]);
  });

  it('ends after such an error also if its log cannot be written, which nobody has noticed before', async () => {
    const raise = `process.on('SIGUSR2', () => { throw new Error('unforeseen'); })`;
    const PORT = `${await freePort()}`;
    const variables = {
      ...production,
      PORT,
      LOG_LEVEL: 'fatal',
      NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(raise)}`,
    };
    const command = 'exec "$0" dist/src/main.js serve > /dev/full';
    const program = project.start('sh', ['-c', command, process.execPath], variables);
    await until('it serves', () => isReady(`http://127.0.0.1:${PORT}`).catch(() => false));
    expect(await program.end('SIGUSR2')).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('unforeseen'),
    });
  });

  it.each([
    ['after such an error', 'SIGUSR2', 1],
    ['when it is told to', 'SIGTERM', 0],
  ] as const)('ends %s also if nobody reads its log', async (_when, signal, code) => {
    const raise = `process.on('SIGUSR2', () => { throw new Error('unforeseen'); })`;
    const NODE_OPTIONS = `--import=data:text/javascript,${encodeURIComponent(raise)}`;
    const PORT = `${await freePort()}`;
    const unread = await unreadPipe();
    const command = `exec "$0" dist/src/main.js serve > ${unread.path}`;
    const variables = { ...production, PORT, NODE_OPTIONS };
    const program = project.start('sh', ['-c', command, process.execPath], variables);
    await until('it serves', () => isReady(`http://127.0.0.1:${PORT}`).catch(() => false));
    program.send(signal);
    expect(await program.outcome).toMatchObject({ code });
    unread.close();
  });

  it.each([
    ['goes to a full disk', 'development'],
    ['goes to a pipe that nobody reads', 'production'],
  ])(
    'says on standard error why it does not start, also if its log %s',
    async (where, NODE_ENV) => {
      const unread = await unreadPipe();
      const command = `exec "$0" dist/src/main.js serve > ${where.includes('disk') ? '/dev/full' : unread.path}`;
      const variables = { ...production, NODE_ENV, LOG_LEVEL: 'trace', HOST: 'nowhere.invalid' };
      const program = project.start('sh', ['-c', command, process.execPath], variables);
      expect((await program.outcome).stderr).toMatch(/\bHOST\b/);
      unread.close();
    },
  );

  it('logs an error of a promise that nothing awaits, and serves on, and closes connections that are idle for KEEP_ALIVE_SECONDS', async () => {
    const reject = `process.on('SIGUSR2', () => { Promise.reject(new Error('forgotten')); })`;
    const NODE_OPTIONS = `--import=data:text/javascript,${encodeURIComponent(reject)}`;
    const variables = { ...production, NODE_OPTIONS, KEEP_ALIVE_SECONDS: '1' };
    const { base, program } = await project.serve(variables);
    program.send('SIGUSR2');
    const [line] = await program.says(/^.*forgotten.*$/m);
    expect(JSON.parse(line)).toMatchObject({ level: 'error', err: { message: 'forgotten' } });
    const idle = await RawConnection.open(Number(new URL(base).port));
    idle.send(request('GET /health/ready'));
    expect((await idle.answer()).status).toBe(200);
    expect(await idle.rest()).toBe('');
    expect(await program.end('SIGTERM')).toMatchObject({ code: 0, stderr: '' });
  });

  it.each([
    [
      'its configuration is invalid',
      { PORT: 'x', LOG_LEVEL: 'x', DATABASE_URL: '' },
      /^PORT .+\nLOG_LEVEL .+\nDATABASE_URL must be set when NODE_ENV is production; for development, unset NODE_ENV$/,
    ],
    ['HOST has no address', { HOST: 'nowhere.invalid' }, /^(?!.*DATABASE_URL).*\bHOST\b/],
    ['not with LOG_LEVEL=silent', { LOG_LEVEL: 'silent', PORT: 'x' }, undefined],
  ])('logs in production why it does not start: %s', async (_why, variables, message) => {
    const outcome = await project.run('serve', [], { ...production, ...variables });
    const reason = outcome.stderr.trimEnd();
    expect([outcome.code, reason]).toEqual([1, expect.stringMatching(message ?? /^PORT /)]);
    const line = { level: 'fatal', time: expect.any(String), msg: 'stopped', reason };
    const fatal = linesOf(outcome.stdout).filter(({ msg }) => msg === 'stopped');
    expect(fatal).toEqual(message ? [line] : []);
    expect(await readdir(project.folder)).not.toContain('.data');
  });
});
