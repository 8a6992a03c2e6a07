import { execFileSync, spawn } from 'node:child_process';
import { closeSync, openSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { postgresAccount } from '../../src/embedded-postgres/account.js';
import { walk } from '../support/answers.js';
import { query } from '../support/ask.js';
import { CITUS_FOLDERS, CITUS_URL, nodes } from '../support/citus.js';
import { FULL_LENGTH } from '../support/full-length.js';
import { until } from '../support/until.js';
import { createMigratedDatabase, startService, type TestService } from '../support/service.js';

if (CITUS_URL === undefined || CITUS_FOLDERS === undefined) {
  console.warn(
    'Crashes of Citus are not tested: TEST_CITUS_URL or TEST_CITUS_FOLDERS names no server.',
  );
}

const KILLS = FULL_LENGTH ? 12 : 4;
const CLIENTS = 8;

// Citus is not part of PostgreSQL, and CI has none: there, citus-forms.spec.ts tests its statements on PostgreSQL.
(CITUS_URL === undefined || CITUS_FOLDERS === undefined ? describe.skip : describe)(
  'on Citus, after kills -9 of the coordinator and a worker in turns under load',
  () => {
    let service: TestService;
    /** The names of acknowledged animals, by id. */
    const acknowledged = new Map<string, string>();
    /** Those that were sent with a key, again and again until they were acknowledged. */
    const keyed = new Set<string>();
    const refusals: string[] = [];
    beforeAll(async () => {
      service = await startService({}, await createMigratedDatabase(CITUS_URL));
      const end = new AbortController();
      const clients = Array.from({ length: CLIENTS }, (_, client) => load(client, end.signal));
      try {
        for (let kill = 0; kill < KILLS; kill += 1) {
          await untilMore();
          await killAndRestart(CITUS_FOLDERS![kill % CITUS_FOLDERS!.length]!);
        }
        await untilMore();
      } finally {
        end.abort();
        await Promise.all(clients);
      }
      await recover();
    });
    afterAll(() => service.stop());

    async function untilMore(): Promise<void> {
      const before = acknowledged.size;
      await until('animals are created', () => acknowledged.size >= before + 50);
    }

    async function load(client: number, end: AbortSignal): Promise<void> {
      for (let n = 0; !end.aborted; n += 1) {
        const name = `${client % 2 === 0 ? 'keyed' : 'plain'}-${client}-${n}`;
        if (client % 2 === 0) {
          let isDone = false;
          while (!isDone && !end.aborted) {
            isDone = await create(name, { 'Idempotency-Key': name });
          }
          if (isDone) {
            keyed.add(name);
          }
        } else {
          await create(name, {});
        }
      }
    }

    /** @returns whether it was acknowledged. */
    async function create(name: string, headers: Record<string, string>): Promise<boolean> {
      const { status, text } = await service.api
        .post('/v1/pets')
        .set(headers)
        .send({ name, categoryId: 1 });
      if (status === 201) {
        acknowledged.set(/"id":(\d+)/.exec(text)![1]!, name);
      } else if (status !== 503 && status !== 409) {
        refusals.push(`${status} ${text}`);
      }
      return status === 201;
    }

    /** Commits or rolls back what the crashes left between the two phases, as Citus does each minute. */
    async function recover(): Promise<void> {
      const name = new URL(service.databaseUrl).pathname.slice(1);
      await query(service.databaseUrl, 'select recover_prepared_transactions()');
      for (const { url } of await nodes()) {
        expect(
          await query(
            url(name),
            'select gid from pg_prepared_xacts where database = current_database()',
          ),
        ).toEqual([]);
      }
    }

    it('all that was acknowledged is there, in gets and lists', async () => {
      const pages = await walk(service, '/v1/pets?limit=100');
      const listed = new Map(
        pages.flatMap(({ text }) =>
          [...text.matchAll(/"id":(\d+),"name":"([^"]+)"/g)].map(
            ([, id, name]) => [id!, name!] as const,
          ),
        ),
      );
      expect(acknowledged.size).toBeGreaterThan(KILLS * 50);
      expect([...acknowledged].filter(([id, name]) => listed.get(id) !== name)).toEqual([]);
      for (const [id, name] of [...acknowledged].filter((_, n) => n % 20 === 0)) {
        expect((await service.api.get(`/v1/pets/${id}`).expect(200)).body.name).toBe(name);
      }
    });

    it('each key has created one animal, and no animal with a key lacks it', async () => {
      const pets = await service.query(`select id, name from pets where name like 'keyed%'`);
      const keys = await service.query('select key as name, pet_id as id from idempotency_keys');
      const sorted = (rows: { id: string; name: string }[]) =>
        rows.map(({ id, name }) => `${name} ${id}`).toSorted();
      expect(sorted(keys)).toEqual(sorted(pets));
      expect(new Set(pets.map(({ name }) => name)).size).toBe(pets.length);
      expect(keyed.size).toBeGreaterThan(KILLS * 10);
      expect([...keyed].filter((name) => !pets.some((pet) => pet.name === name))).toEqual([]);
    });

    it('no animal without a key was created twice', async () => {
      const names = (await service.query(`select name from pets where name like 'plain%'`)).map(
        ({ name }) => name,
      );
      expect(names.length).toBeGreaterThan(KILLS * 10);
      expect(new Set(names).size).toBe(names.length);
    });

    it('requests were rejected with 503 or 409 only', () => {
      expect(refusals).toEqual([]);
    });
  },
);

/** Kills a server and its sessions, and starts it again with the command that it was started with. */
async function killAndRestart(folder: string): Promise<void> {
  const [postmaster] = (await readFile(join(folder, 'postmaster.pid'), 'utf8')).split('\n');
  const children = execFileSync('pgrep', ['-P', postmaster!], { encoding: 'utf8' });
  const pids = [postmaster!, ...children.trim().split('\n')].map(Number);
  pids.forEach((pid) => signal(pid, 'SIGKILL'));
  // PostgreSQL does not start while one of them exists.
  await until('they are gone', () => pids.every((pid) => !signal(pid, 0)));
  const options = await readFile(join(folder, 'postmaster.opts'), 'utf8');
  const [program, ...args] = [...options.matchAll(/"([^"]*)"|(\S+)/g)].map(
    ([, quoted, bare]) => quoted ?? bare!,
  );
  const { ids } = await postgresAccount(folder);
  const log = openSync(`${folder}.log`, 'a');
  spawn(program!, args, {
    cwd: folder,
    env: { PATH: process.env['PATH'], LC_ALL: 'C', TZ: 'UTC' },
    stdio: ['ignore', log, log],
    detached: true,
    ...ids,
  }).unref();
  closeSync(log);
  await until('the server is started', async () => {
    const lines = await readFile(join(folder, 'postmaster.pid'), 'utf8').catch(() => '');
    const [pid, , , , , , , status] = lines.split('\n');
    return pid !== postmaster && status?.trim() === 'ready';
  });
}

/** @returns whether there is such a process. */
function signal(pid: number, name: NodeJS.Signals | 0): boolean {
  try {
    return process.kill(pid, name);
  } catch {
    return false;
  }
}
