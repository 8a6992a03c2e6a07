import { Client } from 'pg';
import { migrations } from '../../migrations/index.js';
import type { Migration } from '../../migrations/migration.js';
import { createDatabase, dropDatabase } from '../support/service.js';

type Way = 'up' | 'down';

/** Table locks that keep somebody's writes waiting, weakest first: as pg_locks and as a migration names them. */
const MODES = [
  ['ShareLock', 'SHARE'],
  ['ShareRowExclusiveLock', 'SHARE ROW EXCLUSIVE'],
  ['ExclusiveLock', 'EXCLUSIVE'],
  ['AccessExclusiveLock', 'ACCESS EXCLUSIVE'],
] as const;

const TABLES = `
  select oid, relname as name, relfilenode as file,
         array(select attname::text from pg_attribute
                where attrelid = pg_class.oid and attnum > 0 and not attisdropped) as columns
    from pg_class
   where relkind = 'r' and relnamespace = 'public'::regnamespace`;

describe('a migration', () => {
  let url: string;
  let client: Client;
  beforeAll(async () => {
    url = await createDatabase();
    client = new Client({ connectionString: url });
    await client.connect();
  });
  afterAll(async () => {
    await client.end();
    await dropDatabase(url);
  });

  /** What a migration does to the tables that exist before. It is done in a transaction, which stays open. */
  async function effects(migration: Partial<Migration>, way: Way) {
    await client.query('begin');
    const { rows: before } = await client.query(TABLES);
    await migration[way]!(client);
    const { rows: after } = await client.query(TABLES);
    const { rows: taken } = await client.query(
      `select relation, mode from pg_locks where pid = pg_backend_pid() and relation = any ($1::oid[])`,
      [before.map(({ oid }) => oid)],
    );
    const locks: Record<string, string> = {};
    // A statement that needs the strongest lock may have taken a weaker one before.
    for (const [mode, name] of MODES) {
      for (const { relation } of taken.filter((it) => it.mode === mode)) {
        locks[before.find(({ oid }) => oid === relation).name] = name;
      }
    }
    const drops: string[] = [];
    const rewrites: string[] = [];
    for (const { oid, name, file, columns } of before) {
      const now = after.find((it) => it.oid === oid);
      if (now === undefined) {
        drops.push(name);
        continue;
      }
      if (now.file !== file) {
        rewrites.push(name);
      }
      const dropped = columns.filter((column: string) => !now.columns.includes(column));
      drops.push(...dropped.map((column: string) => `${name}.${column}`));
    }
    return { locks, rewrites, drops };
  }

  function declared({ locks, rewrites, drops }: Partial<Migration>, way: Way) {
    return {
      locks: locks?.[way] ?? {},
      rewrites: [...(rewrites?.[way] ?? [])],
      drops: way === 'down' ? drops : [],
    };
  }

  /** The statements of a migration outside a transaction, which no test can look into. */
  async function statements(migration: Migration, way: Way): Promise<string[]> {
    const sent: string[] = [];
    await migration[way]({ query: async (sql) => sent.push(sql.trim()) });
    return sent;
  }

  const CONCURRENT = {
    up: [expect.stringMatching(/^create (unique )?index concurrently (?!if not exists)\w+ on /)],
    down: [expect.stringMatching(/^drop index concurrently if exists \w+$/)],
  };

  it('takes the locks, writes the tables anew and drops the tables that it names', async () => {
    for (const [way, each] of [
      ...migrations.map((it) => ['up', it] as const),
      ...migrations.toReversed().map((it) => ['down', it] as const),
    ]) {
      expect(each.purpose).toMatch(/^[A-Z].+\.$/);
      if (each.transaction === false) {
        expect(await statements(each, way)).toEqual(CONCURRENT[way]);
        await each[way](client);
      } else {
        expect([each.name, way, await effects(each, way)]).toEqual([
          each.name,
          way,
          declared(each, way),
        ]);
        await client.query('commit');
      }
    }
  });
});
