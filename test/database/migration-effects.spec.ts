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

const TABLES = `select oid, relname, relfilenode from pg_class where relkind = 'r' and relnamespace = 'public'::regnamespace`;

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

  /** @returns each column, named `table.column`. */
  async function columnsOf(tables: { oid: number }[]): Promise<{ table: number; name: string }[]> {
    const { rows } = await client.query(
      `select attrelid as table, relname || '.' || attname as name from pg_attribute join pg_class on pg_class.oid = attrelid
        where attrelid = any ($1::oid[]) and attnum > 0 and not attisdropped`,
      [tables.map(({ oid }) => oid)],
    );
    return rows;
  }

  /** What a migration does to the tables that exist before. It is done in a transaction, which stays open. */
  async function effects(migration: Pick<Migration, Way>, way: Way) {
    await client.query('begin');
    const { rows: before } = await client.query(TABLES);
    const columns = await columnsOf(before);
    await migration[way](client);
    const { rows: after } = await client.query(TABLES);
    const remaining = await columnsOf(before);
    const { rows: taken } = await client.query(
      `select relation, mode from pg_locks where pid = pg_backend_pid() and relation = any ($1::oid[])`,
      [before.map(({ oid }) => oid)],
    );
    const locks: Record<string, string> = {};
    // A statement that needs the strongest lock may have taken a weaker one before.
    for (const [mode, name] of MODES) {
      for (const { relation } of taken.filter((it) => it.mode === mode)) {
        locks[before.find(({ oid }) => oid === relation).relname] = name;
      }
    }
    const afterwards = (oid: number) => after.find((it) => it.oid === oid);
    const kept = before.filter(({ oid }) => afterwards(oid) !== undefined);
    const names = (rows: { relname: string }[]) => rows.map(({ relname }) => relname);
    return {
      locks,
      rewrites: names(
        kept.filter(({ oid, relfilenode }) => afterwards(oid).relfilenode !== relfilenode),
      ),
      drops: [
        ...names(before.filter((it) => !kept.includes(it))),
        // The columns of a dropped table are dropped with it.
        ...columns
          .filter(({ table }) => afterwards(table))
          .filter(({ name }) => !remaining.some((it) => it.name === name))
          .map(({ name }) => name),
      ],
    };
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
    const all = migrations.map((Each) => new Each());
    for (const [way, each] of [
      ...all.map((it) => ['up', it] as const),
      ...all.toReversed().map((it) => ['down', it] as const),
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

  describe('is rejected by that test', () => {
    beforeAll(async () => {
      for (const Each of migrations) {
        await new Each().up(client);
      }
    });
    afterEach(() => client.query('rollback'));

    const LOCK = { locks: { up: { pets: 'ACCESS EXCLUSIVE' as const }, down: {} } };
    const effectsOfSql = (sql: string) =>
      effects(
        { up: async (session) => void (await session.query(sql)), down: async () => {} },
        'up',
      );

    it.each([
      ['blocks writes for an index', 'create index on pets (name)', {}],
      ['adds a column', 'alter table pets add column added text', {}],
      ['rewrites rows', 'alter table pets alter column category_id type numeric', LOCK],
      ['locks a table alone', 'lock table orders in exclusive mode', {}],
      ['drops a table', 'drop table orders', {}],
      ['drops a column', 'alter table pets drop column status', LOCK],
    ])('if it %s and does not say so', async (_title, sql, said) => {
      expect(await effectsOfSql(sql)).not.toEqual(declared(said, 'up'));
    });

    it('but not if it says so', async () => {
      const said = { ...LOCK, rewrites: { up: ['pets'] } };
      const sql = 'alter table pets alter column category_id type numeric';
      expect(await effectsOfSql(sql)).toEqual(declared(said, 'up'));
    });
  });
});
