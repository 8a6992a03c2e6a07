import type { DataSource } from 'typeorm';
import { MIGRATION_NAMES, migrations } from '../../migrations/index.js';
import { TABLES } from '../../migrations/tables.js';
import { sqlState } from '../errors/database-error.js';
import { OperatorError } from '../errors/operator-error.js';

/** A DataSource, or what has its way to run a statement. */
export type Queries = Pick<DataSource, 'query'>;

export const BOOKKEEPING = `create table if not exists migrations (
  id serial not null,
  timestamp bigint not null,
  name character varying not null,
  constraint "PK_8c82d7f526340ab734260ea46be" primary key (id)
)`;

const NOT_OURS =
  "The table migrations is another program's. Create a database for the service, and set DATABASE_URL to it";

/**
 * @returns what is applied, in order, later versions' too.
 * @throws OperatorError if the table is another program's, or as {@link requireOneSchema}.
 */
export async function appliedMigrations(dataSource: Queries, mayMigrate = true): Promise<string[]> {
  await requireOneSchema(dataSource, mayMigrate);
  try {
    const sql = 'select name, timestamp from migrations order by id';
    const rows = await dataSource.query<{ name: string }[]>(sql);
    const names = rows.map(({ name }) => name);
    // Every version has the first one.
    if (names.length > 0 && !names.some((name) => name === MIGRATION_NAMES[0])) {
      throw new OperatorError(NOT_OURS);
    }
    return names;
  } catch (error) {
    if (sqlState(error) === '42P01') {
      return [];
    }
    // 42703: it lacks a column.
    throw sqlState(error) === '42703' ? new OperatorError(NOT_OURS) : error;
  }
}

/** The tables whose rows get ids from a sequence. */
export const TABLES_WITH_ID = Array.from(
  TABLES.matchAll(/^\+ (\w+)\.id \| (?:identity|default \| nextval)/gm),
  ([, table]) => table!,
);

export const NEEDED_RIGHTS: readonly string[] = [
  'select on pets',
  'insert on pets',
  'usage on pets_id_seq',
  'select on api_keys',
  'select on idempotency_keys',
  'insert on idempotency_keys',
  'update on idempotency_keys',
];

/** Of createPet with an Idempotency-Key. docs/roles.sql grants it, because only a superuser may. */
export const LOCK_RIGHT = 'execute on function pg_try_advisory_xact_lock(integer, integer)';

/**
 * What the service uses besides: to compare migrations, for `check` to read sequences, for optional migrations, to note
 * used keys, to delete old records.
 */
export const OTHER_RIGHTS: readonly string[] = [
  'select on migrations',
  ...TABLES_WITH_ID.map((table) => `select on ${table}_id_seq`),
  ...migrations.flatMap(({ rights = [] }) => rights),
  'update on api_keys',
  'delete on idempotency_keys',
];

/**
 * A sentence if the server accepts no writes, else null, and the time of its clock. PostgreSQL assigns no more ids of transactions, or of groups of
 * them, when the oldest one in use is so old (PostgreSQL, section 25.1.5).
 */
export const REFUSAL = `
  select case
           when pg_is_in_recovery() then 'The database is read-only.'
           when current_setting('transaction_read_only') = 'on'
           then 'The database is read-only: default_transaction_read_only is on.'
           when max(greatest(age(datfrozenxid), mxid_age(datminmxid))) >= 2144483647
           then 'The database has no transaction ids left for writes.'
         end as reason,
         extract(epoch from clock_timestamp()) as now
    from pg_database`;

export interface Finding {
  about: 'schema' | 'migrations' | 'tables' | 'rights';
  /** Whether listPets, createPet or getPet fail because of it. */
  isError: boolean;
  message: string;
}

