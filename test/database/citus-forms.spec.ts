import type { Pool } from 'pg';
import type { DataSource } from 'typeorm';
import { CITUS } from '../../src/citus/citus.js';
import { connectService } from '../../src/cli/serving-database.js';
import { readEnvironment } from '../../src/config/environment.js';
import { poolOf, servingDataSource } from '../../src/database/data-source.js';
import { run, type Statement } from '../../src/database/statement.js';
import { OperatorError } from '../../src/errors/operator-error.js';
import { INT64_MAX, INT64_MIN } from '../../src/int64.js';
import { ORDER_PAGES } from '../../src/orders/orders.sql.js';
import type { NewPet } from '../../src/pets/new-pet.dto.js';
import {
  DELETE_OLD_IDEMPOTENCY_KEYS,
  INSERT_PETS,
  INSERT_PETS_ONCE,
  newPetArguments,
  newPetJson,
  PET_JSON,
  PET_PAGES,
  PET_PAGES_OF_STATUS,
  PETS_BY_IDEMPOTENCY_KEY,
} from '../../src/pets/pets.sql.js';
import { query } from '../support/ask.js';
import { fullPet } from '../support/full-pet.js';
import { createMigratedDatabase, dropDatabase } from '../support/service.js';

/** Citus is not needed: its statements also run on PostgreSQL alone. test/database/citus.e2e-spec.ts runs them there. */
describe('the form for Citus', () => {
  let url: string;
  let dataSources: DataSource[];
  let plain: Pool;
  let citus: Pool;
  beforeAll(async () => {
    url = await createMigratedDatabase();
    dataSources = await Promise.all(
      [{}, CITUS].map((engine) => servingDataSource(url, 2, engine).initialize()),
    );
    [plain, citus] = dataSources.map(poolOf) as [Pool, Pool];
    await plain.query(
      `insert into pets (name, category_id, status)
       select 'Rex "' || n, n, case when n % 3 = 0 then 'sold' else 'pending' end from generate_series(1, 100) as n`,
    );
    await plain.query('insert into orders (pet_id) select n from generate_series(1, 100) as n');
    await plain.query(`insert into api_keys (name, hash) values ('test', sha256('test'))`);
  });
  afterAll(async () => {
    await Promise.all(dataSources.map((one) => one.destroy()));
    await dropDatabase(url);
  });

  const sorted = (rows: unknown[][]) => rows.toSorted((a, b) => (String(a) < String(b) ? -1 : 1));

  it.each([
    ['PET_PAGES', PET_PAGES, null],
    ['PET_PAGES_OF_STATUS', PET_PAGES_OF_STATUS, 'sold'],
    ['ORDER_PAGES', ORDER_PAGES, null],
  ])('of %s returns what the statement returns', async (_name, statement, filter) => {
    for (const count of [1, 2, 3, 32, 33, 100]) {
      const all = Array.from({ length: count }, (_, n) => n);
      const values = [
        all.map(String),
        all.map(() => filter),
        all.map((n) => (n === 0 ? INT64_MIN : n * 2)),
        all.map((n) => (n % 10) + 1),
      ];
      const rows = sorted(await run(citus, statement, values));
      expect(rows).toHaveLength(count);
      expect(rows).toEqual(sorted(await run(plain, statement, values)));
    }
  });

  const PETS: NewPet[] = [
    fullPet(1, { name: 'a\n"\\\u2028\u0001\u007f', categoryId: INT64_MIN, status: 'pending' }),
    fullPet(2, { name: '👩‍👩‍👧', categoryId: INT64_MAX, status: 'sold' }),
    { name: 'Rex', categoryId: 0n, status: 'available' },
  ];

  /** @returns the JSON of stored pets, in the order of `ids`, each without its id. */
  const stored = async (ids: unknown[]) => {
    const { rows } = await plain.query(
      `select ${PET_JSON} as json from unnest($1::bigint[]) with ordinality as wanted (id, n)
         join pets using (id) order by n`,
      [ids],
    );
    return rows.map(({ json }) => json.replace(/"id":\d+,/, ''));
  };
  const EXPECTED = PETS.map((pet) => newPetJson('', pet).replace('"id":,', ''));

  it.each<[string, () => Pool]>([
    ['the form', () => citus],
    ['the statement', () => plain],
  ])('of INSERT_PETS: %s stores each pet, and finds it by its position', async (_title, pool) => {
    const rows = sorted(await run(pool(), INSERT_PETS, newPetArguments(PETS)));
    expect(rows.map(([position]) => position)).toEqual([1, 2, 3]);
    expect(await stored(rows.map(([, id]) => id))).toEqual(EXPECTED);
  });

  const once = async (pool: Pool, keys: string[]) =>
    sorted(
      await run<unknown[]>(pool, INSERT_PETS_ONCE, [
        keys.map(() => '1'),
        keys,
        keys.map((_key, n) => `0${n}`.repeat(32)),
        ...newPetArguments(PETS),
      ]),
    );
  const find = async (pool: Pool, keys: string[]) =>
    sorted(await run(pool, PETS_BY_IDEMPOTENCY_KEY, [keys.map(() => '1'), keys]));

  it('of INSERT_PETS_ONCE and PETS_BY_IDEMPOTENCY_KEY store and return what the statements do', async () => {
    for (const [writer, other, prefix] of [
      [citus, plain, 'c'],
      [plain, citus, 'p'],
    ] as const) {
      const keys = PETS.map((_pet, n) => `${prefix}-${n}`);
      const rows = await once(writer, keys);
      expect(rows).toEqual(PETS.map((_pet, n) => [n + 1, true, expect.any(String), true]));
      const ids = rows.map(([, , id]) => id);
      expect(await stored(ids)).toEqual(EXPECTED);
      // The keys have their pets now, in both forms.
      for (const pool of [writer, other]) {
        expect((await once(pool, keys)).map((row) => row.slice(0, 3))).toEqual(
          PETS.map((_pet, n) => [n + 1, null, null]),
        );
        expect(await find(pool, ['unknown', ...keys.toReversed()])).toEqual(
          ids
            .map((id, n) => [n, id] as const)
            .toReversed()
            .map(([n, id], i) => [i + 2, `0${n}`.repeat(32), id, newPetJson(String(id), PETS[n]!)]),
        );
      }
    }
  });

  it('of INSERT_PETS_ONCE replaces a record of 24 hours, which DELETE_OLD_IDEMPOTENCY_KEYS deletes', async () => {
    const age = (interval: string) =>
      plain.query(
        `update idempotency_keys set created_at = now() - interval '${interval}' where key like 'old-%'`,
      );
    for (const pool of [citus, plain]) {
      const keys = PETS.map((_pet, n) => `old-${n}`);
      await once(pool, keys);
      await age('24 hours 1 minute');
      const rows = await once(pool, keys);
      expect(rows).toEqual(PETS.map((_pet, n) => [n + 1, true, expect.any(String), true]));
      expect((await find(pool, keys)).map(([, , id]) => id)).toEqual(rows.map(([, , id]) => id));
      await age('23 hours 59 minutes');
      expect(await run(pool, DELETE_OLD_IDEMPOTENCY_KEYS)).toEqual([]);
      await age('24 hours 1 minute');
      expect(sorted(await run(pool, DELETE_OLD_IDEMPOTENCY_KEYS)).flat()).toEqual(keys);
    }
  });

  it('of INSERT_PETS_ONCE creates nothing with a key that another session is about to record', async () => {
    const holder = await plain.connect();
    try {
      await holder.query(
        `begin; select pg_advisory_xact_lock(hashtextextended(key, 0)) from unnest('{1 h-0,1 h-2}'::text[]) as key`,
      );
      for (const pool of [citus, plain]) {
        const rows = await once(pool, ['h-0', `free-${pool === citus}`, 'h-2']);
        expect(rows.map(([, isFree, id]) => [isFree, id])).toEqual([
          [false, null],
          [true, expect.any(String)],
          [false, null],
        ]);
      }
    } finally {
      await holder.query('rollback');
      holder.release();
    }
  });

  it('of INSERT_PETS_ONCE stores the others if the database rejects one', async () => {
    await plain.query(`alter table pets add constraint no_rex check (name <> 'Rex') not valid`);
    const keys = ['first', 'second', 'rejected'];
    await expect(once(citus, keys)).rejects.toMatchObject({ code: '23514' });
    await plain.query('alter table pets drop constraint no_rex');
    expect((await find(plain, keys)).map(([position]) => position)).toEqual([1, 2]);
  });

  it('of PETS_BY_IDEMPOTENCY_KEY finds nothing for a key without its pet', async () => {
    // As on Citus, where a record may outlive its pet, or be committed before it.
    await plain.query('alter table idempotency_keys drop constraint idempotency_keys_pet_id_fkey');
    const keys = ['gone', 'kept-1', 'kept-2'];
    const [[, , gone]] = (await once(citus, keys)) as [unknown[]];
    await plain.query('delete from pets where id = $1', [gone]);
    expect((await find(citus, keys)).map(([position]) => position)).toEqual([2, 3]);
  });

  it('is there for each statement that reads or writes animals, orders or Idempotency-Keys', async () => {
    const modules: Record<string, unknown>[] = await Promise.all([
      import('../../src/pets/pets.sql.js'),
      import('../../src/orders/orders.sql.js'),
    ]);
    const names = modules
      .flatMap((module) => Object.values(module))
      .filter((value): value is Statement => typeof (value as Statement)?.text === 'string')
      .map(({ name }) => name);
    expect([...CITUS.forms.keys()].toSorted()).toEqual(names.toSorted());
  });
});

describe('a start on a node of Citus', () => {
  let url: string;
  beforeAll(async () => {
    url = await createMigratedDatabase();
    // Citus has this table on each node.
    await query(url, 'create table pg_dist_local_group (groupid int)');
  });
  afterAll(() => dropDatabase(url));

  const start = async (node: number, variables = {}) => {
    await query(url, 'truncate pg_dist_local_group');
    await query(url, `insert into pg_dist_local_group values (${node})`);
    const environment = readEnvironment({ DATABASE_URL: url, ...variables });
    return (await connectService(url, environment)).destroy();
  };

  it('is accepted on the coordinator, and refused on a worker and with standbys', async () => {
    await start(0);
    for (const [refused, message] of [
      [() => start(7), 'is a worker of Citus'],
      [() => start(0, { DATABASE_READ_URL: url }), 'DATABASE_READ_URL must not be set'],
    ] as const) {
      await expect(refused()).rejects.toThrow(OperatorError);
      await expect(refused()).rejects.toThrow(message);
    }
  });
});
