import type { Command } from 'commander';
import type { DataSource } from 'typeorm';
import { MIGRATION_NAMES } from '../../migrations/index.js';
import { withoutPassword } from '../config/database-url.js';
import { type Environment, loadEnvironment } from '../config/environment.js';
import { administrativeDataSource, poolOf } from '../database/data-source.js';
import { connected, OLDEST_VERSION } from '../database/database.js';
import { appliedMigrations } from '../schema/bookkeeping.js';
import { findingsOf } from '../schema/schema-state.js';
import { createLogger } from '../logging/logger.js';
import { describe, onCommandDatabase } from './command-database.js';
import { exitCodes } from './exit-codes.js';
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
  program
    .command('check')
    .description('check the configuration, the database, its migrations and the rights of its role')
    .option('--json', 'print JSON')
    .addHelpText('after', exitCodes({ 0: 'all is well', 1: 'something is wrong, as printed' }))
    .action(async ({ json }: { json?: true }) => {
      const { environment, checks } = await checkAll();
      const isOk = checks.every((check) => check.isOk);
      const configuration = environment && {
        ...environment,
        DATABASE_URL: environment.DATABASE_URL && withoutPassword(environment.DATABASE_URL),
        DATABASE_READ_URL:
          environment.DATABASE_READ_URL && withoutPassword(environment.DATABASE_READ_URL),
      };
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

/** Runs the checks in order. Stops if the configuration is invalid or the database cannot be used. */
async function checkAll(): Promise<{ environment?: Environment; checks: Check[] }> {
  const checks: Check[] = [];
  let environment: Environment | undefined;
  try {
    environment = loadEnvironment();
    checks.push({ name: 'configuration', isOk: true, message: 'valid' });
    await onCommandDatabase(environment, async (url) => {
      const dataSource = await connected(() => administrativeDataSource(url));
      try {
        checks.push({ name: 'database', isOk: true, message: await describe(url, dataSource) });
        for (const check of DATABASE_CHECKS) {
          checks.push(await check(dataSource));
        }
        checks.push(...(await checkSchema(dataSource)));
        checks.push(await checkSessions(url, environment!));
        if (environment!.DATABASE_READ_URL !== undefined) {
          checks.push(await checkStandbys(dataSource, environment!));
        }
      } finally {
        await dataSource.destroy();
      }
    });
  } catch (error) {
    const name = environment === undefined ? 'configuration' : 'database';
    checks.push({ name, isOk: false, message: (error as Error).message });
  }
  return { environment, checks };
}

async function checkSchema(dataSource: DataSource): Promise<Check[]> {
  const findings = await findingsOf(dataSource);
  const checks = findings.map(({ about, isError, message }): Check => {
    return { name: about, isOk: !isError, message, ...(!isError && { isWarning: true }) };
  });
  if (checks.some(({ name }) => name === 'schema')) {
    return checks;
  }
  const isWell = (name: string) => !checks.some((check) => check.name === name);
  // Without the right to read them, the rights are not well.
  const applied = await appliedMigrations(dataSource).catch(() => undefined);
  if (isWell('migrations') && applied !== undefined) {
    const names = applied.map(({ name }) => name);
    const later = names.filter((name) => !MIGRATION_NAMES.includes(name));
    const message = `all applied${later.length > 0 ? `; of later versions: ${later.join(', ')}` : ''}`;
    checks.unshift({ name: 'migrations', isOk: true, message });
  }
  // Rights on tables that do not exist cannot be checked.
  if (isWell('rights') && !checks.some(({ isOk }) => !isOk)) {
    checks.push({ name: 'rights', isOk: true, message: 'all that the service needs' });
  }
  return checks;
}

/** Checks whether sessions have the settings that requests need. A pooler may have dropped them. */
async function checkSessions(url: string, environment: Environment): Promise<Check> {
  const name = 'sessions';
  try {
    await (await connectService(url, environment)).destroy();
    return { name, isOk: true, message: 'have their settings' };
  } catch (error) {
    return { name, isOk: false, message: (error as Error).message };
  }
}

/** Checks the standbys. It is no error if one is behind or cannot be reached: the primary serves the reads then. */
async function checkStandbys(dataSource: DataSource, environment: Environment): Promise<Check> {
  const name = 'standbys';
  const logger = createLogger('silent', { write: () => {} });
  const { Standbys } = await import('../standbys/standbys.js');
  const standbys = new Standbys(poolOf(dataSource), environment, logger);
  try {
    await standbys.onModuleInit();
    const states = standbys.states.map(({ server, reason }) => `${server}: ${reason ?? 'in use'}`);
    return { name, isOk: true, message: states.join('; ') };
  } catch (error) {
    return { name, isOk: false, message: (error as Error).message };
  } finally {
    standbys.onApplicationShutdown();
  }
}

const DATABASE_CHECKS: readonly ((dataSource: DataSource) => Promise<Check>)[] = [
  async (dataSource) => {
    const [{ number, version }] = await dataSource.query(
      `select current_setting('server_version_num')::int as number,
              current_setting('server_version') as version`,
    );
    const isOk = number >= OLDEST_VERSION;
    const message = `PostgreSQL ${version}${isOk ? '' : '; the service needs 14 or later'}`;
    return { name: 'server version', isOk, message };
  },
  async (dataSource) => {
    const [{ encoding }] = await dataSource.query(
      `select current_setting('server_encoding') as encoding`,
    );
    const isOk = encoding === 'UTF8';
    return { name: 'encoding', isOk, message: `${encoding}${isOk ? '' : ' must be UTF8'}` };
  },
  async (dataSource) => {
    const [{ transaction_read_only }] = await dataSource.query('show transaction_read_only');
    const isOk = transaction_read_only === 'off';
    return { name: 'writes', isOk, message: isOk ? 'accepted' : 'the database is read-only' };
  },
];
