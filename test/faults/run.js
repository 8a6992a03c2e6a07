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
import { overload } from './overload.js';
import { Postgres } from './postgres.js';
import { allHeld, table } from './report.js';
import { rollingRestart } from './rolling-restart.js';
import { slowClients } from './slow-clients.js';
import { stopping } from './stopping.js';

const PARTS = { databaseAway, crashes, overload, slowClients, stopping, rollingRestart };

const USAGE = `Usage: npm run test:faults -- [options]
  --short          about a minute, as part of npm run check
  --only LIST      of ${Object.keys(PARTS).join(', ')} (all)
  --markdown FILE  writes the table into FILE, between the lines that it wrote the last time`;

/** Minutes after which a run has failed. */
const LONGEST_RUN = 10;

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
for (const name of only) {
  await PARTS[name]({ postgres, folder, isShort: short });
}
await postgres.remove();

const text = `${describeRun()}\n\n${table()}\n`;
console.log(text);
await write(text);
process.exitCode = allHeld() ? 0 : 1;

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
    return leave(`${error.message}\n${USAGE}`);
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
