/**
 * npm run bench: measures the service beside peers that serve the same contract from the same database.
 *
 * Every answer of every peer is first compared with the service's. Then, round by round, each load is put on one
 * server after the other, so that whatever else the machine does hits all alike. Tables go to standard output,
 * progress to standard error.
 */
import { existsSync } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import os from 'node:os';
import { parseArgs } from 'node:util';
import { cursorAfter } from '../dist/src/listing/cursors.js';
import { buildCommit, comparison, isKnown } from './against.js';
import { chartOf } from './chart.js';
import { openDatabase } from './database.js';
import { prices } from './prices.js';
import { ratiosOf, report } from './report.js';
import { requireSameAnswers } from './same-answers.js';
import {
  CAN_READ_PROCESSES,
  cpuSeconds,
  HAS_GO,
  peakMemory,
  postgresCpuSeconds,
  SERVERS,
  startServer,
} from './servers.js';
import { LOADS, runWrk, wrkVersion } from './wrk.js';

const USAGE = `Usage: npm run bench -- [options]
  --animals LIST      in the table, from 1,000 (100,000); tables of several sizes are measured in turns
  --shared-buffers S  PostgreSQL's own memory for each table (its default, 128MB)
  --rounds N          times that each cell is measured (3)
  --seconds N         length of a cell (5)
  --warm-up N         seconds of the same load before each cell (1)
  --connections LIST  (1,64,512)
  --loads LIST        of ${Object.keys(LOADS).join(', ')} (all)
  --only LIST         of ${Object.keys(SERVERS).join(', ')} (all; go only if Debian's golang-go and
                      golang-github-jackc-pgx-v4-dev are installed)
  --against COMMIT    compares the service with that of another commit, in pairs of new processes, until the interval
                      of 95 % of each ratio is narrower than 3 %, or for --rounds (40)
  --json FILE         writes all that was measured
  --report FILE       writes the tables into FILE, and a chart of the ratios beside it, in SVG; bench/results has those
                      that docs/performance.md quotes`;

const DEFAULT_SERVERS = Object.keys(SERVERS).filter((name) => name !== 'go' || HAS_GO);

const WARM_UP_CONNECTIONS = 16;

const stopping = new AbortController();
for (const signal of ['SIGINT', 'SIGTERM']) {
  process.once(signal, () => stopping.abort(new Error(`Stopped by ${signal}.`)));
}

try {
  await main();
} catch (error) {
  const reason = stopping.signal.aborted ? stopping.signal.reason : error;
  say(reason.message, ...(reason.cause ? [reason.cause] : []));
  process.exitCode = 1;
}

async function main() {
  const { json, report: file, ...settings } = readOptions();
  const { against } = settings;
  const wrk = await wrkVersion();
  if (against !== undefined) {
    say(`Building ${against}`);
    SERVERS[against] = { ...SERVERS.service, file: await buildCommit(against) };
  }
  const databases = [];
  const started = [];
  try {
    for (const animals of settings.animals) {
      say(`Starting PostgreSQL with ${animals} animals`);
      const database = await openDatabase({ animals, sharedBuffers: settings.sharedBuffers });
      databases.push(database);
      const servers = await startServers(settings.servers, database, started);
      if (against === undefined) {
        await compareAnswers(servers, database);
      }
    }
    const run = {
      machine: await describeMachine(),
      versions: await readVersions({ PostgreSQL: databases[0].version, wrk }),
      settings: { date: new Date().toISOString().slice(0, 10), ...settings },
      tables: databases.map(({ animals, pagesRead }) => ({ animals, pagesRead })),
      cells: await warmUpAndMeasure(settings, started),
      prices: against === undefined ? await pricesOf(started, settings.seconds) : [],
      servers: await Promise.all(
        started.map(async ({ name, pid, database: { animals } }) => ({
          name,
          animals,
          peakMemory: CAN_READ_PROCESSES ? await peakMemory(pid) : undefined,
        })),
      ),
    };
    const text = against === undefined ? report(run) : comparison(run);
    console.log(text);
    if (file !== undefined) {
      await writeFile(file, text);
      const ratios = ratiosOf(run).filter(({ peer }) => !SERVERS[peer].isCeiling);
      if (ratios.length > 0) {
        await writeFile(`${file.replace(/\.\w+$/, '')}.svg`, chartOf(ratios));
      }
    }
    if (json !== undefined) {
      await writeFile(json, `${JSON.stringify(run, null, 2)}\n`);
    }
  } finally {
    await Promise.all(started.map((server) => server.stop()));
    await Promise.all(databases.map((database) => database.close()));
  }
}

