import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { Expose, plainToInstance, Transform } from 'class-transformer';
import {
  IsIn,
  IsInt,
  IsOptional,
  IsString,
  Matches,
  Max,
  Min,
  validateSync,
} from 'class-validator';
import { OperatorError } from '../errors/operator-error.js';
import { PROJECT_ROOT } from './project-root.js';
import { LOG_LEVELS, type LogLevel } from '../logging/logger.js';

const WholeNumber = () =>
  Transform(({ value }) => (/^[0-9]{1,9}$/.test(value) ? Number(value) : value));

const Flag = () =>
  Transform(({ value }) => ({ true: true, false: false })[value as string] ?? value);

/** Every environment variable that the service reads, each documented in `.env.example`. Read once, at start. */
export class Environment {
  /** `production` makes `DATABASE_URL` mandatory and leaves out what helps only a developer. */
  @Expose()
  @IsString()
  NODE_ENV: string = 'development';

  /** Address to listen on. */
  @Expose()
  @IsString()
  HOST: string = '127.0.0.1';

  /** TCP port to listen on; 0 picks a free one. */
  @Expose()
  @WholeNumber()
  @IsInt({ message: 'PORT must be a whole number from 0 to 65535' })
  @Min(0, { message: 'PORT must be a whole number from 0 to 65535' })
  @Max(65535, { message: 'PORT must be a whole number from 0 to 65535' })
  PORT: number = 3000;

  /** The database; its parameters set TLS. Without it, outside production, the embedded PostgreSQL runs. */
  @Expose()
  @IsOptional()
  @Matches(/^postgres(ql)?:\/\/./, { message: 'DATABASE_URL must be a postgres:// URL' })
  DATABASE_URL?: string;

  /** Connections to the database that this process opens at most. */
  @Expose()
  @WholeNumber()
  @IsInt({ message: 'DATABASE_POOL_SIZE must be a whole number from 2 to 100' })
  @Min(2, { message: 'DATABASE_POOL_SIZE must be a whole number from 2 to 100' })
  @Max(100, { message: 'DATABASE_POOL_SIZE must be a whole number from 2 to 100' })
  DATABASE_POOL_SIZE: number = 10;

  /** Whether a start applies pending migrations instead of refusing. */
  @Expose()
  @Flag()
  @IsIn([true, false], { message: 'MIGRATE_ON_START must be true or false' })
  MIGRATE_ON_START: boolean = false;

  /** Where clients reach the service, up to and with `/v1`; makes the addresses in answers absolute. */
  @Expose()
  @IsOptional()
  @Matches(/^https?:\/\/[^\s?#]+\/v1$/, {
    message: 'PUBLIC_BASE_URL must be an http(s):// URL that ends in /v1',
  })
  PUBLIC_BASE_URL?: string;

  /** The least severe log line that is written. */
  @Expose()
  @IsIn(LOG_LEVELS, { message: `LOG_LEVEL must be one of ${LOG_LEVELS.join(', ')}` })
  LOG_LEVEL: LogLevel = 'info';

  get isProduction(): boolean {
    return this.NODE_ENV === 'production';
  }
}

/** The environment does not say what the service needs; `message` has a line for each fault, and no value. */
export class EnvironmentError extends OperatorError {}

/** @throws EnvironmentError naming every variable at fault. */
export function readEnvironment(variables: NodeJS.ProcessEnv): Environment {
  // An empty variable counts as one that is not set: Compose passes those.
  const set = Object.fromEntries(Object.entries(variables).filter(([, value]) => value !== ''));
  const environment = plainToInstance(Environment, set, {
    excludeExtraneousValues: true,
    exposeDefaultValues: true,
  });
  const faults = validateSync(environment, { stopAtFirstError: true }).flatMap(({ constraints }) =>
    Object.values(constraints ?? {}),
  );
  if (environment.isProduction && environment.DATABASE_URL === undefined) {
    faults.push('DATABASE_URL must be set when NODE_ENV is production');
  }
  if (faults.length > 0) {
    throw new EnvironmentError(faults.join('\n'));
  }
  return environment;
}

/** Adds the variables of the project's `.env`, where there is one; those already set stay. */
export function loadDotEnv(): void {
  const file = join(PROJECT_ROOT, '.env');
  if (existsSync(file)) {
    process.loadEnvFile(file);
  }
}
