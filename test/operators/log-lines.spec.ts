import { closeSync, openSync } from 'node:fs';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { PROJECT_ROOT } from '../../src/config/project-root.js';
import { unreadPipe } from '../support/unread-pipe.js';

const [LOGGER, METRICS] = ['logging/logger.js', 'metrics/metrics.js'].map((file) =>
  JSON.stringify(join(PROJECT_ROOT, 'dist/src', file)),
);

/** A process that runs `script` with a logger. */
const running = (script: string, stdout: 'pipe' | number = 'pipe') => {
  const logger = `import { createLogger } from ${LOGGER}; const logger = createLogger('info');`;
  const child = spawn(process.execPath, ['--input-type=module', '-e', logger + script], {
    stdio: ['ignore', stdout, 'pipe'],
  });
  return { child, stdout: child.stdout!, stderr: child.stderr!, exit: once(child, 'exit') };
};

describe('no line of the log is lost or cut', () => {
  it.each([
    ['flushes them', 'logger.flush();', 0],
    ['exits', 'process.exit(3);', 3],
    ['dies of an exception', "throw new Error('unforeseen');", 1],
    ['has nothing left to do', '', 0],
  ])('when a process %s', async (_what, end, code) => {
    const { stdout, exit } = running(
      `for (let n = 0; n < 1000; n += 1) logger.info({ n }, 'é'); ${end}`,
    );
    const lines = (await text(stdout)).trimEnd().split('\n');
    // At an abrupt end, what is on its way may come after what is not.
    const numbers = lines.map((line) => Number(JSON.parse(line).n)).toSorted((a, b) => a - b);
    expect(numbers).toEqual(Array.from({ length: 1000 }, (_, n) => n));
    expect(await exit).toEqual([code, null]);
  });
});

