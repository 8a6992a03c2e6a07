import type { ConnectionOptions } from 'node:tls';
import type { Command } from 'commander';
import { Client } from 'pg';
import type { DataSource } from 'typeorm';
import { type Environment, loadEnvironment } from '../config/environment.js';
import { poolOf } from '../database/data-source.js';
import { connectToServe, describe } from '../database/connect.js';
import { sqlState } from '../errors/database-error.js';
import { engineOf } from '../database/engine.js';
import { inTransaction, withSession } from '../database/statement.js';
import { CitusPetStore } from '../pets/citus-pet-store.js';
import { NewPet } from '../pets/new-pet.dto.js';
import { PostgresPetStore } from '../pets/postgres-pet-store.js';
import { createLogger } from '../logging/logger.js';
import { appliedMigrations, findingsOf, REFUSAL } from '../schema/schema-state.js';
import { compareTables } from '../schema/tables.js';
import { onCommandDatabase } from './command.js';

/** `animal-store check`: checks whether a process could serve with this configuration. It changes no table. */
export function addCheck(program: Command): void {
  program
    .command('check')
    .description('check the configuration, the database, its migrations and the rights of its role')
    .option('--json', 'print JSON')
    .option('--write', 'also create a pet and roll it back; this uses an id up')
    .action(async ({ json, write }: { json?: true; write?: true }) => {
      const checks: Check[] = [];
      await checkAll(checks, write);
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
const checkOf = (name: string, message: string, level?: 'warning' | 'error' | '' | null) => ({
  name,
  isOk: level !== 'error',
  ...(level === 'warning' && { isWarning: true }),
  message,
});

type Check = ReturnType<typeof checkOf>;

async function checkAll(checks: Check[], isWriting = false): Promise<void> {
  try {
    const environment = loadEnvironment();
    checks.push(checkOf('configuration', 'valid'));
    await onCommandDatabase(environment, async (dataSource, url) => {
      checks.push(checkOf('database', await describe(url, dataSource)));
      checks.push(checkOf('TLS', tlsOf(url)), ...(await checkServer(dataSource)));
      checks.push(...(await checkSchema(dataSource)), ...(await checkOrder(dataSource)));
      checks.push(await checkThat('sessions', openSessions(url, environment)));
      if (isWriting) {
        checks.push(await checkThat('create', createPet(url, environment)));
      }
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
  const [{ reason }] = await dataSource.query<[{ reason: string | null }]>(REFUSAL);
  return [
    checkOf('server version', `PostgreSQL ${server_version}`),
    checkOf('writes', reason ?? 'accepted', reason && 'error'),
  ];
}

/** With a finding, the others are not sure: it may be the right to read the migrations. */
async function checkSchema(dataSource: DataSource): Promise<Check[]> {
  const findings = await findingsOf(dataSource);
  if (findings.length > 0) {
    return findings.map((one) =>
      checkOf(one.about, one.message, one.isError ? 'error' : 'warning'),
    );
  }
  const { additions } = await compareTables(dataSource, await appliedMigrations(dataSource));
  return [
    checkOf('migrations', 'all applied'),
    checkOf('tables', 'as the migrations make them'),
    checkOf('additions', additions.join('; ') || 'none that may make writes fail'),
    checkOf('rights', 'all that the service needs'),
  ];
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

async function checkOrder(dataSource: DataSource): Promise<Check[]> {
  type Row = { name: string; message: string; level: 'warning' | 'error' | null };
  const sequences = ['pets', 'api_keys', 'orders', 'migrations'].map((table) =>
    dataSource.query<Row[]>(sequenceOf(table)).catch((error: Error): Row[] => {
      const cannotTell = `${table}_id_seq may be behind the highest id: ${error.message}`;
      // If a table is missing, the checks of migrations and tables say so.
      return sqlState(error) === '42P01'
        ? []
        : [{ name: 'sequences', message: cannotTell, level: 'warning' }];
    }),
  );
  // PostgreSQL 14 lacks the column.
  const collation = dataSource.query<Row[]>(COLLATION).catch(() => []);
  const rows = (await Promise.all([collation, ...sequences])).flat();
  return rows.map((row) => checkOf(row.name, row.message, row.level));
}

async function openSessions(url: string, environment: Environment): Promise<string> {
  await (await connectToServe(url, environment)).destroy();
  return 'have their settings';
}

/** Runs a create as the service does, with the triggers that would run at its commit, and rolls it back. */
async function createPet(url: string, environment: Environment): Promise<string> {
  const dataSource = await connectToServe(url, environment);
  try {
    const isCitus = (await engineOf(dataSource)) === 'citus';
    // Its inserts do not use standbys.
    const [standbys, pet] = [undefined as never, Object.assign(new NewPet(), PET)];
    const store = new (isCitus ? CitusPetStore : PostgresPetStore)(standbys);
    const creation = { apiKeyId: '0', key: 'check', bodyHash: '', pet };
    await withSession(poolOf(dataSource), (session) =>
      inTransaction(session, async () => {
        // On Citus, a create with a key has a transaction of its own.
        await (isCitus ? store.insert([pet], session) : store.insertOnce([creation], session));
        await session.query('set constraints all immediate');
        return undefined;
      }),
    );
    return 'works: a pet was created and rolled back, and its id is used up';
  } finally {
    await dataSource.destroy();
  }
}

const PET = { name: 'check', categoryId: 0n };

async function statesOfStandbys(dataSource: DataSource, environment: Environment): Promise<string> {
  const { Standbys } = await import('../standbys/standbys.js');
  const logger = createLogger('silent', { write: () => {} });
  const standbys = new Standbys(poolOf(dataSource), environment, logger);
  await standbys.onModuleInit().finally(() => standbys.onApplicationShutdown());
  return standbys.states.map(({ server, reason }) => `${server}: ${reason ?? 'in use'}`).join('; ');
}
