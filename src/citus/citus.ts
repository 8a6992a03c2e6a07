import type { Pool, PoolClient } from 'pg';
import type { DataSource } from 'typeorm';
import type { Environment } from '../config/environment.js';
import { databaseUnavailable, sqlState } from '../errors/database-error.js';
import { OperatorError } from '../errors/operator-error.js';
import { INT64_MAX } from '../int64.js';
import type { PageStatement } from '../listing/pages.sql.js';
import { ORDER_PAGES } from '../orders/orders.sql.js';
import {
  DELETE_OLD_IDEMPOTENCY_KEYS,
  INSERT_PETS_ONCE,
  PETS_BY_IDEMPOTENCY_KEY,
  scopedKey,
} from '../pets/idempotent-creation.sql.js';
import { INSERT_PETS, PET_JSON, PET_PAGES, PET_PAGES_OF_STATUS } from '../pets/pets.sql.js';
import { run, Statement, type StatementForm } from '../database/statement.js';

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

/**
 * @throws OperatorError if `DATABASE_READ_URL` is set: a standby of the coordinator reads the animals from the workers,
 *   and does not show whether those are up to date.
 */
export function requireNoStandbys({ DATABASE_READ_URL }: Environment): void {
  if (DATABASE_READ_URL !== undefined) {
    throw new OperatorError(
      'The database of DATABASE_URL has the extension citus, so DATABASE_READ_URL must not be set: ' +
        'a standby of the coordinator reads the animals on the workers, and does not show whether those are up to date.',
    );
  }
}

/** The maximum number of pages in one statement. Citus reads each page from all shards. */
const PAGES_AT_ONCE = 32;

/**
 * The pages of a list. Citus does not support `lateral`, so each page is a limited select of its own, and a statement
 * is their union. The number of selects is rounded up to a power of two, and the additional selects return no rows. So
 * there are only a few different statements, and they can be prepared.
 */
function pages({ name, source }: PageStatement): StatementForm {
  const { table, json, range, order, isFiltered } = source;
  const statementFor = (count: number) => {
    const selects = Array.from({ length: count }, (_, page) => {
      const first = page * (isFiltered ? 3 : 2) + 1;
      return `
  (select ${page} as page, id, ${json} as item
     from ${table}
    where ${range(`$${first}::bigint`, `$${first + 2}::text`)}
    order by ${order}
    limit $${first + 1}::int)`;
    });
    const end = count === 1 ? '' : '\n   order by page, id';
    return new Statement(`${name}-${count}`, `${selects.join('\n   union all')}${end}`);
  };
  return async (pool, [keys, filters, starts, sizes]: [string[], string[], bigint[], number[]]) => {
    const found = keys.map((key) => ({ key, items: [] as string[] }));
    for (let first = 0; first < keys.length; first += PAGES_AT_ONCE) {
      const asked = Math.min(keys.length - first, PAGES_AT_ONCE);
      const count = 2 ** Math.ceil(Math.log2(asked));
      const values = Array.from({ length: count }, (_, page) => {
        const i = first + page;
        const wanted = page < asked ? [starts[i], sizes[i]! + 1] : [INT64_MAX, 0];
        return isFiltered ? [...wanted, filters[i]] : wanted;
      });
      const rows = await run<[page: number, id: string, item: string]>(
        pool,
        statementFor(count),
        values.flat(),
      );
      rows.forEach(([page, , item]) => found[first + page]!.items.push(item));
    }
    return found.map(({ key, items }) => [key, items.length === 0 ? null : items.join('\n')]);
  };
}

/** A Pet as JSON text, as `PET_JSON` writes it. Citus allows no `to_json` in `returning`. */
const petJson = (id: string, name: string, categoryId: unknown, status: string) =>
  `{"id":${id},"name":${JSON.stringify(name)},"categoryId":${categoryId},"status":"${status}"}`;

/**
 * Parameters for rows of `values`: for two rows of one int and one text, `($1::int, $2::text), ($3::int, $4::text)`.
 */
const rowsOf = (count: number, types: string[]) =>
  Array.from(
    { length: count },
    (_, row) => `(${types.map((type, i) => `$${row * types.length + i + 1}::${type}`).join(', ')})`,
  ).join(', ');