/** What the database lacks but for its tables, and what is applied: nothing if the role cannot read that. */
export async function stateOf(
  dataSource: Queries,
): Promise<{ applied: string[]; findings: Finding[] }> {
  let applied: string[] | undefined;
  try {
    applied = await appliedMigrations(dataSource, false);
  } catch (error) {
    if (error instanceof OperatorError) {
      return {
        applied: [],
        findings: [{ about: 'schema', isError: true, message: error.message }],
      };
    }
    // The role lacks the right, or a policy could hide rows. Then nothing is pending.
    if (sqlState(error) !== '42501') {
      throw error;
    }
  }
  const pending = migrations.filter(({ name }) => applied && !applied.includes(name));
  const lacked = await lackedRights(dataSource, pending.length > 0);
  // A policy may hide them.
  const isShown = !lacked.some(({ right }) => right === 'select on migrations');
  const pendingOnes = (isOptional: boolean) =>
    pending.flatMap((one) => (isShown && !!one.isOptional === isOptional ? one.name : []));
  const rights = (all: readonly string[]) =>
    lacked.flatMap(({ right, message }) => (all.includes(right) ? message : []));
  const lacks = `${lacked[0]?.role} lacks`;
  const findings = [
    finding('migrations', true, 'The database has pending migrations', pendingOnes(false)),
    finding('rights', true, lacks, rights([...NEEDED_RIGHTS, LOCK_RIGHT])),
    finding('migrations', false, 'Migrations are pending that no pet needs', pendingOnes(true)),
    finding('rights', false, lacks, rights(OTHER_RIGHTS)),
  ];
  return { applied: applied ?? [], findings: findings.flat() };
}

const finding = (about: Finding['about'], isError: boolean, text: string, list: string[]) =>
  list.length === 0 ? [] : [{ about, isError, message: `${text}: ${list.join(', ')}.` }];

/**
 * The rights that the role lacks; if migrations are `pending`, which create relations, only those on relations that exist.
 * Policies of row-level security, also those that show all rows, take the right to select (PostgreSQL, section 5.9).
 */
function lackedRights(dataSource: Queries, pending: boolean) {
  return dataSource.query<{ right: string; message: string; role: string }[]>(
    `select case when current_user = session_user then 'The database role'
                 else format('The role %I, which the setting "role" of %I names,', current_user, session_user) end as role,
            one as right, one || case when row_security_active(to_regclass(relation))
              then format(' (row-level security could hide rows; run alter role %I bypassrls, or alter table %s disable row level security)',
                          current_user, relation)
              else '' end as message
       from unnest($1::text[]) as one,
            lateral (select split_part(one, ' on ', 1), substring(one from ' on (\\w+)$'), substring(one from ' on function (.+)'))
              as parts (privilege, relation, routine)
      where not coalesce(
              case privilege
                when 'execute' then has_function_privilege(routine, privilege)
                when 'usage' then has_sequence_privilege(to_regclass(relation), privilege)
                -- The role may have it for some columns only.
                when 'update' then has_any_column_privilege(to_regclass(relation), privilege)
                else has_table_privilege(to_regclass(relation), privilege)
                     and not (privilege = 'select' and row_security_active(to_regclass(relation)))
              end, false)
        and (routine is not null or to_regclass(relation) is not null or not $2)`,
    [[...NEEDED_RIGHTS, LOCK_RIGHT, ...OTHER_RIGHTS], pending],
  );
}

/** @throws OperatorError if the tables are not in the role's first schema, and it `mayMigrate` or does not see them. */
async function requireOneSchema(dataSource: Queries, mayMigrate: boolean): Promise<void> {
  const [found] = await dataSource.query<{ isVisible: boolean; message: string }[]>(
    `select to_regclass('pets') is not null as "isVisible",
            format('The tables are in the schema %1$I, which is not first in the search_path of the role %2$I, or on which it lacks usage: ' ||
                   'grant usage on schema %1$I to %2$I; alter role %3$I set search_path = %1$I;',
                   nspname, current_user, session_user) as message
       from pg_class as pets
       join pg_namespace on pg_namespace.oid = pets.relnamespace
       join pg_tables as migrations on migrations.schemaname = nspname and migrations.tablename = 'migrations'
      where pets.relname = 'pets' and has_table_privilege(pets.oid, 'select')
        and nspname is distinct from current_schema()
        and not exists (select from pg_tables where schemaname = current_schema() and tablename = 'migrations')`,
  );
  if (found !== undefined && (mayMigrate || !found.isVisible)) {
    throw new OperatorError(found.message);
  }
}