describe('a process whose standard output takes no lines', () => {
  const fullDisk = openSync('/dev/full', 'w');
  afterAll(() => closeSync(fullDisk));

  it.each([
    ['because its reader is gone', 'pipe' as const, ''],
    // The first line makes standard output one that never blocks.
    ['because its reader pauses', 'pipe' as const, "console.log('begun');"],
    ['because the disk is full', fullDisk, ''],
  ])(
    'keeps no more of them than 12 MiB, lives on, and ends when it wants to: %s',
    async (why, stdout, begin) => {
      // 64 MiB, as fast as its output might take them.
      const { child, stderr, exit } = running(
        `${begin}
        const text = 'x'.repeat(1024);
      let written = 0;
      setInterval(() => {
        for (let n = 0; n < 1024; n += 1) logger.info({ text }, 'a line');
        written += 1;
        if (written === 64) {
          console.error(process.memoryUsage().arrayBuffers, Date.now());
          process.exit(3);
        }
      }, 20);`,
        stdout,
      );
      if (why.includes('gone')) {
        child.stdout!.destroy();
      }
      const [bytes, end] = (await text(stderr)).split(' ').map(Number);
      expect(bytes).toBeLessThan(24 * 1024 * 1024);
      expect(await exit).toEqual([3, null]);
      // It tries for two seconds.
      expect(Date.now() - end!).toBeLessThan(12_000);
    },
  );

  it('writes its last lines if it took one again after a write that failed', async () => {
    const { stdout, exit } = running(
      `import fs from 'node:fs';
      const { write } = fs;
      const full = Object.assign(new Error('full'), { code: 'ENOSPC' });
      fs.write = (...args) => { fs.write = write; process.nextTick(args.at(-1), full); };
      logger.info('first');
      logger.flush(() => {
        logger.info('second');
        logger.flush(() => {
          logger.info('last');
          process.exit(3);
        });
      });`,
    );
    const messages = (await text(stdout)).match(/(?<="msg":")\w+/g);
    expect(messages).toEqual(['first', 'second', 'last']);
    expect(await exit).toEqual([3, null]);
  });

  it('is killed within seconds of its last act, if a line that nobody reads holds even its exit', async () => {
    const { path, close } = await unreadPipe();
    const stdout = openSync(path, 'w');
    // Whether the process stops as it should, or exits because of an error.
    for (const last of ['logger.flush();', 'logger.flush(() => process.exit(1));']) {
      const begin = `console.error('begun'); logger.info('a line');`;
      const { exit, stderr } = running(begin + last, stdout);
      await once(stderr, 'data');
      const start = performance.now();
      expect(await exit).toEqual([null, 'SIGKILL']);
      expect(performance.now() - start).toBeLessThan(12_000);
    }
    closeSync(stdout);
    close();
  });

  it('counts in the metrics, within seconds, that lines cannot be written', async () => {
    const { stderr, exit } = running(
      `logger.info('a line');
      const { Metrics } = await import(${METRICS});
      const metric = new Metrics({}, {}, {}, {}, {}, {}).registry
        .getSingleMetric('animal_store_log_write_errors_total');
      for (let value = 0; value === 0; ) {
        await new Promise((resolve) => setTimeout(resolve, 50));
        [{ value }] = (await metric.get()).values;
      }
      console.error('counted');
      process.exit();`,
      fullDisk,
    );
    expect(await text(stderr)).toBe('counted\n');
    await exit;
  });

  it('says in the metrics how many bytes wait, and none when all are written', async () => {
    const { stdout, stderr, exit } = running(
      `const { Metrics } = await import(${METRICS});
      const metric = new Metrics({}, {}, {}, {}, {}, {}).registry
        .getSingleMetric('animal_store_log_bytes_waiting');
      const waiting = async () => (await metric.get()).values[0].value;
      for (let n = 0; n < 1_000; n += 1) logger.info({ text: 'x'.repeat(1024) }, 'a line');
      // A pipe takes 64 KiB.
      console.error((await waiting()) > 900_000);
      while ((await waiting()) > 0) await new Promise((resolve) => setTimeout(resolve, 50));
      console.error('none');
      process.exit();`,
    );
    stdout.pause();
    expect(String((await once(stderr, 'data'))[0])).toBe('true\n');
    stdout.resume();
    expect(await text(stderr)).toBe('none\n');
    expect(await exit).toEqual([0, null]);
  });

  it('says how many were lost, in the metrics and in the log, once it is read again', async () => {
    const { stdout, stderr, exit } = running(
      `for (let n = 0; n < 40_000; n += 1) {
        logger.info({ text: 'x'.repeat(1024) }, 'a line');
        // Its output takes 16 KiB in each turn.
        if (n % 1_000 === 0) await new Promise(setImmediate);
      }
      const { Metrics } = await import(${METRICS});
      const { registry } = new Metrics({}, {}, {}, {}, {}, {});
      const { values } = await registry.getSingleMetric('animal_store_log_lines_lost_total').get();
      console.error(values[0].value);`,
    );
    stdout.pause();
    const [counted] = await once(stderr, 'data');
    const lines = JSON.parse(`[${(await text(stdout)).trimEnd().replaceAll('\n', ',')}]`) as any[];
    expect(await exit).toEqual([0, null]);
    const reports = lines.filter(({ msg }) => msg === 'Lines of the log were lost');
    expect(reports[0]).toMatchObject({ level: 'warn', time: expect.stringMatching(/^20.+Z$/) });
    const lost = reports.reduce((sum, report) => sum + report.lines, 0);
    expect(lost).toBeGreaterThan(10_000);
    expect([lost, lines.length - reports.length + lost]).toEqual([Number(String(counted)), 40_000]);
  });

  it('says with its last line how many were lost since, if it exits before it is read again', async () => {
    const { stdout, exit } = running(
      `for (let n = 0; n < 40_000; n += 1) logger.info({ text: 'x'.repeat(1024) }, 'a line');
      process.exit(0);`,
    );
    const lines = JSON.parse(`[${(await text(stdout)).trimEnd().replaceAll('\n', ',')}]`) as any[];
    expect(await exit).toEqual([0, null]);
    const reports = lines.filter(({ msg }) => msg === 'Lines of the log were lost');
    const lost = reports.reduce((sum, report) => sum + report.lines, 0);
    expect(lost).toBeGreaterThan(10_000);
    expect(lines.length - reports.length + lost).toBe(40_000);
  });
});
