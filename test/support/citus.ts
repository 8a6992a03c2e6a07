import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { query } from './ask.js';

/** The cluster that `CITUS_URL` names, in `npm run test:citus`; else there is none. */
export const isOnCitus = () => process.env['TEST_ENGINE'] === 'citus';

/** @returns the URLs of the database at `url` on the workers of the cluster; none without a cluster. */
export async function workersOf(url: string): Promise<string[]> {
  if (!isOnCitus()) {
    return [];
  }
  const nodes = await query(
    process.env['CITUS_URL']!,
    'select nodename, nodeport from pg_dist_node where groupid > 0 order by nodeid',
  );
  return nodes.map(({ nodename, nodeport }) => {
    const worker = Object.assign(new URL(url), { hostname: nodename, port: String(nodeport) });
    return worker.href;
  });
}

/** Creates the extension in the database at `url`, on each node, and adds the nodes. */
export async function createExtension(url: string): Promise<void> {
  const workers = await workersOf(url);
  const add = [url, ...workers].map((node, i) => {
    const { hostname, port } = new URL(node);
    const call = i === 0 ? 'citus_set_coordinator_host' : 'citus_add_node';
    return `select ${call}('${hostname}', ${port})`;
  });
  for (const node of [...workers, url]) {
    await query(node, 'create extension citus');
  }
  await query(url, ...add);
}

const [STOP, START] = [process.env['CITUS_STOP'], process.env['CITUS_START']];

/** Whether nodes can be stopped and started. */
export const canStopNodes = isOnCitus() && STOP !== undefined && START !== undefined;

/** Stops the node at `url`, as its command does, which may be `kill -9`. */
export const stopNode = (url: string) => command(STOP!, url);

/** Returns once the node accepts connections. */
export const startNode = (url: string) => command(START!, url);

async function command(text: string, url: string): Promise<void> {
  await promisify(execFile)('sh', ['-c', `${text} ${new URL(url).port}`]);
}
