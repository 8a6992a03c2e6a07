import { readdir } from 'node:fs/promises';
import { VERSION } from '../../src/config/project-root.js';
import { Project } from '../support/project.js';

describe('the log of a process', () => {
  const project = Project.ofTests();
  let production: Record<string, string>;
  beforeAll(async () => {
    const DATABASE_URL = await project.createMigratedDatabase();
    production = { NODE_ENV: 'production', DATABASE_URL };
  });

  const linesOf = (stdout: string) =>
    Array.from(stdout.matchAll(/^.+$/gm), ([line]) => JSON.parse(line));

  it('says in production, in JSON alone, what started, when it drained, and why it stopped', async () => {
    const program = project.spawn('serve', [], {
      ...production,
      DRAIN_SECONDS: '1',
      METRICS_PORT: '0',
      COMMIT: '0123abc',
    });
    const [, address] = await program.says(/"address":"(\S+)\/v1".*"msg":"started"/);
    expect((await fetch(`${address}/health/live`)).status).toBe(200);
    const { code, stdout, stderr } = await program.end('SIGTERM');
    expect([code, stderr]).toEqual([0, '']);
    const [started, ...others] = linesOf(stdout);
    expect(started).toMatchObject({
      level: 'info',
      msg: 'started',
      version: VERSION,
      commit: '0123abc',
      node: process.version,
      pid: program.processId,
      metrics: expect.stringMatching(/^http:\/\/127\.0\.0\.1:\d+\/metrics$/),
    });
    // The probe has no line.
    expect(others).toMatchObject([
      { level: 'info', msg: 'draining', reason: 'SIGTERM', seconds: 1 },
      { level: 'info', msg: 'stopped', reason: 'SIGTERM' },
    ]);
  });

  it('says which error ended it', async () => {
    const raise = `process.on('SIGUSR2', () => { throw new Error('unforeseen'); })`;
    const NODE_OPTIONS = `--import=data:text/javascript,${encodeURIComponent(raise)}`;
    const program = project.spawn('serve', [], { ...production, NODE_OPTIONS });
    await program.says(/"msg":"started"/);
    const { code, stdout } = await program.end('SIGUSR2');
    const stopped = { level: 'fatal', msg: 'stopped', reason: 'error' };
    const last = linesOf(stdout).at(-1);
    expect([code, last]).toMatchObject([1, { ...stopped, err: { message: 'unforeseen' } }]);
  });

  it.each([
    [
      'its configuration is invalid',
      { PORT: 'x', LOG_LEVEL: 'x', DATABASE_URL: '' },
      /^PORT .+\nLOG_LEVEL .+\nDATABASE_URL must be set when NODE_ENV is production$/,
    ],
    ['HOST has no address', { HOST: 'nowhere.invalid' }, /^(?!.*DATABASE_URL).*\bHOST\b/],
    ['not with LOG_LEVEL=silent', { LOG_LEVEL: 'silent', PORT: 'x' }, undefined],
  ])('says in production why a start fails: %s', async (_why, variables, message) => {
    const { code, stdout, stderr } = await project.run('serve', [], {
      ...production,
      ...variables,
    });
    const reason = stderr.trimEnd();
    expect([code, reason]).toEqual([1, expect.stringMatching(message ?? /^PORT /)]);
    const line = { level: 'fatal', time: expect.any(String), msg: 'stopped', reason };
    const fatal = linesOf(stdout).filter(({ msg }) => msg === 'stopped');
    expect(fatal).toEqual(message ? [line] : []);
    expect(await readdir(project.folder)).not.toContain('.data');
  });

  it('is written to a terminal line by line', async () => {
    const program = project.onTerminal(['serve'], production);
    const [, address] = await program.says(/(http:\S+)\/v1/);
    await fetch(`${address}/v1/pets`);
    // Ctrl-C makes the terminal discard what it has not shown yet.
    await program.says(/"request"/);
    program.type('\u0003');
    const { code, stdout } = await program.outcome;
    expect(code).toBe(0);
    const lines = linesOf(stdout.replaceAll('\r\n', '\n').replace('^C', ''));
    expect(lines.map(({ msg }) => msg)).toEqual(['started', 'request', 'stopped']);
  });
});
