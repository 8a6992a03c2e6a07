import type { Pool } from 'pg';
import type { DataSource } from 'typeorm';
import { CITUS_FORMS, CITUS_SETTINGS } from '../../src/citus/citus.js';
import { poolOf, servingDataSource } from '../../src/database/data-source.js';
import { runMigrations } from '../../src/schema/migrations.js';
import { run, type Statement } from '../../src/database/statement.js';
import { INT64_MIN } from '../../src/int64.js';
import { ORDER_PAGES } from '../../src/orders/orders.sql.js';
import {
  DELETE_OLD_IDEMPOTENCY_KEYS,
  INSERT_PETS_ONCE,
  PETS_BY_IDEMPOTENCY_KEY,
} from '../../src/pets/idempotent-creation.sql.js';
import type { NewPet } from '../../src/pets/new-pet.dto.js';
import {
  INSERT_PETS,
  newPetArguments,
  PET_PAGES,
  PET_PAGES_OF_STATUS,
} from '../../src/pets/pets.sql.js';
import { createDatabase, dropDatabase } from '../support/service.js';

/** Citus is not needed: its statements also run on PostgreSQL alone. test/database/citus.e2e-spec.ts runs them there. */
describe('the form for Citus', () => {
  let url: string;
  let dataSources: DataSource[];
  let plain: Pool;
  let citus: Pool;
  beforeAll(async () => {
    url = await createDatabase();
    await runMigrations(url);
    dataSources = await Promise.all(
      [{}, { settings: CITUS_SETTINGS, forms: CITUS_FORMS }].map((engine) =>
        servingDataSource(url, 2, engine).initialize(),
      ),
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
    { name: 'a\n"\\\u2028\u0001\u007f', categoryId: -9223372036854775808n, status: 'pending' },
    { name: '👩‍👩‍👧', categoryId: 9223372036854775807n, status: 'sold' },
  ];
  /** Without ids, which differ. */
  const withoutIds = (rows: unknown[][]) =>
    sorted(rows.map((row) => JSON.parse(JSON.stringify(row).replace(/"\d+"/g, '""')))).map((row) =>
      String(row).replace(/"id":\d+/, ''),
    );

  it('of INSERT_PETS stores and returns what the statement does', async () => {
    const [ofCitus, ofPlain] = await Promise.all(
      [citus, plain].map((pool) => run<string[]>(pool, INSERT_PETS, newPetArguments(PETS))),
    );
    expect(withoutIds(ofCitus!)).toEqual(withoutIds(ofPlain!));
    const stored = async (rows: string[][]) =>
      sorted(
        (
          await plain.query({
            text: `select to_jsonb(pets) - 'id' from pets where id = any($1::bigint[])`,
            values: [rows.map(([id]) => id)],
            rowMode: 'array',
          })
        ).rows.map(([row]) => [JSON.stringify(row)]),
      );
    expect(await stored(ofCitus!)).toEqual(await stored(ofPlain!));
  });

  it('of INSERT_PETS_ONCE and PETS_BY_IDEMPOTENCY_KEY store and return what the statements do', async () => {
    const keysOf = (prefix: string) => PETS.map((_, n) => `${prefix}-${n}`);
    const once = (pool: Pool, keys: string[]) =>
      run<unknown[]>(pool, INSERT_PETS_ONCE, [
        keys.map(() => '1'),
        keys,
        keys.map(() => 'ab'.repeat(32)),
        ...newPetArguments(PETS),
      ]);
    const withoutKeys = (rows: unknown[][]) =>
      withoutIds(rows.map(([, key, ...row]) => [String(key).slice(-1), ...row]));
    expect(withoutKeys(await once(citus, keysOf('c')))).toEqual(
      withoutKeys(await once(plain, keysOf('p'))),
    );
    // Keys that stand for an animal.
    expect(sorted(await once(citus, keysOf('p')))).toEqual(sorted(await once(plain, keysOf('p'))));
    const all = [...keysOf('c'), ...keysOf('p'), 'unknown'];
    const find = async (pool: Pool) =>
      sorted(await run(pool, PETS_BY_IDEMPOTENCY_KEY, [all.map(() => '1'), all]));
    expect(await find(citus)).toHaveLength(4);
    expect(await find(citus)).toEqual(await find(plain));
    // A key that another session is about to record.
    const holder = await plain.connect();
    try {
      await holder.query(
        `begin; select pg_advisory_xact_lock(hashtextextended(key, 0)) from unnest('{1 h-0,1 h-1}'::text[]) as key`,
      );
      const held = await once(citus, keysOf('h'));
      expect(sorted(held)).toEqual(sorted(await once(plain, keysOf('h'))));
      expect(held.map(([, , , isFree]) => isFree)).toEqual([false, false]);
    } finally {
      await holder.query('rollback');
      holder.release();
    }
  });

  it('of DELETE_OLD_IDEMPOTENCY_KEYS deletes what is older than 24 hours', async () => {
    await plain.query(
      `insert into idempotency_keys (api_key_id, key, body_hash, pet_id, created_at)
       values (1, 'old', '', 1, now() - interval '24 hours 1 minute'),
              (1, 'young', '', 1, now() - interval '23 hours 59 minutes')`,
    );
    expect(await run(citus, DELETE_OLD_IDEMPOTENCY_KEYS)).toEqual([['old']]);
  });

  it.each([
    ['unavailable', 'server closed the connection unexpectedly\n\tThis probably means …'],
    ['XX000', 'something else'],
  ])('says %s if Citus reports an internal error: %j', async (code, message) => {
    const lost = jest.spyOn(citus, 'query');
    lost.mockImplementation(() =>
      Promise.reject(Object.assign(new Error(message), { code: 'XX000' })),
    );
    try {
      await expect(run(citus, INSERT_PETS, newPetArguments(PETS))).rejects.toMatchObject({ code });
    } finally {
      lost.mockRestore();
    }
  });

  it('is there for each statement that reads or writes animals, orders or Idempotency-Keys', async () => {
    const modules: Record<string, unknown>[] = await Promise.all([
      import('../../src/pets/pets.sql.js'),
      import('../../src/pets/idempotent-creation.sql.js'),
      import('../../src/orders/orders.sql.js'),
    ]);
    const names = modules
      .flatMap((module) => Object.values(module))
      .filter((value): value is Statement => typeof (value as Statement)?.text === 'string')
      .map(({ name }) => name);
    expect([...CITUS_FORMS.keys()].toSorted()).toEqual(names.toSorted());
  });
});
