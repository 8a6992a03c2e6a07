import type { ConnectionOptions } from 'node:tls';
import type { Command } from 'commander';
import { Client } from 'pg';
import type { DataSource } from 'typeorm';
import { type Environment, loadEnvironment } from '../config/environment.js';
import { poolOf } from '../database/data-source.js';
import { connectToServe, describe } from '../database/connect.js';
import { engineOf } from '../database/engine.js';
import { createLogger } from '../logging/logger.js';
import { findingsOf } from '../schema/schema-state.js';
import { onCommandDatabase } from './command.js';

/** `animal-store check`: checks whether a process could serve with this configuration. It changes no table. */
export function addCheck(program: Command): void {
  program
    .command('check')
    .description('check the configuration, the database, its migrations and the rights of its role')
    .option('--json', 'print JSON')
    .action(async ({ json }: { json?: true }) => {
      const checks: Check[] = [];
      await checkAll(checks);
      const isOk = checks.every((check) => check.isOk);
      if (json) {
        console.log(JSON.stringify({ isOk, checks }, undefined, 2));
      } else {
        for (const { name, isOk: isWell, isWarning, message } of checks) {
          console.log(`${isWarning ? 'warn' : isWell ? 'ok  ' : 'FAIL'}  ${name}: ${message}`);
        }
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

async function checkAll(checks: Check[]): Promise<void> {
  try {
    const environment = loadEnvironment();
    checks.push(checkOf('configuration', 'valid'));
    await onCommandDatabase(environment, async (dataSource, url) => {
      checks.push(checkOf('database', await describe(url, dataSource)));
      checks.push(checkOf('TLS', tlsOf(url)), ...(await checkServer(dataSource)));
      checks.push(...(await checkSchema(dataSource)), ...(await checkOrder(dataSource)));
      checks.push(...(await checkCitus(dataSource)));
      checks.push(await checkThat('sessions', openSessions(url, environment)));
      if (environment.DATABASE_READ_URL !== undefined) {
        checks.push(await checkThat('standbys', statesOfStandbys(dataSource, environment)));
      }
    });
  } catch (error) {
    const name = checks.length === 0 ? 'configuration' : 'database';
    checks.push(checkOf(name, (error as Error).message, 'error'));
  }
}

async function checkServer(dataSource: DataSource): Promise<Check[]> {
  const show = (name: string) => dataSource.query<[Record<string, string>]>(`show ${name}`);
  const [{ server_version }] = await show('server_version');
  const [{ transaction_read_only }] = await show('transaction_read_only');
  return [
    checkOf('server version', `PostgreSQL ${server_version}`),
    transaction_read_only === 'on'
      ? checkOf('writes', 'the database is read-only', 'error')
      : checkOf('writes', 'accepted'),
  ];
}

/** With a finding, the others are not sure: it may be the right to read the migrations. */
async function checkSchema(dataSource: DataSource): Promise<Check[]> {
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

async function checkCitus(dataSource: DataSource): Promise<Check[]> {
  const rows = (await engineOf(dataSource)) === 'citus' ? await dataSource.query<Row[]>(CITUS) : [];
  return rows.map(({ name, message, level }) => checkOf(name, message, level));
}

type Row = { name: string; message: string; level: 'warning' | 'error' | null };

/** If a table is missing, or the right to read it, the checks of migrations and rights say so. */
async function checkOrder(dataSource: DataSource): Promise<Check[]> {
  const queries = [COLLATION, ...['pets', 'api_keys', 'orders', 'migrations'].map(sequenceOf)];
  const rows = queries.map((sql) => dataSource.query<Row[]>(sql).catch(() => []));
  return (await Promise.all(rows)).flat().map((row) => checkOf(row.name, row.message, row.level));
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
