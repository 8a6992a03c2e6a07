import { Client } from 'pg';
import { query } from './ask.js';

/**
 * The URL of a database with the extension citus on the coordinator of a cluster, whose role may create databases on
 * every node. The tests that need it are skipped if it is not set, also in CI: Citus is not part of PostgreSQL.
 */
export const CITUS_URL = process.env['TEST_CITUS_URL'];

/** Whether all tests run there. */
const isOnCitus = CITUS_URL !== undefined && process.env['TEST_DATABASE_URL'] === CITUS_URL;

type Block = [title: string, body: () => any];

/** Skipped on Citus, which lacks triggers, foreign keys to pets and `skip locked`, and gets other statements. */
export const describeNotOnCitus = (...block: Block) =>
  (isOnCitus ? describe.skip : describe)(...block);

/** The name of its database. */
const OWN = CITUS_URL === undefined ? '' : new URL(CITUS_URL).pathname.slice(1);

interface Node {
  /** Of the database with this name on this node. */
  url: (database: string) => string;
  address: string;
}

/** Of the cluster of {@link CITUS_URL}, the coordinator first. */
export async function nodes(): Promise<[Node, ...Node[]]> {
  const rows = await query(
    CITUS_URL!,
    'select nodename as hostname, nodeport::text as port from pg_dist_node order by groupid',
  );
  return rows.map(({ hostname, port }) => ({
    url: (database: string) =>
      Object.assign(new URL(CITUS_URL!), { hostname, port, pathname: `/${database}` }).href,
    address: `'${hostname}', ${port}`,
  })) as [Node, ...Node[]];
}

/** Creates the database on each node. @returns its URL on the coordinator. */
export async function createOnCitus(database: string): Promise<string> {
  // Adding a node alters its roles. Citus cannot do that for two databases at once.
  const lock = new Client({ connectionString: CITUS_URL });
  await lock.connect();
  try {
    await lock.query('select pg_advisory_lock(1)');
    const [coordinator, ...workers] = await nodes();
    for (const { url } of [coordinator, ...workers]) {
      await query(url(OWN), 'set client_min_messages = warning', `create database ${database}`);
      await query(url(database), 'create extension citus');
    }
    await query(
      coordinator.url(database),
      `select citus_set_coordinator_host(${coordinator.address})`,
      ...workers.map(({ address }) => `select citus_add_node(${address})`),
    );
    return coordinator.url(database);
  } finally {
    await lock.end();
  }
}

export async function dropOnCitus(database: string): Promise<void> {
  for (const { url } of await nodes()) {
    await query(url(OWN), `drop database if exists ${database} with (force)`);
  }
}
