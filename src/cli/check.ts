import { setTimeout as wait } from 'node:timers/promises';
import type { ConnectionOptions } from 'node:tls';
import type { Command } from 'commander';
import { Client } from 'pg';
import type { DataSource } from 'typeorm';
import { type Environment, loadEnvironment } from '../config/environment.js';
import { poolOf } from '../database/data-source.js';
import { connectToServe, describe } from '../database/connect.js';
import { createLogger } from '../logging/logger.js';
import { OpenApiDocument } from '../openapi/openapi-document.js';
import { findingsOf } from '../schema/schema-state.js';
import { onCommandDatabase } from './command.js';
import { print } from './print.js';

/** `animal-store check`: checks whether a process could serve with this configuration. It changes no table. */
export function addCheck(program: Command): void {
  program
    .command('check')
    .description('check the configuration, the database, its migrations and the rights of its role')
    .option('--json', 'print JSON')
    .action(async ({ json }: { json?: true }) => {
      const checks: Check[] = [];
      await checkAll((check) => {
        checks.push(check);
        if (!json) {
          const { name, isOk: isWell, isWarning, message } = check;
          print(`${isWarning ? 'warn' : isWell ? 'ok  ' : 'FAIL'}  ${name}: ${message}`);
        }
      });
      const isOk = checks.every((check) => check.isOk);
      if (json) {
        print(JSON.stringify({ isOk, checks }, undefined, 2));
      }
      process.exitCode = isOk ? 0 : 1;
    });
}

/** @param level `warning` if something is missing that listPets, createPet and getPet do not need. */
const checkOf = (name: string, message: string, level?: 'warning' | 'error' | null) => ({
  name,
  isOk: level !== 'error',
  ...(level === 'warning' && { isWarning: true }),
  message,
});

type Check = ReturnType<typeof checkOf>;

/** Milliseconds for a check: locks and slow servers would otherwise keep it, and all after it, waiting. */
const TIME_LIMIT = 4_000;

/** Reports each result as soon as it is known. */
async function checkAll(report: (check: Check) => void): Promise<void> {
  let about = 'configuration';
  try {
    const environment = loadEnvironment();
    report(checkOf(about, 'valid'));
    report(await checkThat('program', readProgram(environment)));
    about = 'database';
    await onCommandDatabase(environment, async (dataSource, url) => {
      report(checkOf(about, await describe(url, dataSource)));
      report(checkOf('TLS', tlsOf(url)));
      const queries = limited(dataSource);
      const checks = { server: checkServer, schema: checkSchema, ...ORDER };
      for (const [name, check] of Object.entries(checks)) {
        const late = wait(TIME_LIMIT, undefined, { ref: false });
        const inTime = await Promise.race([check(queries), late]);
        const results = inTime ?? [checkOf(name, await locksOn(queries), 'error')];
        results.forEach(report);
      }
      report(await checkThat('sessions', openSessions(url, environment)));
      if (environment.DATABASE_READ_URL !== undefined) {
        report(await checkThat('standbys', statesOfStandbys(dataSource, environment)));
      }
    });
  } catch (error) {
    report(checkOf(about, (error as Error).message, 'error'));
  }
}

type Queries = Pick<DataSource, 'query'>;

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

async function checkServer(dataSource: Queries): Promise<Check[]> {
  const show = (name: string) => dataSource.query<[Record<string, string>]>(`show ${name}`);
  const [{ server_version }] = await show('server_version');
  const [{ transaction_read_only }] = await show('transaction_read_only');
  return [
    checkOf('server version', `PostgreSQL ${server_version}`),
    transaction_read_only === 'on'
      ? checkOf('writes', 'the database is read-only', 'error')
      : checkOf('writes', 'the server is not read-only'),
  ];
}

/** With a finding, the others are not sure: it may be the right to read the migrations. */
async function checkSchema(dataSource: Queries): Promise<Check[]> {
  const findings = await findingsOf(dataSource);
  return findings.length === 0
    ? [checkOf('migrations', 'all applied'), checkOf('rights', 'all that the service needs')]
    : findings.map((one) => checkOf(one.about, one.message, one.isError ? 'error' : 'warning'));
}

const checkThat = (name: string, work: Promise<string>): Promise<Check> =>
  work.then(
    (message) => checkOf(name, message),
    (error: Error) => checkOf(name, error.message, 'error'),
  );

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
         format('indexes on text were built with version %s of the collation, and the server has %s. As the owner, run: ' ||
                'reindex database concurrently %3$I; alter database %3$I refresh collation version;',
                datcollversion, coalesce(actual, 'none'), datname) as message
    from pg_database, pg_database_collation_actual_version(oid) as actual
   where datname = current_database() and datcollversion <> coalesce(actual, '')`;

/** Logical replication, and a copy of rows alone, do not advance sequences. */
const sequenceOf = (table: string) => `
  select 'sequences' as name, case when fault <> '' then '${table === 'pets' ? 'error' : 'warning'}' end as level,
         format('%s is %s', sequencename, coalesce(fault, 'past the highest id')) as message
    from pg_sequences, (select max(id) as highest from ${table}) as ids,
         lateral (select coalesce(last_value::numeric + increment_by, start_value) as next) as following,
         lateral (select case
           when next not between min_value and max_value
             then format('at its MAXVALUE, %s: new rows are rejected. As the owner, run: alter sequence %I no maxvalue;',
                         max_value, sequencename)
           when next <= highest
             then format('behind the highest id of ${table}, %s: new rows are rejected. ' ||
                         'As the owner, run: select setval(%L, (select max(id) from ${table}));', highest, sequencename)
           end as fault) as faults
   where schemaname = current_schema() and sequencename = '${table}_id_seq'
     and has_sequence_privilege(to_regclass(sequencename::text), 'usage, select')`;

/** If a table is missing, or the right to read it, the checks of migrations and rights say so. */
const checkOrder = (sql: string) => (dataSource: Queries) =>
  dataSource
    .query<{ name: string; message: string; level: 'warning' | 'error' | null }[]>(sql)
    .then((rows) => rows.map((row) => checkOf(row.name, row.message, row.level)))
    .catch(() => []);

const ORDER = {
  collation: checkOrder(COLLATION),
  ...Object.fromEntries(
    ['pets', 'api_keys', 'orders', 'migrations'].map((table) => [
      `sequence of ${table}`,
      checkOrder(sequenceOf(table)),
    ]),
  ),
};

/** Reads what `serve` reads at its start: its modules and packages, the pages, and the OpenAPI document. */
async function readProgram(environment: Environment): Promise<string> {
  await import('./serve.js');
  const { DocsController } = await import('../docs/docs.controller.js');
  new DocsController();
  new OpenApiDocument(environment);
  return 'has its files';
}

async function openSessions(url: string, environment: Environment): Promise<string> {
  await (await connectToServe(url, environment)).destroy();
  return 'have their settings';
}

async function statesOfStandbys(dataSource: DataSource, environment: Environment): Promise<string> {
  const { Standbys } = await import('../standbys/standbys.js');
  const logger = createLogger('silent', { write: () => {} });
  const standbys = new Standbys(poolOf(dataSource), environment, logger);
  await standbys.onModuleInit().finally(() => standbys.onApplicationShutdown());
  return standbys.states.map(({ server, reason }) => `${server}: ${reason ?? 'in use'}`).join('; ');
}