/** Runs a statement without preparing it. @returns its rows, each an array of columns. */
async function query<Columns extends unknown[]>(
  sessions: Pool | PoolClient,
  text: string,
  values: unknown[] = [],
): Promise<Columns[]> {
  const { rows } = await sessions.query<Columns>({ text, values, rowMode: 'array' });
  return rows;
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

/** Citus would open a connection to each shard for an `insert … select`. */
const insertPets: StatementForm = async (
  pool,
  [names, categoryIds, statuses]: [string[], bigint[], string[]],
) => {
  const rows = await query<[id: string, name: string, categoryId: string, status: string]>(
    pool,
    `insert into pets (name, category_id, status)
     values ${rowsOf(names.length, ['text', 'bigint', 'text'])}
     returning id::text, name::text, category_id::text, status::text`,
    names.flatMap((name, i) => [name, categoryIds[i], statuses[i]]),
  );
  return rows.map((row) => [...row, petJson(...row)]);
};

/**
 * On PostgreSQL this is one statement. Citus does not support it, because its parts refer to each other. So this is a
 * transaction of several statements. It commits on all nodes or on none, but not at the same time on all: see
 * {@link forgetIfDeleted}. The animals are inserted before the records of their keys.
 */
const insertPetsOnce: StatementForm = async (
  pool,
  [apiKeyIds, keys, bodyHashes, names, categoryIds, statuses],
) => {
  const requests: Request[] = keys.map((key: string, i: number) => ({
    apiKeyId: apiKeyIds[i],
    key,
    scopedKey: scopedKey(apiKeyIds[i], key),
    bodyHash: bodyHashes[i],
    pet: [names[i], categoryIds[i], statuses[i]],
  }));
  for (;;) {
    const cutoff = await expiryCutoff(pool);
    const recorded = await run<[apiKeyId: string, key: string]>(pool, RECORDED, [keys, cutoff]);
    const known = new Set(recorded.map(([apiKeyId, key]) => scopedKey(apiKeyId, key)));
    const unknown = requests.filter((request) => !known.has(request.scopedKey));
    const ids =
      unknown.length === 0
        ? new Map<string, string | null>()
        : await inTransaction(pool, (session) => createUnknown(session, unknown, cutoff));
    if (ids !== undefined) {
      return requests.map((request) => {
        const { apiKeyId, key, bodyHash, pet } = request;
        const id = ids.get(request.scopedKey);
        const [isFree, json] = id
          ? [true, petJson(id, ...pet)]
          : [id === null ? false : null, null];
        return [apiKeyId, key, bodyHash, isFree, id ?? null, json];
      });
    }
  }
};

interface Request {
  apiKeyId: string;
  key: string;
  scopedKey: string;
  bodyHash: string;
  pet: [name: string, categoryId: bigint, status: string];
}

/** The keys among `$1` with a record since `$2`. */
const RECORDED = new Statement(
  'recorded-idempotency-keys',
  `
  select api_key_id, key from idempotency_keys
   where key = any($1::text[]) and created_at >= $2::timestamptz`,
);

/** The time 24 hours ago on the coordinator's clock. In the other statements, each node would read its own clock. */
async function expiryCutoff(pool: Pool): Promise<string> {
  const [[cutoff]] = (await run(pool, EXPIRY_CUTOFF)) as [[string]];
  return cutoff;
}

const EXPIRY_CUTOFF = new Statement('expiry-cutoff', `select (now() - interval '24 hours')::text`);

/**
 * Inserts the animals and records of requests.
 *
 * @returns the id of each new animal by {@link scopedKey}. It is `null` if another transaction is about to record the
 *   key. `undefined` if another transaction has recorded one of the keys meanwhile; the caller must then roll back.
 */
async function createUnknown(
  session: PoolClient,
  requests: Request[],
  cutoff: string,
): Promise<Map<string, string | null> | undefined> {
  const ids = new Map(
    await query<[scopedKey: string, id: string | null]>(
      session,
      `select scoped_key, case when pg_try_advisory_xact_lock(hashtextextended(scoped_key, 0))
                               then nextval(pg_get_serial_sequence('pets', 'id')) end
         from unnest($1::text[]) as scoped_key`,
      [requests.map((request) => request.scopedKey)],
    ),
  );
  const free = requests.filter((request) => ids.get(request.scopedKey) !== null);
  if (free.length === 0) {
    return ids;
  }
  await session.query(
    `insert into pets (id, name, category_id, status)
     values ${rowsOf(free.length, ['bigint', 'text', 'bigint', 'text'])}`,
    free.flatMap((request) => [ids.get(request.scopedKey), ...request.pet]),
  );
  const records = await query(
    session,
    `insert into idempotency_keys as earlier (api_key_id, key, body_hash, pet_id)
     values ${rowsOf(free.length, ['bigint', 'text', 'bytea', 'bigint'])}
     on conflict (api_key_id, key) do update
        set body_hash = excluded.body_hash, pet_id = excluded.pet_id, created_at = excluded.created_at
      where earlier.created_at < $${4 * free.length + 1}::timestamptz
     returning key`,
    [
      ...free.flatMap((request) => [
        request.apiKeyId,
        request.key,
        Buffer.from(request.bodyHash, 'hex'),
        ids.get(request.scopedKey),
      ]),
      cutoff,
    ],
  );
  return records.length === free.length ? ids : undefined;
}

/**
 * Citus supports neither a join nor a foreign key between tables that are distributed by different columns. So the
 * animal of a record may be missing.
 */
const petsByIdempotencyKey: StatementForm = async (
  pool,
  [apiKeyIds, keys]: [string[], string[]],
) => {
  const wanted = new Set(keys.map((key, i) => scopedKey(apiKeyIds[i]!, key)));
  const records = (
    await run<[apiKeyId: string, key: string, bodyHash: string, petId: string]>(pool, RECORDS, [
      keys,
    ])
  ).filter(([apiKeyId, key]) => wanted.has(scopedKey(apiKeyId, key)));
  const petIds = records.map(([, , , petId]) => petId);
  const findPets = async () => new Map(await run<[id: string, json: string]>(pool, PETS, [petIds]));
  let pets = await findPets();
  const missing = records.filter(([, , , petId]) => !pets.has(petId));
  if (missing.length > 0) {
    for (const [apiKeyId, key, , petId] of missing) {
      await forgetIfDeleted(pool, apiKeyId, key, petId);
    }
    pets = await findPets();
  }
  return records
    .filter(([, , , petId]) => pets.has(petId))
    .map((record) => [...record, pets.get(record[3])]);
};

const RECORDS = new Statement(
  'idempotency-records',
  `
  select api_key_id, key, encode(body_hash, 'hex'), pet_id
    from idempotency_keys
   where key = any($1::text[])`,
);

const PETS = new Statement(
  'pets-of-idempotency-records',
  `
  select id, ${PET_JSON}
    from pets
   where id = any($1::bigint[])`,
);

/**
 * Deletes the record of a key whose animal was deleted. The next request with the key then creates an animal.
 *
 * An animal may be missing although it was not deleted: its worker has not finished the commit yet, or has restarted
 * before it could. Then an insert of the same id waits for the commit, and either times out or finds the animal. A
 * select would not wait.
 */
async function forgetIfDeleted(
  pool: Pool,
  apiKeyId: string,
  key: string,
  petId: string,
): Promise<void> {
  await inTransaction(pool, async (session) => {
    await session.query('savepoint probe');
    const inserted = await query(
      session,
      `insert into pets (id, name, category_id) values ($1, 'probe', 0)
       on conflict (id) do nothing returning id`,
      [petId],
    );
    await session.query('rollback to savepoint probe');
    if (inserted.length === 0) {
      return undefined;
    }
    return query(
      session,
      'delete from idempotency_keys where api_key_id = $1 and key = $2 and pet_id = $3',
      [apiKeyId, key, petId],
    );
  });
}

/** Citus does not support `skip locked`. So this waits for locked records, and fails if it waits too long. */
const deleteOldIdempotencyKeys: StatementForm = async (pool) =>
  run(pool, DELETE_OLD, [await expiryCutoff(pool)]);

const DELETE_OLD = new Statement(
  'delete-old-idempotency-records',
  `
  delete from idempotency_keys
   where (api_key_id, key) in (
         select api_key_id, key
           from idempotency_keys
          where created_at < $1::timestamptz
          order by created_at
          limit 1000)
     and created_at < $1::timestamptz
  returning key`,
);

const FORMS: [name: string, form: StatementForm][] = [
  ...[PET_PAGES, PET_PAGES_OF_STATUS, ORDER_PAGES].map((statement): [string, StatementForm] => [
    statement.name,
    pages(statement),
  ]),
  [INSERT_PETS.name, insertPets],
  [INSERT_PETS_ONCE.name, insertPetsOnce],
  [PETS_BY_IDEMPOTENCY_KEY.name, petsByIdempotencyKey],
  [DELETE_OLD_IDEMPOTENCY_KEYS.name, deleteOldIdempotencyKeys],
];

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

/** The forms for Citus, by the name of the statement that they replace. */
export const CITUS_FORMS: ReadonlyMap<string, StatementForm> = new Map(
  FORMS.map(([name, form]) => [name, withLostWorkers(form)]),
);
