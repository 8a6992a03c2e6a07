/**
 * npm run test:faults: does to the service, as real processes on the loopback address, what its operators fear, and
 * measures what its clients feel. Progress goes to standard error, the table of figures to standard output; the exit
 * code is 1 where a promise did not hold.
 */
import { rmSync } from 'node:fs';
import { mkdtemp } from 'node:fs/promises';
import os from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { sectionWriter } from '../../scripts/markdown-section.mjs';
import { crashes } from './crashes.js';
import { databaseAway } from './database-away.js';
import { fullLengthTests } from './full-length-tests.js';
import { overload } from './overload.js';
import { Postgres } from './postgres.js';
import { allHeld, judgeNoTimes, table } from './report.js';
import { rollingRestart } from './rolling-restart.js';
import { slowClients } from './slow-clients.js';
import { stopping } from './stopping.js';

const PARTS = {
  databaseAway,
  crashes,
  overload,
  slowClients,
  stopping,
  rollingRestart,
  fullLengthTests,
};

/** Judged by times and shares alone, or long: not part of the short run. */
const FULL_RUN_ONLY = ['overload', 'fullLengthTests'];

const USAGE = `Usage: npm run test:faults -- [options]
  --short          less than a minute, as part of npm run check: without ${FULL_RUN_ONLY.join(', ')}, and
                   times are measured but not judged
  --only LIST      of ${Object.keys(PARTS).join(', ')} (all)
  --markdown FILE  writes the table into FILE, between the lines that it wrote the last time`;

/** Minutes after which a run has failed. */
const LONGEST_RUN = 20;

const { short, only, markdown } = options();
const [major] = process.versions.node.split('.');
const write = await sectionWriter(markdown, `npm run test:faults, Node ${major}`);
const since = performance.now();
setTimeout(() => leave(`Ended after ${LONGEST_RUN} minutes.`), LONGEST_RUN * 60_000).unref();
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) {
  process.once(signal, () => leave(`Ended by ${signal}.`));
}

const folder = await mkdtemp(join(os.tmpdir(), 'animal-store-faults-'));
// The programs of the run have been ended by then.
process.on('exit', () => rmSync(folder, { recursive: true, force: true, maxRetries: 5 }));
const postgres = await Postgres.create(folder);
if (short) {
  judgeNoTimes();
}
for (const name of only.filter((part) => !short || !FULL_RUN_ONLY.includes(part))) {
  await PARTS[name]({ postgres, folder, isShort: short });
}
await postgres.remove();

const text = `${describeRun()}\n\n${table()}\n`;
console.log(text);
await write(text);
process.exitCode = allHeld() ? 0 : 1;

/** @param {string} why @returns {never} */
function leave(why) {
  console.error(why);
  process.exit(1);
}

function options() {
  try {
    const { values } = parseArgs({
      options: {
        short: { type: 'boolean', default: false },
        only: { type: 'string', default: Object.keys(PARTS).join() },
        markdown: { type: 'string' },
      },
    });
    const parts = values.only.split(',');
    const unknown = parts.filter((part) => !Object.hasOwn(PARTS, part));
    if (unknown.length > 0) {
      throw new Error(`${unknown.join()} is none of ${Object.keys(PARTS).join()}`);
    }
    return { ...values, only: Object.keys(PARTS).filter((part) => parts.includes(part)) };
  } catch (error) {
    return leave(`${/** @type {Error} */ (error).message}\n${USAGE}`);
  }
}

function describeRun() {
  const seconds = Math.round((performance.now() - since) / 1000);
  const date = new Date().toISOString().slice(0, 10);
  return (
    `${date}, Node.js ${process.versions.node}, ${os.cpus()[0].model.trim()}, ${os.availableParallelism()} cores, ` +
    `${short ? 'the short run' : 'the full run'}, ${seconds} s. Service, PostgreSQL and clients share the machine.`
  );
}
