/**
 * npm run test:faults: breaks the service, as a real process on the loopback address, its database and its network, and
 * measures what its clients notice. Progress goes to standard error, one table to standard output. The exit code is 1 if
 * a figure is beyond its limit.
 */
import os from 'node:os';
import { parseArgs } from 'node:util';
import { administerKeys } from '../../src/auth/api-keys.js';
import { runMigrations } from '../../src/schema/migrations.js';
import { Postgres } from '../support/postgres.js';
import { crashes } from './crashes.js';
import { databaseAway } from './database-away.js';
import { failovers } from './failovers.js';
import { overload } from './overload.js';
import { allHeld, judgeNoTimes, table } from './report.js';
import type { Run } from './service.js';
import { slowClients } from './slow-clients.js';

const PARTS: Record<string, (run: Run) => Promise<void>> = {
  databaseAway,
  crashes,
  failovers,
  overload,
  slowClients,
};

const USAGE = `Usage: npm run test:faults -- [options]
  --only LIST      some of ${Object.keys(PARTS).join(', ')}
  --kills N        of the service and PostgreSQL, in turns (100; short: 3)
  --failovers N    to the standby (20; short: 1)
  --seconds N      how long each other fault of the database lasts (10; short: 3)
  --short          about a minute, as part of npm run check: without overload.
                   Times and shares are measured, and not compared with their limits.`;

const { short: isShort, only, count } = options();
const since = performance.now();
setTimeout(() => leave('Ended after 90 minutes.'), 90 * 60_000).unref();
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) {
  process.once(signal, () => leave(`Ended by ${signal}.`));
}
if (isShort) {
  judgeNoTimes();
}
// With fsync, as in production.
const postgres = await Postgres.start(['fsync=on']);
try {
  await runMigrations(postgres.url);
  const { key } = await administerKeys(postgres.url, (keys) => keys.issue('faults'));
  for (const part of only) {
    await PARTS[part]!({ postgres, key, isShort, count });
  }
} finally {
  await postgres.stop();
}
const seconds = Math.round((performance.now() - since) / 1000);
console.log(`${new Date().toISOString().slice(0, 10)}, Node.js ${process.versions.node}, ${os.cpus()[0]!.model.trim()}, \
${os.availableParallelism()} cores, the ${isShort ? 'short' : 'full'} run, ${seconds} s.
Service, PostgreSQL and clients share the machine.

${table()}`);
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
        only: { type: 'string' },
        kills: { type: 'string' },
        failovers: { type: 'string' },
        seconds: { type: 'string' },
      },
    });
    const number = (value: string | undefined, short: number, full: number) => {
      const result = Number(value ?? (values.short ? short : full));
      if (!(Number.isInteger(result) && result > 0)) {
        throw new Error(`${value} is not a whole number above 0`);
      }
      return result;
    };
    const count = {
      kills: number(values.kills, 3, 100),
      failovers: number(values.failovers, 1, 20),
      seconds: number(values.seconds, 3, 10),
    };
    // Overload is judged by times and shares alone.
    const all = Object.keys(PARTS).filter((part) => !values.short || part !== 'overload');
    const only = values.only?.split(',') ?? all;
    const unknown = only.filter((part) => !Object.hasOwn(PARTS, part));
    if (unknown.length > 0) {
      throw new Error(`${unknown.join()} is none of ${Object.keys(PARTS).join()}`);
    }
    return { short: values.short, only, count };
  } catch (error) {
    return leave(`${(error as Error).message}\n${USAGE}`);
  }
}
