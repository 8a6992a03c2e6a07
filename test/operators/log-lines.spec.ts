import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync } from 'node:fs';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { PROJECT_ROOT } from '../../src/config/project-root.js';

const LOGGER = join(PROJECT_ROOT, 'dist/src/logging/logger.js');

/** A process that logs 1,000 lines and then does what `end` says. */
function logging(end: string) {
  const script = `
    import { createLogger } from ${JSON.stringify(LOGGER)};
    const logger = createLogger('info');
    for (let n = 0; n < 1000; n += 1) logger.info({ n }, 'é');
    ${end}`;
  return spawn(process.execPath, ['--input-type=module', '-e', script], {
    stdio: ['ignore', 'pipe', 'ignore'],
  });
}

describe('no line of the log is lost or cut', () => {
  it.each([
    ['flushes them', 'logger.flush();', 0],
    ['exits', 'process.exit(3);', 3],
    ['exits later', 'setTimeout(() => process.exit(3));', 3],
    ['dies of an exception', "throw new Error('unforeseen');", 1],
    ['has nothing left to do', '', 0],
  ])('when a process %s', async (_what, end, code) => {
    const child = logging(end);
    const exit = once(child, 'exit');
    const lines = (await text(child.stdout)).trimEnd().split('\n');
    // At an abrupt end, what is on its way may come after what is not.
    const numbers = lines.map((line) => Number(JSON.parse(line).n)).toSorted((a, b) => a - b);
    expect(numbers).toEqual(Array.from({ length: 1000 }, (_, n) => n));
    expect(await exit).toEqual([code, null]);
  });

  it('while a process lives on and logs no more', async () => {
    const child = logging('setInterval(() => {}, 1000);');
    let written = '';
    for await (const chunk of child.stdout) {
      written += chunk;
      if (written.includes('"n":999')) {
        break;
      }
    }
    child.kill('SIGKILL');
    expect(written.split('\n')).toHaveLength(1001);
  });
});

/** A process that logs 64 MiB, as fast as its output might take them, says what memory that took, and exits. */
function loggingMuch(stdout: 'pipe' | number) {
  const script = `
    import { createLogger } from ${JSON.stringify(LOGGER)};
    const logger = createLogger('info');
    const text = 'x'.repeat(1024);
    let written = 0;
    const timer = setInterval(() => {
      for (let n = 0; n < 1024; n += 1) logger.info({ text }, 'a line');
      written += 1;
      if (written === 64) {
        clearInterval(timer);
        console.error(process.memoryUsage().arrayBuffers);
        process.exit(3);
      }
    }, 20);`;
  return spawn(process.execPath, ['--input-type=module', '-e', script], {
    stdio: ['ignore', stdout, 'pipe'],
  });
}

describe('a process whose standard output takes no lines', () => {
  const fullDisk = openSync('/dev/full', 'w');
  afterAll(() => closeSync(fullDisk));

  it.each([
    ['because its reader is gone', 'pipe' as const],
    ['because the disk is full', fullDisk],
  ])('lives on with bounded memory, and ends when it wants to: %s', async (_why, stdout) => {
    const child = loggingMuch(stdout);
    child.stdout?.destroy();
    const exit = once(child, 'exit');
    const bytes = Number(await text(child.stderr!));
    expect(bytes).toBeLessThan(24 * 1024 * 1024);
    expect(await exit).toEqual([3, null]);
  });

  it('ends although it is not read, when it has nothing left to do and when it exits', async () => {
    for (const end of ['logger.flush();', 'process.exit();']) {
      // The first line makes standard output one that never blocks.
      const child = logging(`console.log('begun'); logger.info({ text: 'x'.repeat(1e6) }); ${end}`);
      child.stdout.pause();
      expect(await once(child, 'exit')).toEqual([0, null]);
    }
  });

  it('keeps no more of them than 12 MiB while their reader pauses', async () => {
    const child = loggingMuch('pipe');
    const bytes = Number(await text(child.stderr!.once('data', () => child.kill('SIGKILL'))));
    expect(bytes).toBeLessThan(24 * 1024 * 1024);
  });
});
