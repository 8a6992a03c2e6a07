import type { Pool, PoolClient } from 'pg';
import type { StatementForm } from '../database/statement.js';
import type { PageStatement } from '../listing/pages.js';
import { ORDER_PAGES } from '../orders/orders.sql.js';
import * as pets from '../pets/pets.sql.js';

/*
 * The statements for Citus: PostgreSQL whose extension `citus` distributes the tables to other nodes. docs/citus.md
 * says what that changes for operators.
 */

/** Runs a statement without preparing it, because Citus plans each call anyway. @returns rows of columns. */
async function query<Columns extends unknown[]>(
  sessions: Pool | PoolClient,
  text: string,
  values: unknown[] = [],
): Promise<Columns[]> {
  return (await sessions.query<Columns>({ text, values, rowMode: 'array' })).rows;
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

/**
 * Runs the requests of a batch one by one, each with its own values and its position. If one fails, so does the batch,
 * and its requests may be sent again.
 */
const oneByOne =
  (work: (pool: Pool, values: any[], position: number) => Promise<unknown[][]>): StatementForm =>
  async (pool, columns: unknown[][]) => {
    const ofRequest = (i: number) => columns.map((values) => values[i]);
    const outcomes = await Promise.allSettled(
      columns[0]!.map((_value, i) => work(pool, ofRequest(i), i + 1)),
    );
    return outcomes.flatMap((outcome) => {
      if (outcome.status === 'rejected') {
        throw outcome.reason;
      }
      return outcome.value;
    });
  };

/** Citus does not support `lateral`. */
function pages({ source }: PageStatement): StatementForm {
  const { table, json, range, order, isFiltered } = source;
  const where = range('$1::bigint', '$3::text');
  const text = `select ${json} from ${table} where ${where} order by ${order} limit $2::int + 1`;
  return oneByOne(async (pool, [key, filter, start, size]) => {
    const items = await query(pool, text, [start, size, ...(isFiltered ? [filter] : [])]);
    return [[key, items.length === 0 ? null : items.join('\n')]];
  });
}

/** Inserts pets with a statement of several rows: Citus would open a connection to each shard for an `insert … select`. */
async function insertPets(
  sessions: Pool | PoolClient,
  columns: unknown[][],
): Promise<[position: number, id: string][]> {
  const newIds = `select nextval('pets_id_seq') from generate_series(1, $1::int)`;
  const ids = (await query<[string]>(sessions, newIds, [columns[0]!.length])).flat();
  const rows = ids.map((id, i) => [id, ...columns.map((values) => values[i])]);
  let last = 0;
  const parameters = rows.map((row) => `(${row.map(() => `$${(last += 1)}`).join(', ')})`);
  const names = ['id', ...pets.NEW_PET_COLUMNS.map(({ name }) => name)];
  const text = `insert into pets (${names.join(', ')}) values ${parameters.join(', ')}`;
  await query(sessions, text, rows.flat());
  return ids.map((id, i) => [i + 1, id]);
}

/** The time 24 hours ago on the coordinator's clock. In the other statements, each node would read its own clock. */
async function expiryCutoff(pool: Pool): Promise<string> {
  const rows = await query<[string]>(pool, `select (now() - interval '24 hours')::text`);
  return rows[0]![0];
}

/**
 * Inserts a pet and the record of its key. This commits on all nodes or on none, but not at the same time on all: see
 * {@link forgetIfDeleted}. The pet is inserted before the record, which refers to it.
 */
const insertPetsOnce = oneByOne(async (pool, [apiKeyId, key, bodyHash, ...pet], position) => {
  const cutoff = await expiryCutoff(pool);
  const known = await query(
    pool,
    `select from idempotency_keys where api_key_id = $1 and key = $2 and created_at >= $3::timestamptz`,
    [apiKeyId, key, cutoff],
  );
  const create = async (session: PoolClient) => {
    const lock = `select pg_try_advisory_xact_lock(hashtextextended($1, 0))`;
    const [[isFree]] = (await query(session, lock, [pets.scopedKey(apiKeyId, key)])) as [[boolean]];
    if (!isFree) {
      return [[position, false, null, false]];
    }
    const columns = pet.map((value) => [value]);
    const [[, id]] = (await insertPets(session, columns)) as [[number, string]];
    const recorded = await query(
      session,
      `insert into idempotency_keys as earlier (api_key_id, key, body_hash, pet_id)
       values ($1, $2, decode($3, 'hex'), $4)
       on conflict (api_key_id, key) do update
          set body_hash = excluded.body_hash, pet_id = excluded.pet_id, created_at = excluded.created_at
        where earlier.created_at < $5::timestamptz
       returning key`,
      [apiKeyId, key, bodyHash, id, cutoff],
    );
    // Without a row, another transaction has recorded the key meanwhile.
    return recorded.length > 0 ? [[position, true, id, true]] : undefined;
  };
  const created = known.length > 0 ? undefined : await inTransaction(pool, create);
  return created ?? [[position, null, null, false]];
});

/** Citus supports neither a join nor a foreign key between tables that are distributed by different columns. */
const petsByIdempotencyKey = oneByOne(async (pool, [apiKeyId, key], position) => {
  const [record] = await query<[bodyHash: string, petId: string]>(
    pool,
    `select encode(body_hash, 'hex'), pet_id from idempotency_keys where api_key_id = $1 and key = $2`,
    [apiKeyId, key],
  );
  if (record === undefined) {
    return [];
  }
  const [bodyHash, petId] = record;
  const find = () => query(pool, `select id, ${pets.PET_JSON} from pets where id = $1`, [petId]);
  let rows = await find();
  if (rows.length === 0) {
    await forgetIfDeleted(pool, apiKeyId, key, petId);
    rows = await find();
  }
  return rows.map((pet) => [position, bodyHash, ...pet]);
});

/**
 * Deletes the record of a key whose pet was deleted. The next request with the key then creates a pet.
 *
 * A pet may be missing although it was not deleted: its worker has not finished the commit yet, or has restarted before
 * it could. Then an insert of the same id waits for the commit, and either times out or finds the pet. A select would
 * not wait.
 */
const forgetIfDeleted = (pool: Pool, apiKeyId: string, key: string, petId: string) =>
  inTransaction(pool, async (session) => {
    await query(session, 'savepoint probe');
    const probe = `insert into pets (id, name, category_id) values ($1, 'probe', 0) on conflict (id) do nothing returning id`;
    const inserted = await query(session, probe, [petId]);
    await query(session, 'rollback to savepoint probe');
    const forget = `delete from idempotency_keys where api_key_id = $1 and key = $2 and pet_id = $3`;
    return inserted.length > 0 ? query(session, forget, [apiKeyId, key, petId]) : undefined;
  });

/** Citus does not support `skip locked`. So this waits for locked records, and fails if it waits too long. */
const deleteOldIdempotencyKeys: StatementForm = async (pool) =>
  query(
    pool,
    `delete from idempotency_keys
      where (api_key_id, key) in (
            select api_key_id, key from idempotency_keys
             where created_at < $1::timestamptz order by created_at limit 1000)
        and created_at < $1::timestamptz
     returning key`,
    [await expiryCutoff(pool)],
  );

/** The forms for Citus, by the name of the statement that they replace. */
export const CITUS_FORMS: ReadonlyMap<string, StatementForm> = new Map([
  [pets.PET_PAGES.name, pages(pets.PET_PAGES)],
  [pets.PET_PAGES_OF_STATUS.name, pages(pets.PET_PAGES_OF_STATUS)],
  [ORDER_PAGES.name, pages(ORDER_PAGES)],
  [pets.INSERT_PETS.name, insertPets],
  [pets.INSERT_PETS_ONCE.name, insertPetsOnce],
  [pets.PETS_BY_IDEMPOTENCY_KEY.name, petsByIdempotencyKey],
  [pets.DELETE_OLD_IDEMPOTENCY_KEYS.name, deleteOldIdempotencyKeys],
]);
