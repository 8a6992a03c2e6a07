import { MIGRATION_NAMES } from '../../migrations/index.js';
import { TABLES } from '../../migrations/tables.js';
import type { Finding, Queries } from './schema-state.js';

/** A part of a table. The object is the table, or one of its columns, as `pets.name`. */
interface Part {
  object: string;
  kind: string;
  definition: string;
  /** The statement that repairs what is invalid, or removes what keeps createPet from working. */
  repair: string | null;
}

/**
 * The parts of the service's tables, from PostgreSQL's catalog alone. Names of keys, constraints and indexes do not count:
 * one that replaces another in use has a new name. The session's settings change nothing. An index that is being built is
 * not invalid. With a rule, PostgreSQL rejects the statements of createPet, which have WITH and ON CONFLICT.
 */
const PARTS = `
  with settings as materialized (
    select set_config('timezone', 'UTC', true), set_config('datestyle', 'ISO', true), set_config('lock_timeout', $2, true),
           set_config('quote_all_identifiers', 'off', true)
  ), tables as materialized (
    select oid, relname::text as name, relkind, relpersistence
      from settings, pg_class
     where oid in (select to_regclass(name) from unnest($1::text[]) as name)
  ), indexes as (
    select name, pg_index.*,
           case when not indisvalid and not exists (
                  select from pg_stat_progress_create_index join pg_locks using (pid)
                   where relation = indrelid and mode = 'ShareUpdateExclusiveLock')
                then format('reindex index concurrently %s', indexrelid::regclass)
           end as reindex
      from tables join pg_index on indrelid = tables.oid
  ), parts as (
    select name as object, parts.*
      from tables,
           lateral (values
             ('table', case when relkind in ('r', 'p') then
                              case relpersistence when 'p' then 'logged' else 'unlogged' end end, null),
             ('partitioned', pg_get_partkeydef(oid), null)) as parts (kind, definition, repair)
    union all
    select format('%s.%I', name, attname), parts.*
      from tables
      join pg_attribute on attrelid = tables.oid and attnum > 0 and not attisdropped
      join pg_type on pg_type.oid = atttypid
      left join pg_attrdef on adrelid = attrelid and adnum = attnum,
           lateral (select format_type(atttypid, atttypmod) as type, pg_get_expr(adbin, adrelid) as value,
                           nullif(attcollation, typcollation)::regcollation as comparison) as shown,
           lateral (values
             ('column', type || coalesce(' collate ' || comparison, ''), null),
             ('not null', case when attnotnull and not exists (select from pg_constraint
                where conrelid = attrelid and conkey = array[attnum] and contype = 'n' and not convalidated) then '' end, null),
             ('identity', case attidentity when 'a' then 'always' when 'd' then 'by default' end, null),
             ('default', case when attgenerated = '' then value end, null),
             ('generated', case when attgenerated <> '' then value end,
               format('alter table %I alter column %I drop expression', name, attname)),
             ('required', case when attnotnull and not atthasdef and attidentity = '' then '' end,
               format('alter table %I alter column %I drop not null', name, attname))) as parts
    union all
    select tables.name, case contype when 'c' then 'check' when 'f' then 'foreign key' when 'x' then 'exclusion' else 'key' end,
           valid,
           case when shown like '% NOT VALID' then change || format('validate constraint %I', conname)
                when shown <> valid then change || format('drop constraint %I, add %s', conname, valid)
                when exists (select from pg_trigger where tgconstraint = pg_constraint.oid and tgenabled = 'D')
                then change || 'enable trigger all'
                else reindex
           end
      from tables
      join pg_constraint on conrelid = tables.oid and contype in ('c', 'f', 'p', 'u', 'x')
      left join indexes on indexrelid = conindid and contype in ('p', 'u'),
           lateral (select pg_get_constraintdef(pg_constraint.oid) as shown, format('alter table %I ', tables.name) as change) as texts,
           lateral regexp_replace(shown, '( NOT VALID| NOT ENFORCED| DEFERRABLE| INITIALLY DEFERRED)+$', '') as valid
    union all
    select name, case when indisunique then 'unique index' else 'index' end,
           substring(pg_get_indexdef(indexrelid) from ' USING (.*)'), reindex
      from indexes
     where not exists (select from pg_constraint where conindid = indexrelid and conrelid = indrelid and contype <> 'f')
    union all
    select name, 'trigger', tgname, null
      from tables join pg_trigger on tgrelid = tables.oid and not tgisinternal and tgenabled <> 'D'
    union all
    select name, 'rule', rulename,
           case when ev_type = '3' or (ev_type = '2' and name = 'idempotency_keys')
                then format('drop rule %I on %I', rulename, name) end
      from tables join pg_rewrite on ev_class = tables.oid and rulename <> '_RETURN' and ev_enabled <> 'D'
    union all
    select name, 'inherited by', inhrelid::regclass::text, null
      from tables join pg_inherits on inhparent = tables.oid and relkind <> 'p'
    union all
    select '', 'extension', extname, null from pg_extension where extname = 'citus'
  )
  select * from parts where definition is not null`;

