import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync } from 'node:fs';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { setTimeout as wait } from 'node:timers/promises';
import { PROJECT_ROOT } from '../../src/config/project-root.js';

const LOGGER = join(PROJECT_ROOT, 'dist/src/logging/logger.js');
const METRICS = join(PROJECT_ROOT, 'dist/src/metrics/metrics.js');

/** A process that runs `script` with a logger. */
const running = (script: string, stdout: 'pipe' | number = 'pipe') => {
  const logger = `import { createLogger } from ${JSON.stringify(LOGGER)}; const logger = createLogger('info');`;
  const child = spawn(process.execPath, ['--input-type=module', '-e', logger + script], {
    stdio: ['ignore', stdout, 'pipe'],
  });
  return { child, stdout: child.stdout!, stderr: child.stderr!, exit: once(child, 'exit') };
};

/** A process that logs 1,000 lines and then does what `end` says. */
const logging = (end: string) =>
  running(`for (let n = 0; n < 1000; n += 1) logger.info({ n }, 'é'); ${end}`);

describe('no line of the log is lost or cut', () => {
  it.each([
    ['flushes them', 'logger.flush();', 0],
    ['exits', 'process.exit(3);', 3],
    ['exits later', 'setTimeout(() => process.exit(3));', 3],
    ['dies of an exception', "throw new Error('unforeseen');", 1],
    ['has nothing left to do', '', 0],
  ])('when a process %s', async (_what, end, code) => {
    const { stdout, exit } = logging(end);
    const lines = (await text(stdout)).trimEnd().split('\n');
    // At an abrupt end, what is on its way may come after what is not.
    const numbers = lines.map((line) => Number(JSON.parse(line).n)).toSorted((a, b) => a - b);
    expect(numbers).toEqual(Array.from({ length: 1000 }, (_, n) => n));
    expect(await exit).toEqual([code, null]);
  });
});

/** A process that logs 64 MiB, as fast as its output might take them, says what memory that took, and exits. */
const loggingMuch = (stdout: 'pipe' | number) =>
  running(
    `const text = 'x'.repeat(1024);
    let written = 0;
    const timer = setInterval(() => {
      for (let n = 0; n < 1024; n += 1) logger.info({ text }, 'a line');
      written += 1;
      if (written === 64) {
        clearInterval(timer);
        console.error(process.memoryUsage().arrayBuffers);
        process.exit(3);
      }
    }, 20);`,
    stdout,
  );

describe('a process whose standard output takes no lines', () => {
  const fullDisk = openSync('/dev/full', 'w');
  afterAll(() => closeSync(fullDisk));

  it.each([
    ['because its reader is gone', 'pipe' as const],
    ['because the disk is full', fullDisk],
  ])('lives on with bounded memory, and ends when it wants to: %s', async (_why, stdout) => {
    const { child, stderr, exit } = loggingMuch(stdout);
    child.stdout?.destroy();
    expect(Number(await text(stderr))).toBeLessThan(24 * 1024 * 1024);
    expect(await exit).toEqual([3, null]);
  });

  it('ends although it is not read, when it has nothing left to do and when it exits', async () => {
    for (const end of ['logger.flush();', 'process.exit();']) {
      // The first line makes standard output one that never blocks.
      const { stdout, exit } = logging(
        `console.log('begun'); logger.info({ text: 'x'.repeat(1e6) }); ${end}`,
      );
      stdout.pause();
      expect(await exit).toEqual([0, null]);
    }
  });

  const COUNT = `const { countLostLines } = await import(${JSON.stringify(LOGGER)});
    console.error(countLostLines());`;
  it.each([
    [
      'once it is read again',
      `const { Metrics } = await import(${JSON.stringify(METRICS)});
      const { registry } = new Metrics({}, {}, {}, {}, {}, {});
      const { values } = await registry.getSingleMetric('animal_store_log_lines_lost_total').get();
      console.error(values[0].value);`,
      0,
    ],
    ['once it exits', `${COUNT} process.exit(3);`, 3],
    ['while it is read slowly', COUNT, 0],
  ])('says how many were lost, in the metrics and in the log, %s', async (when, end, code) => {
    const { stdout, stderr, exit } = running(
      `for (let n = 0; n < 40_000; n += 1) {
        logger.info({ text: 'x'.repeat(1024) }, 'a line');
        // Its output takes 16 KiB in each turn.
        if (n % 1_000 === 0) await new Promise(setImmediate);
      }
      ${end}`,
    );
    let counted = '';
    stderr.on('data', (chunk) => (counted += chunk));
    if (!when.includes('slowly')) {
      stdout.pause();
      // If it fails, it waits at its exit until its output is read.
      await Promise.race([once(stderr, 'data'), wait(20_000, undefined, { ref: false })]);
    }
    const lines = JSON.parse(`[${(await text(stdout)).trimEnd().replaceAll('\n', ',')}]`) as any[];
    expect(await exit).toEqual([code, null]);
    const reports = lines.filter(({ msg }) => msg === 'Lines of the log were lost');
    expect(reports[0]).toMatchObject({ level: 'warn', time: expect.stringMatching(/^20.+Z$/) });
    const lost = reports.reduce((sum, report) => sum + report.lines, 0);
    expect(lost).toBeGreaterThan(10_000);
    expect([lost, lines.length - reports.length + lost]).toEqual([Number(counted), 40_000]);
  });

  it('keeps no more of them than 12 MiB while their reader pauses', async () => {
    const { child, stderr } = loggingMuch('pipe');
    const bytes = Number(await text(stderr.once('data', () => child.kill('SIGKILL'))));
    expect(bytes).toBeLessThan(24 * 1024 * 1024);
  });
});
