/**
 * node bench/databases.js NAME=URL … : what a request costs the service and each server of its database, in µs of CPU time.
 * docs/scaling.md quotes it. Each URL names an empty database, with a superuser, of a server on this machine: PostgreSQL
 * itself, the coordinator of Citus with its nodes, or PRIMARY+STANDBY. All are measured in turns, with 64 connections.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { administerKeys } from '../dist/src/auth/api-keys.js';
import { runMigrations } from '../dist/src/schema/migrations.js';
import { SEED, writeCursors } from './database.js';
import { cpuSeconds, postgresCpuSeconds, startServer } from './servers.js';
import { runWrk } from './wrk.js';

const ANIMALS = 100_000;
const ROUNDS = 3;
const LOADS = ['create', 'get-random', 'list-cursor'];

const folder = await mkdtemp(join(tmpdir(), 'animal-store-databases-'));
const databases = [];
try {
  for (const argument of process.argv.slice(2)) {
    const [, name, url, readUrl] = /^([^=]+)=([^+]+)\+?(.*)$/.exec(argument) ?? [];
    databases.push({ name, readUrl, ...(await prepare(url, readUrl)) });
  }
  for (let round = 0; round < ROUNDS; round += 1) {
    for (const load of LOADS) {
      for (const database of databases) {
        console.log(await measure(database, load, round));
      }
    }
  }
} finally {
  await Promise.all(databases.map(({ server }) => server.stop()));
  await rm(folder, { recursive: true, force: true });
}

async function prepare(url, readUrl) {
  await runMigrations(url);
  const { key } = await administerKeys(url, (keys) => keys.issue('bench'));
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    await client.query(SEED, [ANIMALS]);
    await client.query('vacuum analyze pets');
    const cursorsFile = await writeCursors(folder, client, ANIMALS);
    const isCitus = (await client.query(`select to_regclass('pg_dist_node') is not null as it`))
      .rows[0].it;
    const nodes = isCitus
      ? (await client.query('select nodename, nodeport from pg_dist_node order by nodeid')).rows
      : [];
    const urls = [
      ...(isCitus ? [] : [url]),
      ...(readUrl ? [readUrl] : []),
      ...nodes.map(
        ({ nodename: hostname, nodeport }) =>
          Object.assign(new URL(url), { hostname, port: String(nodeport) }).href,
      ),
    ];
    const pids = await Promise.all(urls.map(postmasterOf));
    const server = await startServer('service', { databaseUrl: url, readUrl, key });
    return { key, cursorsFile, pids, server };
  } finally {
    await client.end();
  }
}

/** The first line of its file is its process id. */
async function postmasterOf(url) {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  const { rows } = await client.query(
    `select split_part(pg_read_file('postmaster.pid'), e'\\n', 1)::int as pid`,
  );
  await client.end();
  return rows[0].pid;
}

/** @returns a line: the round, the load, requests per second, and µs of the service and of each server per request. */
async function measure({ name, key, cursorsFile, pids, server }, load, round) {
  const used = () => Promise.all([cpuSeconds(server.pid), ...pids.map(postgresCpuSeconds)]);
  const run = {
    url: server.url,
    key,
    load,
    connections: 64,
    seed: round,
    animals: ANIMALS,
    cursorsFile,
    signal: new AbortController().signal,
  };
  await runWrk({ ...run, seconds: 2 });
  const before = await used();
  const { requests, perSecond } = await runWrk({ ...run, seconds: 10 });
  const micros = (await used()).map((seconds, i) => ((seconds - before[i]) / requests) * 1e6);
  return [round, load, name, Math.round(perSecond), ...micros.map((each) => each.toFixed(1))].join(
    '\t',
  );
}
