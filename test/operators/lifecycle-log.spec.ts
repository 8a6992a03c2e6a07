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
    stdout
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line));

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
    ['its configuration is invalid', { PORT: 'x', LOG_LEVEL: 'x' }, /^PORT .+\nLOG_LEVEL .+$/],
    ['the database is away', { DATABASE_URL: 'postgres://u:p@127.0.0.1:1/x' }, /ECONNREFUSED/],
    ['it cannot listen', { HOST: '192.0.2.1' }, /EADDRNOTAVAIL.+ HOST /],
    ['not in development', { NODE_ENV: 'development', PORT: 'x' }, undefined],
    ['not with LOG_LEVEL=silent', { LOG_LEVEL: 'silent', PORT: 'x' }, undefined],
  ])('says in production why a start fails: %s', async (_why, variables, message) => {
    const outcome = await project.run('serve', [], { ...production, ...variables });
    expect([outcome.code, outcome.stderr]).toEqual([1, expect.stringMatching(/.+\n$/)]);
    const reason = outcome.stderr.trimEnd();
    expect(reason).toMatch(message ?? /^PORT /);
    const lines = outcome.stdout === '' ? [] : linesOf(outcome.stdout);
    const line = { level: 'fatal', time: expect.any(String), msg: 'stopped', reason };
    expect(lines.filter(({ msg }) => msg === 'stopped')).toEqual(message ? [line] : []);
  });

  describe('on a terminal', () => {
    /** Serves until Ctrl-C. @returns what the terminal shows, with its line ends as in a file. */
    async function shown(variables: Record<string, string>): Promise<string> {
      const program = project.onTerminal(['serve'], { ...production, ...variables });
      const [, address] = await program.says(/(http:\S+)\/v1/);
      await fetch(`${address}/v1/pets`);
      // Ctrl-C makes the terminal discard what it has not shown yet.
      await program.says(/request/);
      program.type('\u0003');
      const { code, stdout } = await program.outcome;
      expect(code).toBe(0);
      return stdout.replaceAll('\r\n', '\n').replace('^C', '');
    }

    it('is for people in development', async () => {
      const text = await shown({ NODE_ENV: 'development', NO_COLOR: '1' });
      expect(text).toMatch(
        new RegExp(
          [
            String.raw`^\[[\d:.]+\] INFO \(\d+\): started \{"version":.+\}`,
            String.raw`Animal Store Service at \S+`,
            String.raw`\[[\d:.]+\] INFO: request \{.*"status":401,.+\}`,
            String.raw`\[[\d:.]+\] INFO: stopped \{"reason":"SIGINT"\}\n$`,
          ].join('\n'),
        ),
      );
    });

    it('has colours, if the terminal has', async () => {
      const text = await shown({ NODE_ENV: 'development', TERM: 'xterm-256color' });
      expect(text).toContain('\u001b[32mINFO\u001b[39m: ');
    });

    it('is JSON in production', async () => {
      const lines = linesOf(await shown({}));
      expect(lines.map(({ msg }) => msg)).toEqual(['started', 'request', 'stopped']);
    });

    it('is JSON without the development dependencies', async () => {
      await project.leaveOut('pino-pretty');
      const text = await shown({ NODE_ENV: 'development' });
      const lines = linesOf(text.replace(/^Animal Store .+\n/m, ''));
      expect(lines.map(({ msg }) => msg)).toEqual(['started', 'request', 'stopped']);
    });
  });
});
