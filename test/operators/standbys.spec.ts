import { administerKeys } from '../../src/auth/api-keys.js';
import { runMigrations } from '../../src/schema/migrations.js';
import { Cursors } from '../../src/listing/cursors.js';
import { ask } from '../support/ask.js';
import { Postgres, systemBinaries } from '../support/postgres.js';
import { freePort } from '../../scripts/free-port.mjs';
import { FULL_LENGTH } from '../support/full-length.js';
import { Project } from '../support/project.js';
import { until } from '../support/until.js';

const BINARIES = await systemBinaries();

const CLIENTS = FULL_LENGTH ? 100 : 20;
/** Animals of each client while the standbys are as they are, six times. */
const ROUNDS = 10;

interface Process {
  base: string;
  metrics: string;
}

// A developer's machine may have no PostgreSQL of its own; in CI, where these tests must run, systemBinaries() fails then.
(BINARIES === undefined ? describe.skip : describe)('two processes that read on standbys', () => {
  let project: Project;
  let primary: Postgres;
  let standbys: [Postgres, Postgres];
  let processes: Process[];
  let headers: Record<string, string>;

  beforeAll(async () => {
    project = await Project.create();
    primary = await Postgres.start(['wal_keep_size=1GB'], BINARIES!);
    standbys = [await primary.standby(), await primary.standby()];
    await runMigrations(primary.url);
    const { key } = await administerKeys(primary.url, (keys) => keys.issue('test'));
    headers = { Authorization: `Bearer ${key}`, 'Content-Type': 'application/json' };
    const hosts = standbys.map(({ port }) => `127.0.0.1:${port}`).join();
    const DATABASE_READ_URL = primary.url.replace(/@[^/]*/, `@${hosts}`);
    const start = async (): Promise<Process> => {
      const METRICS_PORT = String(await freePort());
      const variables = { DATABASE_URL: primary.url, DATABASE_READ_URL, METRICS_PORT };
      const { base } = await project.serve(variables);
      return { base, metrics: `http://127.0.0.1:${METRICS_PORT}/metrics` };
    };
    processes = [await start(), await start()];
  }, 60_000);
  afterAll(async () => {
    await project?.remove();
    await Promise.all((standbys ?? []).map((standby) => standby.stop()));
    await primary?.stop();
  });

  const create = async ({ base }: Process): Promise<number> => {
    const body = JSON.stringify({ name: 'Rex', categoryId: 1 });
    const response = await fetch(`${base}/pets`, { method: 'POST', headers, body });
    expect(response.status).toBe(201);
    return ((await response.json()) as { id: number }).id;
  };
  const expectListed = async ({ base }: Process, id: number) => {
    const page = `limit=1&cursor=${new Cursors('pets').after(BigInt(id - 1))}`;
    const paths = [`pets?${page}`, `pets?${page}&status=available`, `pets/${id}`];
    const read = async (path: string) => {
      const response = await fetch(`${base}/${path}`, { headers });
      const body = (await response.json()) as { id?: number } & { id?: number }[];
      return [response.status, body[0]?.id ?? body.id];
    };
    expect(await Promise.all(paths.map(read))).toEqual(paths.map(() => [200, id]));
  };
  const inUse = (count: number) =>
    until(`${count} standbys are in use`, async () => {
      const ready = ({ base }: Process) => fetch(new URL('/health/ready', base));
      const responses = await Promise.all(processes.map(ready));
      const states = (await Promise.all(responses.map((response) => response.json()))) as any[];
      return states.every(({ standbysInUse }) => standbysInUse === count);
    });
  const readsOnStandbys = async ({ metrics }: Process) => {
    const text = await (await fetch(metrics)).text();
    return Number(/^animal_store_database_reads_total\{server="standby"\} (\d+)$/m.exec(text)?.[1]);
  };
  const pets = async (): Promise<number> =>
    (await ask(primary.url, 'select count(*)::int from pets')).count;

  it('miss no animal and cost no error while standbys are paused, killed and promoted', async () => {
    const [first, second] = standbys;
    let created = 0;
    let isOver = false;
    const client = async (turn: number) => {
      for (; !isOver; turn += 1) {
        const id = await create(processes[turn % 2]!);
        await expectListed(processes[(turn + 1) % 2]!, id);
        created += 1;
      }
    };
    /** {@link ROUNDS} of all clients once `count` standbys are in use. */
    const withStandbys = async (count: number) => {
      await inUse(count);
      const end = created + CLIENTS * ROUNDS;
      await until('the clients went on', () => created >= end);
    };
    const events = async () => {
      await withStandbys(2);
      first.pause();
      await withStandbys(1);
      first.resume();
      await withStandbys(2);
      await second.kill();
      await withStandbys(1);
      await second.launch();
      await withStandbys(2);
      await ask(first.url, 'select pg_promote()');
      await ask(
        first.url,
        `insert into pets (name, category_id) select 'not of the primary', 1 from generate_series(1, 1000)`,
      );
      await withStandbys(1);
      isOver = true;
    };
    const clients = Array.from({ length: CLIENTS }, (_, turn) => client(turn));
    try {
      await Promise.all([events(), ...clients]);
    } finally {
      isOver = true;
      await Promise.allSettled(clients);
    }
    for (const one of processes) {
      expect(await readsOnStandbys(one)).toBeGreaterThan(0);
    }
    expect(await pets()).toBe(created);
  }, 600_000);
});