const TABLE_NAMES = Array.from(TABLES.matchAll(/^\+ (\w+) \| table/gm), ([, table]) => table!);

/** The parts of the tables: those of the migrations, without others. */
export const partsOf = (
  dataSource: Queries,
  lockTimeout = 0,
  tables = TABLE_NAMES,
): Promise<Part[]> => dataSource.query<Part[]>(PARTS, [tables, `${lockTimeout}`]);

/** A part as a line of {@link TABLES}. */
export const lineOf = ({ object, kind, definition }: Part) =>
  [object, kind, definition].filter(Boolean).join(' | ');

/** What the applied migrations make on this engine, by its line of {@link TABLES}. */
function partsMadeBy(applied: readonly string[], isCitus: boolean): Map<string, Part> {
  const made = new Map<string, Part>();
  let isApplied = false;
  for (const line of TABLES.trim().split('\n')) {
    const [, sign, text = '', object = '', kind = '', definition = ''] =
      /^([+-]) ((.+?) \| ([^|]+?)(?: \| (.+))?)$/.exec(line) ?? [];
    if (sign === undefined) {
      const [name, engine] = line.split(' on ');
      isApplied = applied.includes(name!) && (engine === undefined || isCitus);
    } else if (isApplied && sign === '+') {
      made.set(text, { object, kind, definition, repair: null });
    } else if (isApplied) {
      made.delete(text);
    }
  }
  return made;
}

interface Comparison {
  /** With an error, listPets, createPet or getPet fail, or an id may be stored twice. Each message has its remedy. */
  differences: Finding[];
  /** What is no difference, but may make writes fail: triggers, rules, generated columns, further constraints. */
  additions: string[];
}

/**
 * Compares the tables with what the migrations `applied` make. If this version does not know one, nothing is an error.
 *
 * @param lockTimeout milliseconds for which to wait for a table that somebody locks, for ever if 0; then an error 55P03.
 */
