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

/** Of the cluster of {@link CITUS_URL}, the coordinator first. `url` is that of the database with a name on this node. */
async function nodes() {
  const rows = await query(
    CITUS_URL!,
    'select nodename as hostname, nodeport::text as port from pg_dist_node order by groupid',
  );
  return rows.map(({ hostname, port }) => ({
    url: (database: string) =>
      Object.assign(new URL(CITUS_URL!), { hostname, port, pathname: `/${database}` }).href,
    address: `'${hostname}', ${port}`,
  }));
}

/** Creates the database on each node; not two at once. @returns its URL on the coordinator. */
export async function createOnCitus(database: string): Promise<string> {
  const [coordinator, ...workers] = await nodes();
  for (const { url } of [coordinator!, ...workers]) {
    await query(url(OWN), 'set client_min_messages = warning', `create database ${database}`);
    await query(url(database), 'create extension citus');
  }
  const created = coordinator!.url(database);
  await query(
    created,
    `select citus_set_coordinator_host(${coordinator!.address})`,
    ...workers.map(({ address }) => `select citus_add_node(${address})`),
  );
  return created;
}

export async function dropOnCitus(database: string): Promise<void> {
  for (const { url } of await nodes()) {
    await query(url(OWN), `drop database if exists ${database} with (force)`);
  }
}