/** Adds them to `started` too, one by one, so that they are stopped should another not start. */
async function startServers(names, database, started) {
  const servers = [];
  for (const name of names) {
    say(`Starting ${name}`);
    const { url: databaseUrl, key } = database;
    const server = { ...(await startServer(name, { databaseUrl, key })), database };
    servers.push(server);
    started.push(server);
    stopping.signal.throwIfAborted();
  }
  return servers;
}

/** The service is the measure: without it, by `--only`, the first server is. */
async function compareAnswers(servers, database) {
  const [service, ...peers] = servers.filter(({ name }) => !SERVERS[name].isCeiling);
  for (const peer of peers) {
    const compared = await requireSameAnswers({
      service,
      peer,
      key: database.key,
      animals: database.animals,
      cursorAfter: (id) => cursorAfter('pets', id),
    });
    say(`${peer.name} answers ${compared} requests as ${service.name} does`);
  }
  await database.restore();
}

/** Before the first round, or with `--against` before each, there is one for V8's compilers alone. */
async function warmUpAndMeasure(options, started) {
  const warmUp = () =>
    measure({ ...options, rounds: 1, connections: [WARM_UP_CONNECTIONS], warmUp: 0 }, started);
  return measure(options, started, async (round) => {
    if (round === 1 || options.against !== undefined) {
      say('Warming up');
      await (round === 1 ? undefined : startAnew(started));
      await warmUp();
      say('Measuring');
    }
  });
}

/** Two processes of the same program differ by a few percent for as long as they run: each pair is of new ones. */
async function startAnew(started) {
  for (const server of started) {
    const { url: databaseUrl, key } = server.database;
    await server.stop();
    Object.assign(server, await startServer(server.name, { databaseUrl, key }));
  }
}

async function pricesOf(started, seconds) {
  const [first] = started;
  if (first.name !== 'service' || !CAN_READ_PROCESSES) {
    return [];
  }
  say('Measuring the dearest requests');
  const found = await prices(first, seconds);
  await first.database.restore();
  return found;
}

async function measure(options, started, beforeRound = async (_round) => {}) {
  const { rounds, connections, loads, seconds, warmUp, against, servers } = options;
  const cells = [];
  const unknown = () =>
    connections
      .flatMap((count) => loads.map((load) => ({ load, connections: count })))
      .filter((where) => against === undefined || !isKnown(cells, where, servers));
  for (let round = 1; round <= rounds && unknown().length > 0; round += 1) {
    await beforeRound(round);
    for (const { load, connections: count } of unknown()) {
      for (const server of rotated(started, round + loads.indexOf(load))) {
        const { animals } = server.database;
        const where = { round, connections: count, load, server: server.name, animals };
        const result = await measureCell(server, {
          load,
          connections: count,
          seconds,
          warmUp,
          seed: round,
        }).catch((error) => {
          throw new Error(`${JSON.stringify(where)}: ${error.message}`, { cause: error });
        });
        cells.push({ ...where, ...result });
        say(
          `round ${round} of ${rounds}  ${load}  ${count} connections  ${server.name}  ` +
            `${animals} animals  ${Math.round(result.perSecond)} requests/s`,
        );
      }
    }
  }
  return cells;
}

/** Each server goes first in its turn. */
function rotated(list, by) {
  return list.map((_, i) => list[(i + by) % list.length]);
}

