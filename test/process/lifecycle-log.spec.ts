import { VERSION } from '../../src/config/project-root.js';
import { runMigrations } from '../../src/database/migrations.js';
import { createDatabase, dropDatabase } from '../service.js';
import { Project } from './project.js';

describe('the log of a process', () => {
  let project: Project;
  let production: Record<string, string>;
  beforeAll(async () => {
    project = await Project.create();
    const DATABASE_URL = await createDatabase();
    await runMigrations(DATABASE_URL);
    production = { NODE_ENV: 'production', DATABASE_URL };
  });
  afterAll(async () => {
    await project.remove();
    await dropDatabase(production['DATABASE_URL']!);
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
    const program = project.spawn('serve', [], {
      ...production,
      NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(raise)}`,
    });
    await program.says(/"msg":"started"/);
    const { code, stdout } = await program.end('SIGUSR2');
    expect(code).toBe(1);
    expect(linesOf(stdout).at(-1)).toMatchObject({
      level: 'fatal',
      msg: 'stopped',
      reason: 'error',
      err: { message: 'unforeseen' },
    });
  });
});
