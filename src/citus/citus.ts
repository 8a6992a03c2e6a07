import type { Pool, PoolClient } from 'pg';
import type { DataSource } from 'typeorm';
import type { Environment } from '../config/environment.js';
import { run, Statement, type StatementForm } from '../database/statement.js';
import { databaseUnavailable, sqlState } from '../errors/database-error.js';
import { OperatorError } from '../errors/operator-error.js';
import type { PageStatement } from '../listing/pages.js';
import { ORDER_PAGES } from '../orders/orders.sql.js';
import * as pets from '../pets/pets.sql.js';

/*
 * All that differs if the database is Citus: PostgreSQL whose extension `citus` distributes the tables to other nodes.
 * docs/scaling.md says what that changes for operators.
 */

/**
 * Citus makes a plan for each call: it has no generic plan for a condition that compares the distribution column with a
 * range or an array.
 */
export const CITUS_SETTINGS = { plan_cache_mode: 'auto' };

/** Whether the database has the extension. */
export async function isCitus(dataSource: DataSource): Promise<boolean> {
  const [{ found }] = await dataSource.query(
    `select exists (select from pg_extension where extname = 'citus') as found`,
  );
  return found;
}

/** @throws OperatorError if `DATABASE_READ_URL` is set. */
export function requireNoStandbys({ DATABASE_READ_URL }: Environment): void {
  if (DATABASE_READ_URL !== undefined) {
    throw new OperatorError(
      'The database of DATABASE_URL has the extension citus, so DATABASE_READ_URL must not be set: ' +
        'a standby of the coordinator reads the pets on the workers, and does not show whether those are up to date.',
    );
  }
}

/** Citus does not support `lateral`, so each page has a statement of its own. */
function pages({ name, source }: PageStatement): StatementForm {
  const { table, json, range, order, isFiltered } = source;
  const page = new Statement(
    `${name}-one`,
    `select ${json} from ${table} where ${range('$1::bigint', '$3::text')} order by ${order} limit $2::int + 1`,
  );
  return (pool, [keys, filters, starts, sizes]: unknown[][]) =>
    Promise.all(
      keys!.map(async (key, i) => {
        const filter = isFiltered ? [filters![i]] : [];
        const rows = await run<[item: string]>(pool, page, [starts![i], sizes![i], ...filter]);
        return [key, rows.length === 0 ? null : rows.join('\n')];
      }),
    );
}

/** Inserts pets with a statement of several rows: Citus would open a connection to each shard for an `insert … select`. */
async function insertPets(sessions: Pool | PoolClient, columns: unknown[][]): Promise<unknown[][]> {
  const ids = (await run<[id: string]>(sessions, NEW_IDS, [columns[0]!.length])).flat();
  const rows = ids.map((id, i) => [id, ...columns.map((values) => values[i])]);
  let last = 0;
  const parameters = rows.map((row) => `(${row.map(() => `$${(last += 1)}`).join(', ')})`);
  const names = ['id', ...pets.NEW_PET_COLUMNS.map(({ name }) => name)];
  await sessions.query(
    `insert into pets (${names.join(', ')}) values ${parameters.join(', ')}`,
    rows.flat(),
  );
  return ids.map((id, i) => [i + 1, id]);
}

const NEW_IDS = new Statement(
  'new-pet-ids',
  `select nextval('pets_id_seq') from generate_series(1, $1::int)`,
);

/**
 * Each request has a transaction of its own. If one of them fails, so does the batch, and its requests may be sent
 * again. Then those that succeeded find their records.
 */
const insertPetsOnce: StatementForm = async (
  pool,
  [apiKeyIds, keys, bodyHashes, ...columns]: [string[], string[], string[], ...unknown[][]],
) => {
  const cutoff = await expiryCutoff(pool);
  const outcomes = await Promise.allSettled(
    keys.map((key, i) => {
      const pet = columns.map((values) => [values[i]]);
      return insertOnce(pool, cutoff, [apiKeyIds[i]!, key, bodyHashes[i]!], pet);
    }),
  );
  return outcomes.map((outcome, i) => {
    if (outcome.status === 'rejected') {
      throw outcome.reason;
    }
    return [i + 1, ...outcome.value];
  });
};

/**
 * Inserts a pet and the record of its key. This commits on all nodes or on none, but not at the same time on all: see
 * {@link forgetIfDeleted}. The pet is inserted before the record, which refers to it.
 *
 * @returns the columns of `INSERT_PETS_ONCE` after the position.
 */
async function insertOnce(
  pool: Pool,
  cutoff: string,
  [apiKeyId, key, bodyHash]: [string, string, string],
  pet: unknown[][],
): Promise<unknown[]> {
  const recorded = [null, null, false];
  if ((await run(pool, IS_RECORDED, [apiKeyId, key, cutoff])).length > 0) {
    return recorded;
  }
  const outcome = await inTransaction(pool, async (session) => {
    const [[isFree]] = (await run(session, TRY_LOCK, [pets.scopedKey(apiKeyId, key)])) as [
      [boolean],
    ];
    if (!isFree) {
      return [false, null, false];
    }
    const [[, id]] = (await insertPets(session, pet)) as [[number, string]];
    const record = await run(session, RECORD, [apiKeyId, key, bodyHash, id, cutoff]);
    // Without a row, another transaction has recorded the key meanwhile.
    return record.length > 0 ? [true, id, true] : undefined;
  });
  return outcome ?? recorded;
}

