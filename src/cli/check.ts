import { setTimeout as wait } from 'node:timers/promises';
import type { ConnectionOptions } from 'node:tls';
import { Client } from 'pg';
import type { DataSource } from 'typeorm';
import { type Environment, loadEnvironment } from '../config/environment.js';
import { poolOf } from '../database/data-source.js';
import { connectToServe, describe } from '../database/connect.js';
import { sqlState } from '../errors/database-error.js';
import { engineOf } from '../database/engine.js';
import { createLogger } from '../logging/logger.js';
import { OpenApiDocument } from '../openapi/openapi-document.js';
import {
  type Finding,
  type Queries,
  REFUSAL,
  stateOf,
  TABLES_WITH_ID,
} from '../schema/schema-state.js';
import { compareTables } from '../schema/tables.js';
import { onCommandDatabase } from './command.js';
import { print } from './print.js';

/** Checks whether a process could serve with this configuration. It changes no table. */
export async function check({ json, write }: { json?: true; write?: true }): Promise<void> {
  const checks: Check[] = [];
  await checkAll((one) => {
    checks.push(one);
    if (!json) {
      const { name, isOk: isWell, isWarning, message } = one;
      print(`${isWarning ? 'warn' : isWell ? 'ok  ' : 'FAIL'}  ${name}: ${message}`);
    }
  }, write);
  const isOk = checks.every((one) => one.isOk);
  if (json) {
    print(JSON.stringify({ isOk, checks }, undefined, 2));
  }
  process.exitCode = isOk ? 0 : 1;
}

/** @param level `warning` if something is missing that listPets, createPet and getPet do not need. */
const checkOf = (name: string, message: string, level?: 'warning' | 'error' | '' | null) => ({
  name,
  isOk: level !== 'error',
  ...(level === 'warning' && { isWarning: true }),
  message,
});

type Check = ReturnType<typeof checkOf>;

/** Milliseconds for a check: locks and slow servers would otherwise keep it, and all after it, waiting. */
const TIME_LIMIT = 4_000;

/** Reports each result as soon as it is known. */
async function checkAll(report: (check: Check) => void, isWriting = false): Promise<void> {
  let about = 'configuration';
  try {
    const environment = loadEnvironment();
    report(checkOf(about, 'valid'));
    report(await checkThat('program', readProgram(environment)));
    about = 'database';
    await onCommandDatabase(async ({ dataSource, url }) => {
      report(checkOf(about, await describe(url, dataSource)));
      report(checkOf('TLS', tlsOf(url)));
      const queries = limited(dataSource);
      const checks = {
        server: (each: Queries) => checksOf(each, SERVER),
        schema: checkSchema,
        tables: checkTables,
        ...ORDER,
        Citus: checkCitus,
        ...(isWriting && { create: checkCreate }),
      };
      for (const [name, check] of Object.entries(checks)) {
        const late = wait(TIME_LIMIT, undefined, { ref: false });
        const inTime = await Promise.race([check(queries).catch(failed(name)), late]);
        const results = inTime ?? [checkOf(name, await locksOn(queries), 'error')];
        [results].flat().forEach(report);
      }
      report(await checkThat('sessions', openSessions(url, environment)));
      if (environment.DATABASE_READ_URL !== undefined) {
        report(await checkStandbys(dataSource, environment).catch(failed('standbys')));
      }
    }, environment);
  } catch (error) {
    report(checkOf(about, (error as Error).message, 'error'));
  }
}

/** PostgreSQL cancels statements some time after the limit: until then, {@link LOCKS} shows what they wait for. */
const limited = (dataSource: DataSource): Queries => ({
  query: (sql: string, values?: any[]) =>
    dataSource.transaction(async (transaction) => {
      await transaction.query(`set local statement_timeout = ${2 * TIME_LIMIT}`);
      return transaction.query(sql, values);
    }),
});

/** Sessions that others wait for, and that wait for none. A role sees little of those of other roles. */
const LOCKS = `
  select format('Session %s (role %s, program %L) blocks %s. To end it, run: select pg_terminate_backend(%1$s);',
                one.pid, one.usename, one.application_name, string_agg(waiting.pid::text, ', ')) as message
    from pg_stat_activity as waiting, unnest(pg_blocking_pids(waiting.pid)) as pid
    join pg_stat_activity as one using (pid)
   where cardinality(pg_blocking_pids(one.pid)) = 0
   group by one.pid, one.usename, one.application_name`;

