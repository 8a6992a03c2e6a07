import type { ConnectionOptions } from 'node:tls';
import type { Command } from 'commander';
import { Client } from 'pg';
import type { DataSource } from 'typeorm';
import { MIGRATION_NAMES } from '../../migrations/index.js';
import { withoutPassword } from '../config/database-url.js';
import { type Environment, loadEnvironment } from '../config/environment.js';
import { administrativeDataSource, poolOf } from '../database/data-source.js';
import { connected, OLDEST_VERSION } from '../database/database.js';
import { createLogger } from '../logging/logger.js';
import { appliedMigrations } from '../schema/bookkeeping.js';
import { type Finding, findingsOf } from '../schema/schema-state.js';
import { addCommand, describe, onCommandDatabase } from './command.js';
import { connectService } from './serving-database.js';

interface Check {
  name: string;
  isOk: boolean;
  /** True if something is missing that listPets, createPet and getPet do not need. */
  isWarning?: true;
  /** The result, or the error. */
  message: string;
}

/** `animal-store check`: checks whether a process could serve with this configuration. It changes no table. */
export function addCheck(program: Command): void {
  addCommand(
    program,
    'check',
    'check the configuration, the database, its migrations and the rights of its role',
    { 0: 'all is well', 1: 'something is wrong, as printed' },
  )
    .option('--json', 'print JSON')
    .action(async ({ json }: { json?: true }) => {
      const checks: Check[] = [];
      const configuration = maskedOf(await checkAll(checks));
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

/** Without the passwords in URLs. */
function maskedOf(environment?: Environment) {
  const { DATABASE_URL, DATABASE_READ_URL } = environment ?? {};
  return (
    environment && {
      ...environment,
      DATABASE_URL: DATABASE_URL && withoutPassword(DATABASE_URL),
      DATABASE_READ_URL: DATABASE_READ_URL && withoutPassword(DATABASE_READ_URL),
    }
  );
}

const ok = (name: string, message: string): Check => ({ name, isOk: true, message });
const warned = (name: string, message: string): Check => ({
  ...ok(name, message),
  isWarning: true,
});
const failed = (name: string, { message }: Error): Check => ({ name, isOk: false, message });

/** Adds the checks in order. Stops if the configuration is invalid or the database cannot be used. */
async function checkAll(checks: Check[]): Promise<Environment | undefined> {
  let environment: Environment | undefined;
  try {
    environment = loadEnvironment();
    checks.push(ok('configuration', 'valid'));
    await onCommandDatabase(environment, (url) => checkDatabase(url, environment!, checks));
  } catch (error) {
    checks.push(failed(environment === undefined ? 'configuration' : 'database', error as Error));
  }
  return environment;
}

async function checkDatabase(url: string, environment: Environment, checks: Check[]) {
  const dataSource = await connected(() => administrativeDataSource(url));
  try {
    checks.push(ok('database', await describe(url, dataSource)), ok('TLS', tlsOf(url)));
    const [{ isOld, version, encoding, isReadOnly }] = await dataSource.query(
      `select current_setting('server_version_num')::int < ${OLDEST_VERSION} as "isOld",
              current_setting('server_version') as version,
              current_setting('server_encoding') as encoding,
              current_setting('transaction_read_only')::boolean as "isReadOnly"`,
    );
    checks.push(
      isOld
        ? failed('server version', Error(`PostgreSQL ${version}; the service needs 14 or later`))
        : ok('server version', `PostgreSQL ${version}`),
      encoding === 'UTF8'
        ? ok('encoding', encoding)
        : failed('encoding', Error(`${encoding} must be UTF8`)),
      isReadOnly ? failed('writes', Error('the database is read-only')) : ok('writes', 'accepted'),
      ...(await checkSchema(dataSource)),
      ...(await checkSequences(dataSource)),
      await connectService(url, environment)
        .then((service) => service.destroy())
        .then(
          () => ok('sessions', 'have their settings'),
          (error) => failed('sessions', error),
        ),
    );
    if (environment.DATABASE_READ_URL !== undefined) {
      checks.push(await checkStandbys(dataSource, environment));
    }
  } finally {
    await dataSource.destroy();
  }
}

async function checkSchema(dataSource: DataSource): Promise<Check[]> {
  const findings = await findingsOf(dataSource);
  const lacks = (what: Finding['about']) => findings.some(({ about }) => about === what);
  const checks = findings.map(({ about, isError, message }) =>
    isError ? failed(about, Error(message)) : warned(about, message),
  );
  // Without the right to read them, the rights are not well.
  const applied = await appliedMigrations(dataSource).catch(() => undefined);
  if (!lacks('schema') && !lacks('migrations') && applied !== undefined) {
    const names = applied.map(({ name }) => name);
    const later = names.filter((name) => !MIGRATION_NAMES.includes(name));
    const ofLater = later.length > 0 ? `; of later versions: ${later.join(', ')}` : '';
    checks.unshift(ok('migrations', `all applied${ofLater}`));
  }
  // Rights on tables that do not exist cannot be checked.
  if (!lacks('rights') && !findings.some(({ isError }) => isError)) {
    checks.push(ok('rights', 'all that the service needs'));
  }
  return checks;
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

/**
 * Compares the next id of each table with the highest one, as far as the role may see them. Logical replication, and a
 * copy of the rows alone, do not advance the sequences.
 */
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
      const isError = table === 'pets';
      checks.push(isError ? failed('sequences', Error(message)) : warned('sequences', message));
    } else if (row !== undefined) {
      checks.push(ok('sequences', `${sequence} is past the highest id`));
    }
  }
  return checks;
}

/** It is no error if a standby is behind or cannot be reached: the primary serves the reads then. */
async function checkStandbys(dataSource: DataSource, environment: Environment): Promise<Check> {
  const { Standbys } = await import('../standbys/standbys.js');
  const logger = createLogger('silent', { write: () => {} });
  const standbys = new Standbys(poolOf(dataSource), environment, logger);
  try {
    await standbys.onModuleInit();
    const states = standbys.states.map(({ server, reason }) => `${server}: ${reason ?? 'in use'}`);
    return ok('standbys', states.join('; '));
  } catch (error) {
    return failed('standbys', error as Error);
  } finally {
    standbys.onApplicationShutdown();
  }
}
