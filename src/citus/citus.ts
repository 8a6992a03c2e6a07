import { stringify } from 'lossless-json';
import type { PoolClient } from 'pg';
import type { DataSource } from 'typeorm';
import type { Environment } from '../config/environment.js';
import type { Engine } from '../database/data-source.js';
import { run, type SessionSource, Statement, type StatementForm } from '../database/statement.js';
import { OperatorError } from '../errors/operator-error.js';
import { type PageStatement, rangeFrom } from '../listing/pages.js';
import { ORDER_PAGES } from '../orders/orders.service.js';
import * as pets from '../pets/pets.sql.js';

/** Runs a statement without preparing it, because Citus plans each call anyway. */
const query = <Columns extends unknown[]>(
  sessions: SessionSource | PoolClient,
  text: string,
  values: unknown[] = [],
): Promise<Columns[]> => run(sessions, new Statement('', text), values);

/** Calls `work` in a transaction. It is rolled back if `work` throws or returns `undefined`. */
async function inTransaction<T>(
  pool: SessionSource,
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

/** Runs each request of a batch with its own values and its position. If one fails, so does the batch, when all ended. */
const oneByOne =
  (
    work: (pool: SessionSource, values: any[], position: number) => Promise<unknown[][]>,
  ): StatementForm =>
  async (pool, columns: unknown[][]) => {
    const ofRequest = (i: number) => columns.map((values) => values[i]);
    const started = columns[0]!.map((_value, i) => work(pool, ofRequest(i), i + 1));
    await Promise.allSettled(started);
    return (await Promise.all(started)).flat();
  };

/** Citus does not support `lateral`. */
function pages({ table, json, filter, order }: PageStatement): StatementForm {
  const where = rangeFrom('$1::bigint', filter, '$3::text');
  const text = `select ${json} from ${table} where ${where} order by ${order} limit $2::int + 1`;
  return oneByOne(async (pool, [key, wanted, start, size]) => {
    const values = filter === undefined ? [start, size] : [start, size, wanted];
    const items = await query(pool, text, values);
    return [[key, items.length === 0 ? null : items.join('\n')]];
  });
}

/** A new pet as PET_JSON writes it. On Citus, an insert cannot return that: `to_json` is not immutable. */
function newPetJson(id: string, values: unknown[]): string {
  const members = pets.NEW_PET_COLUMNS.map(({ property }, i) => [property, values[i]]);
  return stringify({ id: BigInt(id), ...Object.fromEntries(members) })!;
}

/** Inserts pets with a statement of several rows: Citus would open a connection to each shard for an `insert … select`. */
async function insertPets(
  sessions: SessionSource | PoolClient,
  columns: unknown[][],
): Promise<[position: number, id: string, json: string][]> {
  const newIds = `select nextval('pets_id_seq') from generate_series(1, $1::int)`;
  const ids = (await query<[string]>(sessions, newIds, [columns[0]!.length])).flat();
  const rows = ids.map((_id, i) => columns.map((values) => values[i]));
  let last = 0;
  const parameters = rows.map((row) => `(${['id', ...row].map(() => `$${++last}`).join(', ')})`);
  const names = ['id', ...pets.NEW_PET_COLUMNS.map(({ name }) => name)];
  const text = `insert into pets (${names.join(', ')}) values ${parameters.join(', ')}`;
  const values = rows.flatMap((row, i) => [ids[i], ...row]);
  await query(sessions, text, values);
  return rows.map((row, i) => [i + 1, ids[i]!, newPetJson(ids[i]!, row)]);
}

/** The time 24 hours ago on the coordinator's clock. In the other statements, each node would read its own clock. */
async function expiryCutoff(pool: SessionSource): Promise<string> {
  return (await query<[string]>(pool, `select (now() - interval '24 hours')::text`))[0]![0];
}

const IN_USE = [null, null, null, false];

/** Inserts a pet and the record of its key, if the record is missing or old. This commits on all nodes or on none. */
const insertPetsOnce = oneByOne(async (pool, [apiKeyId, key, bodyHash, ...pet], position) => {
  const cutoff = await expiryCutoff(pool);
  const create = async (session: PoolClient) => {
    const lock = `select pg_try_advisory_xact_lock(hashint8($1), hashtext($2))`;
    const [[isFree]] = (await query(session, lock, [apiKeyId, key])) as [[boolean]];
    if (!isFree) {
      return undefined;
    }
    const columns = pet.map((value) => [value]);
    const [[, id, json]] = (await insertPets(session, columns)) as [[number, string, string]];
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
    return recorded.length > 0 ? [id, json, bodyHash, false] : undefined;
  };
  const outcome =
    (await petOfKey(pool, apiKeyId, key, cutoff)) ?? (await inTransaction(pool, create));
  return [[position, ...(outcome ?? IN_USE)]];
});

/**
 * The pet of a key that was used in the last 24 hours. Citus does not join tables that are distributed by different
 * columns. Without the pet, the key is in use: a worker has not finished the commit, or the pet was deleted.
 */
async function petOfKey(pool: SessionSource, apiKeyId: string, key: string, cutoff: string) {
  const [record] = await query<[bodyHash: string, petId: string]>(
    pool,
    `select encode(body_hash, 'hex'), pet_id from idempotency_keys
      where api_key_id = $1 and key = $2 and created_at >= $3::timestamptz`,
    [apiKeyId, key, cutoff],
  );
  if (record === undefined) {
    return undefined;
  }
  const [bodyHash, petId] = record;
  const text = `select id, ${pets.PET_JSON} from pets where id = $1`;
  const [pet] = await query(pool, text, [petId]);
  return pet === undefined ? IN_USE : [...pet, bodyHash, true];
}

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

export const CITUS = {
  /** Citus plans each call: it has no generic plan for a range or an array of the distribution column. */
  settings: { plan_cache_mode: 'auto' },
  forms: new Map<string, StatementForm>([
    [pets.PET_PAGES.name, pages(pets.PET_PAGES)],
    [pets.PET_PAGES_OF_STATUS.name, pages(pets.PET_PAGES_OF_STATUS)],
    [ORDER_PAGES.name, pages(ORDER_PAGES)],
    [pets.INSERT_PETS.name, insertPets],
    [pets.INSERT_PETS_ONCE.name, insertPetsOnce],
    [pets.DELETE_OLD_IDEMPOTENCY_KEYS.name, deleteOldIdempotencyKeys],
  ]),
} satisfies Engine;

/** What differs on Citus. @throws OperatorError if there are standbys, or the node is a worker: each has its own sequences and advisory locks. */
export async function engineOf(
  dataSource: DataSource,
  { DATABASE_READ_URL }: Environment,
): Promise<Engine> {
  const isCitus = `select to_regclass('pg_dist_local_group') is not null as is_citus`;
  if (!(await dataSource.query(isCitus))[0].is_citus) {
    return {};
  }
  const [{ groupid }] = await dataSource.query('select groupid from pg_dist_local_group');
  if (groupid !== 0) {
    throw new OperatorError(
      'The server of DATABASE_URL is a worker of Citus. Set DATABASE_URL to the coordinator.',
    );
  }
  if (DATABASE_READ_URL !== undefined) {
    throw new OperatorError(
      'The database of DATABASE_URL has the extension citus, so DATABASE_READ_URL must not be set: ' +
        'a standby of the coordinator reads the pets on the workers, and does not show whether those are up to date.',
    );
  }
  return CITUS;
}