async function locksOn(dataSource: Queries): Promise<string> {
  const locks = await dataSource.query<{ message: string }[]>(LOCKS);
  const found = locks.map(({ message }) => message).join(' ') || 'No lock is in the way.';
  return `no result in ${TIME_LIMIT / 1000} seconds. ${found}`;
}

const SERVER = `
  select 'server version' as name, null as level, 'PostgreSQL ' || current_setting('server_version') as message
   union all
  select 'writes', case when reason <> '' then 'error' end, coalesce(reason, 'accepted') from (${REFUSAL}) as refusal
   union all
  select 'commits', 'warning', 'synchronous_commit is off: a crash of PostgreSQL loses pets that were acknowledged'
   where current_setting('synchronous_commit') = 'off'`;

/** With a finding, the others are not sure: it may be the right to read the migrations. */
async function checkSchema(dataSource: Queries): Promise<Check[]> {
  const { findings } = await stateOf(dataSource);
  return findings.length === 0
    ? [checkOf('migrations', 'all applied'), checkOf('rights', 'all that the service needs')]
    : findings.map(checkOfFinding);
}

const checkOfFinding = ({ about, message, isError }: Finding) =>
  checkOf(about, message, isError ? 'error' : 'warning');

async function checkTables(dataSource: Queries): Promise<Check[]> {
  // If the role may not read them, or none is applied, the check of migrations has said so.
  const { applied } = await stateOf(dataSource);
  if (applied.length === 0) {
    return [];
  }
  const { differences, additions } = await compareTables(dataSource, applied);
  return [
    ...(differences.length === 0 ? [checkOf('tables', 'as the migrations make them')] : []),
    ...differences.map(checkOfFinding),
    checkOf('additions', additions.join('; ') || 'none that may make writes fail'),
  ];
}

const failed = (name: string) => (error: Error) => checkOf(name, error.message, 'error');

const checkThat = (name: string, work: Promise<string>): Promise<Check> =>
  work.then((message) => checkOf(name, message), failed(name));

/** Whether the connection is encrypted. If pg is to encrypt or to verify and cannot, it does not connect. */
function tlsOf(url: string): string {
  const ssl: unknown = new Client({ connectionString: url }).ssl;
  if (!ssl) {
    return 'off: the connection is not encrypted';
  }
  const isVerified = (ssl as ConnectionOptions).rejectUnauthorized !== false;
  return `on, and the server's certificate is ${isVerified ? '' : 'not '}verified`;
}

/** Indexes on text may be out of order after an upgrade of the library that compares it. PostgreSQL 14 cannot tell. */
const COLLATION = `
  select 'collation' as name, 'warning' as level,
         format('indexes on text were built with version %s of the collation, and the server has %s. ' ||
                'As the owner, run each alone: reindex database concurrently %3$I; alter database %3$I refresh collation version;',
                datcollversion, actual, datname) as message
    from pg_database, pg_database_collation_actual_version(oid) as actual
   where datname = current_database() and datcollversion <> actual`;

/** Logical replication, and a copy of rows alone, do not advance sequences. Only the sequence knows its next number. */
const sequenceOf = (table: string) => `
  select 'sequences' as name, case when fault <> '' then '${table === 'pets' ? 'error' : 'warning'}' end as level,
         '${table}_id_seq is ' || coalesce(fault, 'past the highest id') as message
    from ${table}_id_seq, pg_sequence, (select max(id) as highest from ${table}) as ids,
         lateral (select last_value::numeric + case when is_called then seqincrement else 0 end as next) as following,
         lateral (select case
           when next not between seqmin and seqmax
             then format('at its MAXVALUE, %s: new rows are rejected. As the owner, run: alter sequence ${table}_id_seq no maxvalue;',
                         seqmax)
           when next <= highest
             then format('behind the highest id of ${table}, %s: new rows are rejected. As the owner, run: ' ||
                         'select setval(''${table}_id_seq'', (select max(id) from ${table}));', highest)
           end as fault) as faults
   where seqrelid = '${table}_id_seq'::regclass`;

