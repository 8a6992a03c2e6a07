import { query } from './ask.js';

/** What the schema `public` of the database at `url` consists of, as PostgreSQL itself describes it. */
export async function catalog(url: string): Promise<Record<string, unknown[]>> {
  const entries = Object.entries(QUERIES).map(
    async ([what, sql]) => [what, await query(url, sql)] as const,
  );
  return Object.fromEntries(await Promise.all(entries));
}

const OURS = `'public'::regnamespace`;

const QUERIES = {
  columns: `
    select table_name, column_name, ordinal_position, data_type, character_maximum_length,
           is_nullable, column_default, is_identity, identity_generation
      from information_schema.columns
     where table_schema = 'public' and table_name <> 'migrations'
     order by table_name, ordinal_position`,
  constraints: `
    select conrelid::regclass::text as table, conname, pg_get_constraintdef(oid) as definition
      from pg_constraint
     where connamespace = ${OURS} and conrelid is distinct from to_regclass('migrations')
     order by 1, 2`,
  indexes: `
    select indexname, indexdef
      from pg_indexes
     where schemaname = 'public' and tablename <> 'migrations'
     order by 1`,
  relations: `
    select relname, relkind
      from pg_class
     where relnamespace = ${OURS} and relname not like 'migrations%' and relname not like 'PK_%'
     order by 1`,
  types: `
    select typname from pg_type
     where typnamespace = ${OURS} and typtype <> 'c' and typcategory <> 'A' order by 1`,
  functions: `select proname from pg_proc where pronamespace = ${OURS} order by 1`,
};