export async function compareTables(
  dataSource: Queries,
  applied: readonly string[],
  lockTimeout = 0,
): Promise<Comparison> {
  const isKnown = applied.every((name) => MIGRATION_NAMES.includes(name));
  const found = await partsOf(dataSource, lockTimeout);
  const isCitus = found.some(({ kind }) => kind === 'extension');
  const made = partsMadeBy(applied, isCitus);
  const find = (object: string, kind: string, among: Iterable<Part> = found) =>
    [...among].find((one) => one.object === object && one.kind === kind);
  const difference = (part: Part, state: string, remedy: string, other?: Part): Finding => ({
    about: 'tables',
    isError: isKnown && (BREAKS[part.kind]?.(part, other) ?? false),
    message: `${nameOf(part)} ${state}. As the owner, run: ${remedy};`,
  });

  const lacks = [...made].flatMap(([line, part]) => {
    const { object, kind } = part;
    const same = found.filter((one) => lineOf(one) === line);
    // Of a table that is missing, nothing else is told.
    const isLost = kind !== 'table' && !find(tableOf(part), 'table');
    if (isLost || same.some(({ repair }) => repair === null)) {
      return [];
    }
    const repair = same[0]?.repair;
    if (repair) {
      return difference(part, 'is invalid', repair);
    }
    // A table may have several keys, checks and indexes.
    const other = IS_ONE.test(kind) ? find(object, kind) : undefined;
    const state = other ? `is ${other.definition}` : 'is missing';
    return difference(part, state, remedyFor(part, other), other);
  });
  const others = found.filter(
    (one) => !made.has(lineOf(one)) && find(tableOf(one), 'table', made.values()),
  );
  const isInTheWay = ({ object, kind, repair }: Part) =>
    repair !== null &&
    (kind === 'rule' ||
      kind === (find(object, 'column', made.values()) ? 'generated' : 'required'));
  const obstacles = others
    .filter(isInTheWay)
    .map((part) => difference(part, 'keeps rows from being added', part.repair!));
  const additions = others.filter((one) => ADDED.test(one.kind) && !isInTheWay(one)).map(nameOf);
  return { differences: [...lacks, ...obstacles], additions };
}

const tableOf = ({ object }: Part) => object.split('.')[0]!;

const nameOf = ({ object, kind, definition }: Part) => `${object}: ${kind} ${definition}`.trim();

/** Kinds of which an object has one. */
const IS_ONE = /^(table|column|identity|default)$/;

const ADDED =
  /^(trigger|rule|generated|partitioned|inherited by|check|key|foreign key|exclusion|unique index)$/;

/** Whether listPets, createPet or getPet need it, by its kind; the `other` one is there instead. */
const BREAKS: Record<string, (part: Part, other?: Part) => boolean> = {
  table: ({ object }, other) => IS_NEEDED.test(object) && !other,
  column: ({ object, definition }, other) =>
    IS_NEEDED.test(object) && (!other || familyOf(definition) !== familyOf(other.definition)),
  key: ({ object }) => IS_NEEDED.test(object),
  // createPet gives the ids itself.
  identity: ({ object }, other) => object === 'pets.id' && other !== undefined,
  default: ({ object }) => object.startsWith('idempotency_keys.'),
  rule: ({ object }) => IS_WRITTEN.test(object),
  required: ({ object }) => IS_WRITTEN.test(object),
  generated: ({ object }) => IS_WRITTEN.test(object),
};

const IS_NEEDED = /^(pets|api_keys|idempotency_keys)\b/;
const IS_WRITTEN = /^(pets|idempotency_keys)\b/;

/** Types that PostgreSQL converts when it stores and compares values, so that most values still work. */
const familyOf = (type: string) => FAMILIES.find((family) => family.test(type)) ?? type;

const FAMILIES = [/^(character|text)/, /^(bigint|integer|numeric)/, /^timestamp/];

/** The statements that make a part, `%d` of the table `%t` or its column `%c`: if it is missing, or if another is there. */
const REMEDIES: Record<string, [missing: string, other?: string]> = {
  table: ['restore %t from a backup', 'alter table %t set logged'],
  column: ['alter table %t add column %c %d', 'alter table %t alter column %c type %d'],
  'not null': ['alter table %t alter column %c set not null'],
  default: ['alter table %t alter column %c set default %d'],
  identity: [
    'alter table %t alter column %c drop default, alter column %c add generated %d as identity',
    'alter table %t alter column %c set generated %d',
  ],
  index: ['create index concurrently on %t using %d'],
};

function remedyFor({ object, kind, definition }: Part, other?: Part): string {
  const [missing, changed = missing] = REMEDIES[kind] ?? ['alter table %t add %d'];
  const [t, c] = object.split('.');
  const values: Record<string, string | undefined> = { t, c, d: definition };
  return (other ? changed : missing).replaceAll(/%([tcd])/g, (_all, name) => values[name]!);
}
