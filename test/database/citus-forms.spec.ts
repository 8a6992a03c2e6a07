import type { Pool } from 'pg';
import type { DataSource } from 'typeorm';
import { CITUS } from '../../src/citus/citus.js';
import { connectService } from '../../src/connect-service.js';
import { readEnvironment } from '../../src/config/environment.js';
import { poolOf, servingDataSource } from '../../src/database/data-source.js';
import { run, Statement } from '../../src/database/statement.js';
import { OperatorError } from '../../src/errors/operator-error.js';
import { INT64_MAX, INT64_MIN } from '../../src/int64.js';
import * as orderStatements from '../../src/orders/orders.service.js';
import type { NewPet } from '../../src/pets/new-pet.dto.js';
import * as petStatements from '../../src/pets/pets.sql.js';
import { query } from '../support/ask.js';
import { fullPet } from '../support/full-pet.js';
import { createMigratedDatabase, dropDatabase } from '../support/service.js';

const { DELETE_OLD_IDEMPOTENCY_KEYS, INSERT_PETS_ONCE, newPetArguments } = petStatements;

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
    await plain.query(`insert into api_keys (name, hash) values ('test', sha256('test'))`);
  });
  afterAll(async () => {
    await Promise.all(dataSources.map((one) => one.destroy()));
    await dropDatabase(url);
  });

  const sorted = (rows: unknown[][]) => rows.toSorted((a, b) => (String(a) < String(b) ? -1 : 1));

  const PETS: NewPet[] = [
    fullPet(1, { name: 'a\n"\\\u2028\u0001\u007f', categoryId: INT64_MIN, status: 'pending' }),
    fullPet(2, { name: '👩‍👩‍👧', categoryId: INT64_MAX, status: 'sold' }),
    { name: 'Rex', categoryId: 0n, status: 'available' },
  ];

  const once = async (pool: Pool, keys: string[]) =>
    sorted(
      await run<unknown[]>(pool, INSERT_PETS_ONCE, [
        keys.map(() => '1'),
        keys,
        keys.map((_key, n) => `0${n}`.repeat(32)),
        ...newPetArguments(PETS),
      ]),
    );

  it('of INSERT_PETS_ONCE stores what both forms return from then on', async () => {
    for (const pool of [citus, plain]) {
      const keys = PETS.map((_pet, n) => `${pool === citus}-${n}`);
      const rows = await once(pool, keys);
      expect(
        rows.map(([position, , json, ...rest]) => [position, JSON.parse(`${json}`).name, ...rest]),
      ).toEqual(PETS.map(({ name }, n) => [n + 1, name, `0${n}`.repeat(32), false]));
      for (const either of [citus, plain]) {
        expect(await once(either, keys)).toEqual(rows.map((row) => row.with(4, true)));
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
      const first = await once(pool, keys);
      await age('23 hours 59 minutes');
      expect(await once(pool, keys)).toEqual(first.map((row) => row.with(4, true)));
      await age('24 hours 1 minute');
      const second = await once(pool, keys);
      expect(second.map((row) => row[4])).toEqual([false, false, false]);
      expect(second.map(([, id]) => id)).not.toEqual(first.map(([, id]) => id));
      expect((await once(pool, keys)).map(([, id]) => id)).toEqual(second.map(([, id]) => id));
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
        `begin; select pg_advisory_xact_lock(hashint8(1), hashtext(key)) from unnest('{h-0,h-2}'::text[]) as key`,
      );
      for (const pool of [citus, plain]) {
        const rows = await once(pool, ['h-0', `free-${pool === citus}`, 'h-2']);
        expect(rows.map(([, id]) => id)).toEqual([null, expect.any(String), null]);
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
    const rows = await once(plain, keys);
    expect(rows.map(([, , , , isReplayed]) => isReplayed)).toEqual([true, true, false]);
  });

  it('of INSERT_PETS_ONCE holds a key without its pet to be in use', async () => {
    // As on Citus, where a record may outlive its pet, or be committed before it.
    await plain.query('alter table idempotency_keys drop constraint idempotency_keys_pet_id_fkey');
    const keys = ['gone', 'kept-1', 'kept-2'];
    const first = await once(citus, keys);
    await plain.query('delete from pets where id = $1', [first[0]![1]]);
    const second = await once(citus, keys);
    expect(second[0]!.slice(1)).toEqual([null, null, null, false]);
    expect(second.slice(1)).toEqual(first.slice(1).map((row) => row.with(4, true)));
  });

  it('is there for each statement that reads or writes animals, orders or Idempotency-Keys', () => {
    const names = [...Object.values(petStatements), ...Object.values(orderStatements)]
      .filter((value) => value instanceof Statement)
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