/** Calls `work` in a transaction. It is rolled back if `work` throws or returns `undefined`. */
async function inTransaction<T>(
  pool: Pool,
  work: (session: PoolClient) => Promise<T | undefined>,
): Promise<T | undefined> {
  const session = await pool.connect();
  try {
    await session.query('begin');
    const result = await work(session);
    await session.query(result === undefined ? 'rollback' : 'commit');
    session.release();
    return result;
  } catch (error) {
    // Closes the session, as the pool does if a statement fails. PostgreSQL then rolls back.
    session.release(error as Error);
    throw error;
  }
}

/** The time 24 hours ago on the coordinator's clock. In the other statements, each node would read its own clock. */
async function expiryCutoff(pool: Pool): Promise<string> {
  const [[cutoff]] = (await run(pool, EXPIRY_CUTOFF)) as [[string]];
  return cutoff;
}

const EXPIRY_CUTOFF = new Statement('expiry-cutoff', `select (now() - interval '24 hours')::text`);

const IS_RECORDED = new Statement(
  'is-recorded',
  `select from idempotency_keys where api_key_id = $1 and key = $2 and created_at >= $3::timestamptz`,
);

const TRY_LOCK = new Statement(
  'try-lock',
  'select pg_try_advisory_xact_lock(hashtextextended($1, 0))',
);

const RECORD = new Statement(
  'record',
  `
  insert into idempotency_keys as earlier (api_key_id, key, body_hash, pet_id)
  values ($1, $2, decode($3, 'hex'), $4)
  on conflict (api_key_id, key) do update
     set body_hash = excluded.body_hash, pet_id = excluded.pet_id, created_at = excluded.created_at
   where earlier.created_at < $5::timestamptz
  returning key`,
);

/** Citus supports neither a join nor a foreign key between tables that are distributed by different columns. */
const petsByIdempotencyKey: StatementForm = async (
  pool,
  [apiKeyIds, keys]: [string[], string[]],
) => {
  const found = keys.map(async (key, i) => {
    const [record] = await run<[hash: string, id: string]>(pool, RECORD_OF, [apiKeyIds[i], key]);
    if (record === undefined) {
      return [];
    }
    const [bodyHash, id] = record;
    const find = () => run<[id: string, json: string]>(pool, PET, [id]);
    let rows = await find();
    if (rows.length === 0) {
      await forgetIfDeleted(pool, apiKeyIds[i]!, key, id);
      rows = await find();
    }
    return rows.map((pet) => [i + 1, bodyHash, ...pet]);
  });
  return (await Promise.all(found)).flat();
};

const PET = new Statement('pet-of-record', `select id, ${pets.PET_JSON} from pets where id = $1`);

const RECORD_OF = new Statement(
  'record-of-key',
  `select encode(body_hash, 'hex'), pet_id from idempotency_keys where api_key_id = $1 and key = $2`,
);

/**
 * Deletes the record of a key whose pet was deleted. The next request with the key then creates a pet.
 *
 * A pet may be missing although it was not deleted: its worker has not finished the commit yet, or has restarted before
 * it could. Then an insert of the same id waits for the commit, and either times out or finds the pet. A select would
 * not wait.
 */
const forgetIfDeleted = (pool: Pool, apiKeyId: string, key: string, petId: string) =>
  inTransaction(pool, async (session) => {
    await session.query('savepoint probe');
    const { rowCount } = await session.query(
      `insert into pets (id, name, category_id) values ($1, 'probe', 0) on conflict (id) do nothing`,
      [petId],
    );
    await session.query('rollback to savepoint probe');
    return rowCount === 0
      ? undefined
      : session.query(
          'delete from idempotency_keys where api_key_id = $1 and key = $2 and pet_id = $3',
          [apiKeyId, key, petId],
        );
  });

/** Citus does not support `skip locked`. So this waits for locked records, and fails if it waits too long. */
const deleteOldIdempotencyKeys: StatementForm = async (pool) =>
  run(pool, DELETE_OLD, [await expiryCutoff(pool)]);

const DELETE_OLD = new Statement(
  'delete-old-records',
  `
  delete from idempotency_keys
   where (api_key_id, key) in (
         select api_key_id, key from idempotency_keys
          where created_at < $1::timestamptz order by created_at limit 1000)
     and created_at < $1::timestamptz
  returning key`,
);

/** If a worker is lost during a commit, Citus reports libpq's message as an internal error. */
const withLostWorkers =
  (form: StatementForm): StatementForm =>
  async (pool, values) => {
    try {
      return await form(pool, values);
    } catch (error) {
      const isLost =
        sqlState(error) === 'XX000' &&
        (error as Error).message.startsWith('server closed the connection');
      throw isLost ? databaseUnavailable(error) : error;
    }
  };

const FORMS: [Statement, StatementForm][] = [
  [pets.PET_PAGES, pages(pets.PET_PAGES)],
  [pets.PET_PAGES_OF_STATUS, pages(pets.PET_PAGES_OF_STATUS)],
  [ORDER_PAGES, pages(ORDER_PAGES)],
  [pets.INSERT_PETS, insertPets],
  [pets.INSERT_PETS_ONCE, insertPetsOnce],
  [pets.PETS_BY_IDEMPOTENCY_KEY, petsByIdempotencyKey],
  [pets.DELETE_OLD_IDEMPOTENCY_KEYS, deleteOldIdempotencyKeys],
];

/** The forms for Citus, by the name of the statement that they replace. */
export const CITUS_FORMS: ReadonlyMap<string, StatementForm> = new Map(
  FORMS.map(([{ name }, form]) => [name, withLostWorkers(form)]),
);
