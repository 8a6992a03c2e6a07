import type { ConnectionOptions } from 'node:tls';
import type { Command } from 'commander';
import { Client } from 'pg';
import type { DataSource } from 'typeorm';
import { withoutPassword } from '../config/database-url.js';
import { type Environment, loadEnvironment } from '../config/environment.js';
import { connectService } from '../connect-service.js';
import { poolOf } from '../database/data-source.js';
import { administer, describe } from '../database/database.js';
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
      const environment = await checkAll(checks);
      const configuration = environment && {
        ...environment,
        DATABASE_URL: masked(environment.DATABASE_URL),
        DATABASE_READ_URL: masked(environment.DATABASE_READ_URL),
      };
      const isOk = checks.every((check) => check.isOk);
      if (json) {
        console.log(JSON.stringify({ isOk, configuration, checks }, undefined, 2));
      } else {
        for (const [name, value] of Object.entries(configuration ?? {})) {
          console.log(`${name}=${value ?? ''}`);
        }
        for (const { name, isOk: isWell, isWarning, message } of checks) {
          console.log(`${isWarning ? 'warn' : isWell ? 'ok  ' : 'FAIL'}  ${name}: ${message}`);
        }
      }
      process.exitCode = isOk ? 0 : 1;
    });
}

const masked = (url?: string) => url && withoutPassword(url);

/** @param level `warning` if something is missing that listPets, createPet and getPet do not need. */
const checkOf = (name: string, message: string, level?: 'warning' | 'error') => ({
  name,
  isOk: level !== 'error',
  ...(level === 'warning' && { isWarning: true }),
  message,
});

type Check = ReturnType<typeof checkOf>;

async function checkAll(checks: Check[]): Promise<Environment | undefined> {
  let environment: Environment | undefined;
  try {
    const given = (environment = loadEnvironment());
    checks.push(checkOf('configuration', 'valid'));
    await onCommandDatabase(given, (url) =>
      administer(url, async (dataSource) => {
        checks.push(checkOf('database', await describe(url, dataSource)));
        checks.push(checkOf('TLS', tlsOf(url)), ...(await checkServer(dataSource)));
        checks.push(...(await checkSchema(dataSource)), ...(await checkSequences(dataSource)));
        checks.push(await checkSessions(url, given));
        if (given.DATABASE_READ_URL !== undefined) {
          checks.push(await checkStandbys(dataSource, given));
        }
      }),
    );
  } catch (error) {
    const name = environment === undefined ? 'configuration' : 'database';
    checks.push(checkOf(name, (error as Error).message, 'error'));
  }
  return environment;
}

async function checkServer(dataSource: DataSource): Promise<Check[]> {
  const [{ server_version }] = await dataSource.query('show server_version');
  const [{ transaction_read_only }] = await dataSource.query('show transaction_read_only');
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
    : findings.map((it) => checkOf(it.about, it.message, it.isError ? 'error' : 'warning'));
}

async function checkSessions(url: string, environment: Environment): Promise<Check> {
  try {
    await (await connectService(url, environment)).destroy();
    return checkOf('sessions', 'have their settings');
  } catch (error) {
    return checkOf('sessions', (error as Error).message, 'error');
  }
}

/** Whether the connection is encrypted. If pg is to encrypt or to verify and cannot, it does not connect. */
function tlsOf(url: string): string {
  const ssl: unknown = new Client({ connectionString: url }).ssl;
  if (!ssl) {
    return 'off: the connection is not encrypted';
  }
  const isVerified = (ssl as ConnectionOptions).rejectUnauthorized !== false;
  return `on, and the server's certificate is ${isVerified ? '' : 'not '}verified`;
}

/** Compares next ids with the highest ones. Logical replication, and a copy of rows alone, do not advance sequences. */
async function checkSequences(dataSource: DataSource): Promise<Check[]> {
  const checks: Check[] = [];
  for (const table of ['pets', 'api_keys', 'orders', 'migrations']) {
    const sequence = `${table}_id_seq`;
    const [row] = await dataSource
      .query(
        `select highest, coalesce(last_value + increment_by, start_value) <= highest as "isBehind"
           from pg_sequences, (select max(id) as highest from ${table}) as ids
          where schemaname = current_schema() and sequencename = $1
            and has_sequence_privilege(to_regclass($1), 'usage, select')`,
        [sequence],
      )
      // Without the table, or the right to read it, the checks of migrations and rights say so.
      .catch(() => []);
    if (row?.isBehind) {
      const message =
        `${sequence} is behind the highest id of ${table}, ${row.highest}: new rows are rejected. ` +
        `As the owner, run: select setval('${sequence}', (select max(id) from ${table}));`;
      checks.push(checkOf('sequences', message, table === 'pets' ? 'error' : 'warning'));
    } else if (row !== undefined) {
      checks.push(checkOf('sequences', `${sequence} is past the highest id`));
    }
  }
  return checks;
}

async function checkStandbys(dataSource: DataSource, environment: Environment): Promise<Check> {
  const { Standbys } = await import('../standbys/standbys.js');
  const logger = createLogger('silent', { write: () => {} });
  const standbys = new Standbys(poolOf(dataSource), environment, logger);
  try {
    await standbys.onModuleInit();
    const states = standbys.states.map(({ server, reason }) => `${server}: ${reason ?? 'in use'}`);
    return checkOf('standbys', states.join('; '));
  } catch (error) {
    return checkOf('standbys', (error as Error).message, 'error');
  } finally {
    standbys.onApplicationShutdown();
  }
}
