/**
 * npm run test:faults: does to the service, as a real process on the loopback address, what its operators fear, and
 * measures what its clients feel. Progress goes to standard error, the table of figures to standard output; the exit
 * code is 1 if a promise did not hold.
 */
import os from 'node:os';
import { parseArgs } from 'node:util';
import { administerKeys } from '../../src/auth/api-keys.js';
import { runMigrations } from '../../src/schema/migrations.js';
import { Postgres } from '../support/postgres.js';
import { crashes } from './crashes.js';
import { databaseAway } from './database-away.js';
import { overload } from './overload.js';
import { allHeld, judgeNoTimes, table } from './report.js';
import type { Run } from './service.js';
import { slowClients } from './slow-clients.js';

const PARTS: Record<string, (run: Run) => Promise<void>> = {
  databaseAway,
  crashes,
  overload,
  slowClients,
};

/** Judged by times and shares alone: not part of the short run. */
const FULL_RUN_ONLY = ['overload'];

const USAGE = `Usage: npm run test:faults -- [options]
  --short          less than a minute, as part of npm run check: without ${FULL_RUN_ONLY.join(', ')}, and
                   times are measured but not judged
  --only LIST      of ${Object.keys(PARTS).join(', ')} (all)`;

/** Minutes after which a run has failed. */
const LONGEST_RUN = 20;

const { short: isShort, only } = options();
const since = performance.now();
setTimeout(() => leave(`Ended after ${LONGEST_RUN} minutes.`), LONGEST_RUN * 60_000).unref();
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) {
  process.once(signal, () => leave(`Ended by ${signal}.`));
}

// On the disk, as in production.
const postgres = await Postgres.start(['fsync=on']);
try {
  await runMigrations(postgres.url);
  const { key } = await administerKeys(postgres.url, (keys) => keys.issue('faults'));
  if (isShort) {
    judgeNoTimes();
  }
  for (const part of only.filter((name) => !isShort || !FULL_RUN_ONLY.includes(name))) {
    await PARTS[part]!({ postgres, key, isShort });
  }
} finally {
  await postgres.stop();
}

console.log(`${describeRun()}\n\n${table()}\n`);
process.exitCode = allHeld() ? 0 : 1;

function leave(why: string): never {
  console.error(why);
  process.exit(1);
}

function options() {
  try {
    const { values } = parseArgs({
      options: {
        short: { type: 'boolean', default: false },
        only: { type: 'string', default: Object.keys(PARTS).join() },
      },
    });
    const parts = values.only.split(',');
    const unknown = parts.filter((part) => !Object.hasOwn(PARTS, part));
    if (unknown.length > 0) {
      throw new Error(`${unknown.join()} is none of ${Object.keys(PARTS).join()}`);
    }
    return { ...values, only: Object.keys(PARTS).filter((part) => parts.includes(part)) };
  } catch (error) {
    return leave(`${(error as Error).message}\n${USAGE}`);
  }
}

function describeRun(): string {
  const seconds = Math.round((performance.now() - since) / 1000);
  const date = new Date().toISOString().slice(0, 10);
  return (
    `${date}, Node.js ${process.versions.node}, ${os.cpus()[0]!.model.trim()}, ${os.availableParallelism()} cores, ` +
    `${isShort ? 'the short run' : 'the full run'}, ${seconds} s. Service, PostgreSQL and clients share the machine.`
  );
}
