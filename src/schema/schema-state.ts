import type { DataSource, QueryRunner } from 'typeorm';
import { migrations } from '../../migrations/index.js';
import { sqlState } from '../errors/database-error.js';
import { OperatorError } from '../errors/operator-error.js';
import { pendingMigrations } from './bookkeeping.js';

const INSUFFICIENT_PRIVILEGE = '42501';

/** A table or sequence, with privileges on it. */
type Privileges = readonly [relation: string, ...privileges: string[]];

/** What listPets, createPet and getPet need. */
export const NEEDED_RIGHTS: readonly Privileges[] = [
  ['pets', 'select', 'insert'],
  ['pets_id_seq', 'usage'],
  ['api_keys', 'select'],
  ['idempotency_keys', 'select', 'insert', 'update'],
];

/** What the service uses besides: to compare migrations, to list orders, to note used keys, to delete old records. */
export const OTHER_RIGHTS: readonly Privileges[] = [
  ['migrations', 'select'],
  ['orders', 'select'],
  ['api_keys', 'update'],
  ['idempotency_keys', 'delete'],
];

/** Something that the database lacks. */
export interface Finding {
  about: 'schema' | 'migrations' | 'rights';
  /** Whether listPets, createPet or getPet fail because of it. */
  isError: boolean;
  /** A sentence. */
  message: string;
}

/** Compares the database with what this code needs. @returns an empty list if it has everything. */
export async function findingsOf(dataSource: DataSource): Promise<Finding[]> {
  const other = await otherSchema(dataSource);
  if (other !== undefined && !other.isVisible) {
    return [{ about: 'schema', isError: true, message: other.message }];
  }
  const missing = await missingRights(dataSource);
  const pending = await pendingMigrations(dataSource).catch((error: unknown) => {
    if (sqlState(error) === INSUFFICIENT_PRIVILEGE) {
      return [];
    }
    throw error;
  });
  // The pending migrations create the relations that do not exist.
  const rights = missing.filter(({ exists }) => exists || pending.length === 0);
  return [true, false].flatMap((isError) => {
    const names = pending.filter((name) => OPTIONAL.has(name) !== isError);
    const lacking = rights.filter(({ isNeeded }) => isNeeded === isError).map(({ right }) => right);
    const text = isError
      ? 'The database has pending migrations'
      : 'Migrations are pending that no pet needs';
    const findings: Finding[] = [
      {
        about: 'migrations',
        isError,
        message: names.length === 0 ? '' : `${text}: ${names.join(', ')}.`,
      },
      {
        about: 'rights',
        isError,
        message: lacking.length === 0 ? '' : `The database role lacks: ${lacking.join(', ')}.`,
      },
    ];
    return findings.filter(({ message }) => message !== '');
  });
}

const OPTIONAL = new Set(
  migrations.filter((Each) => new Each().isOptional).map(({ name }) => name),
);

/** Reads only catalogues that PostgreSQL keeps in memory. */
function missingRights(
  dataSource: DataSource,
): Promise<{ right: string; isNeeded: boolean; exists: boolean }[]> {
  const list = [...NEEDED_RIGHTS, ...OTHER_RIGHTS].flatMap(([relation, ...privileges]) =>
    privileges.map((privilege) => [relation, privilege] as const),
  );
  const needed = NEEDED_RIGHTS.flatMap(([, ...privileges]) => privileges).length;
  return dataSource.query(
    `select privilege || ' on ' || relation as right, n <= $3 as "isNeeded",
            to_regclass(relation) is not null as exists
       from unnest($1::text[], $2::text[]) with ordinality as list (relation, privilege, n)
      where not coalesce(
              case privilege
                when 'usage' then has_sequence_privilege(to_regclass(relation), privilege)
                -- The role may have it for some columns only.
                when 'update' then has_any_column_privilege(to_regclass(relation), privilege)
                else has_table_privilege(to_regclass(relation), privilege)
              end, false)
      order by n`,
    [list.map(([relation]) => relation), list.map(([, privilege]) => privilege), needed],
  );
}

/** @throws OperatorError if the tables are in another schema than the one in which migrations would create them. */
export async function requireOneSchema(session: DataSource | QueryRunner): Promise<void> {
  const other = await otherSchema(session);
  if (other !== undefined) {
    throw new OperatorError(other.message);
  }
}

/**
 * Looks for the service's tables in another schema than the one in which the role creates tables, if that has none. It
 * must be in the search_path, or the role must have a right on its tables.
 */
async function otherSchema(
  session: DataSource | QueryRunner,
): Promise<{ isVisible: boolean; message: string } | undefined> {
  const [row] = await session.query(
    `select quote_ident(nspname) as found, quote_ident(current_user) as role,
            current_setting('search_path') as path, to_regclass('pets') is not null as "isVisible",
            has_schema_privilege(pg_namespace.oid, 'usage') as "isUsable"
       from pg_class as pets
       join pg_namespace on pg_namespace.oid = pets.relnamespace
       join pg_class as migrations on migrations.relnamespace = pets.relnamespace
      where pets.relname = 'pets' and migrations.relname = 'migrations'
        and nspname is distinct from current_schema()
        and not exists (select from pg_tables where schemaname = current_schema() and tablename = 'migrations')
        and (has_table_privilege(pets.oid, 'select')
             or quote_ident(nspname) = any (regexp_split_to_array(current_setting('search_path'), ', *')))`,
  );
  if (row === undefined) {
    return undefined;
  }
  const { found, role, path, isVisible, isUsable } = row;
  const message = isUsable
    ? `The tables are in the schema ${found}, which is not first in the search_path of the role ${role} (${path}): alter role ${role} set search_path = ${found};`
    : `The tables are in the schema ${found}, on which the role ${role} lacks usage: grant usage on schema ${found} to ${role};`;
  return { isVisible, message };
}
