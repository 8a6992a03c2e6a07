/**
 * npm run test:faults: breaks the service, as a real process on the loopback address, its database and its network, and
 * measures what its clients notice. Progress goes to standard error, one table to standard output. The exit code is 1 if
 * a figure is beyond its limit.
 */
import os from 'node:os';
import { Command, Option } from 'commander';
import { administerKeys } from '../../src/auth/api-keys.js';
import { runMigrations } from '../../src/schema/migrations.js';
import { Postgres } from '../support/postgres.js';
import { attacks } from './attacks.js';
import { crashes, failovers } from './crashes.js';
import { databaseAway } from './database-away.js';
import { overload, soak } from './overload.js';
import { allHeld, judgeNoTimes, table } from './report.js';
import { randomSequences } from './sequences.js';
import { slowClients } from './slow-clients.js';

const RUNS = [
  databaseAway,
  crashes,
  failovers,
  overload,
  attacks,
  randomSequences,
  slowClients,
  soak,
];
const PARTS = new Map(RUNS.map((run) => [run.name, run]));

const { only, short: isShort } = new Command('npm run test:faults --')
  .addOption(new Option('--only <parts...>', 'soak runs only if named').choices([...PARTS.keys()]))
  .option('--short', 'a minute, without overload and slow clients, or limits of times', false)
  .parse()
  .opts<{ only?: string[]; short: boolean }>();
const count = isShort
  ? { kills: 3, failovers: 1, seconds: 3, minutes: 1 }
  : { kills: 100, failovers: 20, seconds: 10, minutes: 60 };
// Overload and slow clients are judged by times and shares alone.
const omitted = isShort ? ['overload', 'slowClients', 'soak'] : ['soak'];
const parts = only ?? [...PARTS.keys()].filter((part) => !omitted.includes(part));
const since = performance.now();
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) {
  process.once(signal, () => process.exit(1));
}
if (isShort) {
  judgeNoTimes();
}
// With fsync, as in production.
const postgres = await Postgres.start(['fsync=on']);
try {
  await runMigrations(postgres.url);
  const { key } = await administerKeys(postgres.url, (keys) => keys.issue('faults'));
  for (const part of parts) {
    await PARTS.get(part)!({ postgres, key, isShort, count });
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