/** One load on one server, with the CPU seconds that it cost per 1,000 requests. */
async function measureCell({ url, pid, database }, { load, connections, warmUp, seconds, seed }) {
  const { animals, key, cursorsFile } = database;
  const run = { load, connections, url, key, animals, cursorsFile, signal: stopping.signal };
  try {
    if (warmUp > 0) {
      await runWrk({ ...run, seconds: warmUp, seed: seed + 1000 });
    }
    const before = await cpu(pid, database.pid);
    const result = await runWrk({ ...run, seconds, seed });
    if (result.requests === 0) {
      throw new Error('No request was answered in time');
    }
    const after = await cpu(pid, database.pid);
    const perThousand = (name) => ((after[name] - before[name]) / result.requests) * 1000;
    return CAN_READ_PROCESSES
      ? { ...result, serverCpu: perThousand('server'), postgresCpu: perThousand('postgres') }
      : result;
  } finally {
    if (LOADS[load].creates) {
      await database.restore();
    }
  }
}

async function cpu(serverPid, postgresPid) {
  return CAN_READ_PROCESSES
    ? {
        server: await cpuSeconds(serverPid),
        postgres: await postgresCpuSeconds(postgresPid),
      }
    : {};
}

function readOptions() {
  try {
    const { values } = parseArgs({
      options: {
        animals: { type: 'string', default: '100000' },
        'shared-buffers': { type: 'string', default: '128MB' },
        rounds: { type: 'string' },
        seconds: { type: 'string', default: '5' },
        'warm-up': { type: 'string', default: '1' },
        connections: { type: 'string', default: '1,64,512' },
        loads: { type: 'string', default: Object.keys(LOADS).join() },
        only: { type: 'string', default: DEFAULT_SERVERS.join() },
        against: { type: 'string' },
        json: { type: 'string' },
        report: { type: 'string' },
      },
    });
    return {
      animals: values.animals.split(',').map((text) => wholeNumber(text, 1000)),
      sharedBuffers: values['shared-buffers'],
      rounds: wholeNumber(values.rounds ?? (values.against === undefined ? '3' : '40'), 1),
      seconds: wholeNumber(values.seconds, 1),
      warmUp: wholeNumber(values['warm-up'], 0),
      connections: values.connections.split(',').map((text) => wholeNumber(text, 1)),
      loads: chosen(values.loads, LOADS),
      servers:
        values.against === undefined ? chosen(values.only, SERVERS) : ['service', values.against],
      against: values.against,
      json: values.json,
      report: values.report,
    };
  } catch (error) {
    const { message, cause } = /** @type {Error} */ (error);
    throw new Error(`${message}\n\n${USAGE}`, { cause });
  }
}

function wholeNumber(text, least) {
  if (!/^\d{1,8}$/.test(text) || Number(text) < least) {
    throw new Error(`${text} is not a whole number from ${least}`);
  }
  return Number(text);
}

/** Names as listed in `from`, in its order. */
function chosen(text, from) {
  const names = text.split(',');
  const unknown = names.filter((name) => !Object.hasOwn(from, name));
  if (unknown.length > 0) {
    throw new Error(`${unknown.join()} is none of ${Object.keys(from).join()}`);
  }
  return Object.keys(from).filter((name) => names.includes(name));
}

async function describeMachine() {
  const release = await readFile('/etc/os-release', 'utf8').catch(() => '');
  const [, name = os.type()] = /^PRETTY_NAME="?([^"\n]*)/m.exec(release) ?? [];
  return {
    cpu: os.cpus()[0].model.trim(),
    cores: os.availableParallelism(),
    memory: `${Math.round(os.totalmem() / 2 ** 30)} GiB`,
    system: `${name}, kernel ${os.release()}`,
  };
}

/** Programs, and libraries as the service has them, or else the peers. */
async function readVersions(programs) {
  const versions = { 'Node.js': process.versions.node, ...programs };
  for (const name of ['@nestjs/core', 'express', 'fastify', 'typeorm', 'pg', 'pino']) {
    const [service, peers] = await Promise.all([
      installedVersion(`../node_modules/${name}`),
      installedVersion(`node_modules/${name}`),
    ]);
    const differ = service !== undefined && service !== peers;
    versions[name] = differ ? `${service} (peers ${peers})` : peers;
  }
  return versions;
}

async function installedVersion(folder) {
  const file = new URL(`${folder}/package.json`, import.meta.url);
  return existsSync(file) ? JSON.parse(await readFile(file, 'utf8')).version : undefined;
}

function say(...words) {
  console.error(...words);
}