type Row = { name: string; message: string; level: 'warning' | 'error' | null };

const checksOf = async (queries: Queries, sql: string): Promise<Check[]> =>
  (await queries.query<Row[]>(sql)).map((row) => checkOf(row.name, row.message, row.level));

const sequenceCheck = (table: string) => (queries: Queries) =>
  checksOf(queries, sequenceOf(table)).catch((error: Error) => {
    const cannotTell = `${table}_id_seq may be behind the highest id: ${error.message}`;
    // If a table is missing, the checks of migrations and tables say so.
    return sqlState(error) === '42P01' ? [] : [checkOf('sequences', cannotTell, 'warning')];
  });

const ORDER = {
  collation: (queries: Queries) =>
    checksOf(queries, COLLATION).catch((error: Error) =>
      // PostgreSQL 14 lacks the function.
      sqlState(error) === '42883' ? [] : Promise.reject(error),
    ),
  ...Object.fromEntries(
    TABLES_WITH_ID.map((table) => [`sequence of ${table}`, sequenceCheck(table)]),
  ),
};

/** The nodes, which a list asks all, and whether the tables are distributed. */
const CITUS = `
  select 'Citus' as name, case when not is_up then 'error' end as level,
         format('%s:%s %s', nodename, nodeport, case when is_up then 'responds' else
                'does not respond, or does not let this role log in: all lists fail, and most creates and gets' end) as message
    from pg_dist_node, citus_check_connection_to_node(nodename, nodeport) as is_up
   where isactive and noderole = 'primary'
   union all
  select 'Citus', case when count(*) < 3 then 'warning' end,
         case when count(*) < 3 then 'the tables are not distributed. Do that as docs/citus.md says, also after a restore'
              else 'the tables are distributed. Restart each process that started before that' end
    from pg_dist_partition
   where partmethod = 'h'
     and logicalrelid in (to_regclass('pets'), to_regclass('orders'), to_regclass('idempotency_keys'))`;

const checkCitus = async (queries: Queries): Promise<Check[]> =>
  (await engineOf(queries)) === 'citus' ? checksOf(queries, CITUS) : [];

/** Reads what `serve` reads at its start: its modules and packages, the pages, and the OpenAPI document. */
async function readProgram(environment: Environment): Promise<string> {
  await import('./serve.js');
  const { readPages } = await import('../docs/docs.controller.js');
  readPages();
  new OpenApiDocument(environment);
  return 'has its files';
}

async function openSessions(url: string, environment: Environment): Promise<string> {
  await (await connectToServe(url, environment)).destroy();
  return 'have their settings';
}

/** SQLSTATE with which {@link CREATE} rolls back. */
const CREATED = 'CK000';

/** A create with an Idempotency-Key, and the triggers of its commit. */
const CREATE = `
  do $$ begin
    insert into pets (id, name, category_id) values (nextval('pets_id_seq'), 'check', 0);
    insert into idempotency_keys (api_key_id, key, body_hash, pet_id)
      select coalesce(min(id), 0), 'none of a client', '', currval('pets_id_seq') from api_keys;
    set constraints all immediate;
    raise 'works: a pet was created and rolled back, and its id is used up' using errcode = '${CREATED}';
  end $$`;

const checkCreate = (queries: Queries): Promise<Check[]> =>
  queries
    .query(CREATE)
    .catch((error: Error) => [
      checkOf('create', error.message, sqlState(error) === CREATED ? null : 'error'),
    ]);

async function checkStandbys(dataSource: DataSource, environment: Environment): Promise<Check> {
  const { Standbys } = await import('../standbys/standbys.js');
  const logger = createLogger('silent', { write: () => {} });
  const standbys = new Standbys(poolOf(dataSource), environment, logger);
  await standbys.onModuleInit().finally(() => standbys.onApplicationShutdown());
  const states = standbys.states.map(({ server, reason }) => `${server}: ${reason ?? 'in use'}`);
  const areUsed = standbys.states.every(({ reason }) => reason === undefined);
  return checkOf('standbys', states.join('; '), areUsed ? null : 'warning');
}
