import { existsSync } from 'node:fs';
import { isIP } from 'node:net';
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
import { Satisfies } from '../http/request-shape.js';
import { PROJECT_ROOT } from './project-root.js';
import { LOG_LEVELS, type LogLevel } from '../logging/logger.js';

const WholeNumber = () =>
  Transform(({ value }) => (/^[0-9]{1,9}$/.test(value) ? Number(value) : value));

const Flag = () =>
  Transform(({ value }) => ({ true: true, false: false })[value as string] ?? value);

/** Texts with commas between them, and perhaps spaces. */
const List = () => Transform(({ value }) => value?.split(',').map((text: string) => text.trim()));

/** `*` alone, or origins as a browser writes them in `Origin` (RFC 6454, section 6.2). */
function areOrigins(list: unknown): boolean {
  const origins = list as string[];
  return (
    origins.join() === '*' ||
    origins.every(
      (text) =>
        /^https?:\/\/[^*]+$/.test(text) && URL.canParse(text) && new URL(text).origin === text,
    )
  );
}

/** A number from 1 to 99, or addresses and subnets. */
function areProxies(value: unknown): boolean {
  return typeof value === 'number'
    ? value >= 1 && value <= 99
    : String(value)
        .split(',')
        .every((text) => isSubnet(text.trim()));
}

/** An address, or a subnet in CIDR notation; not that of all addresses. */
function isSubnet(text: string): boolean {
  const [, address = '', prefix = '1'] = /^([^/]+)(?:\/([1-9][0-9]{0,2}))?$/.exec(text) ?? [];
  const version = isIP(address);
  return version !== 0 && Number(prefix) <= (version === 4 ? 32 : 128);
}

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

  /** Seconds for which SIGTERM leaves the service serving, while readiness already says no. */
  @Expose()
  @WholeNumber()
  @IsInt({ message: 'DRAIN_SECONDS must be a whole number from 0 to 60' })
  @Min(0, { message: 'DRAIN_SECONDS must be a whole number from 0 to 60' })
  @Max(60, { message: 'DRAIN_SECONDS must be a whole number from 0 to 60' })
  DRAIN_SECONDS: number = 2;

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

  /** Where clients reach the staging environment, up to and with `/v1`; named in the OpenAPI document. */
  @Expose()
  @IsOptional()
  @Matches(/^https?:\/\/[^\s?#]+\/v1$/, {
    message: 'STAGING_BASE_URL must be an http(s):// URL that ends in /v1',
  })
  STAGING_BASE_URL?: string;

  /** Requests that an API key may make a minute, in this process; without it, any number. */
  @Expose()
  @IsOptional()
  @WholeNumber()
  @IsInt({ message: 'RATE_LIMIT_PER_MINUTE must be a whole number from 1 to 1000000' })
  @Min(1, { message: 'RATE_LIMIT_PER_MINUTE must be a whole number from 1 to 1000000' })
  @Max(1_000_000, { message: 'RATE_LIMIT_PER_MINUTE must be a whole number from 1 to 1000000' })
  RATE_LIMIT_PER_MINUTE?: number;

  /** The web origins whose pages may read answers; `*` alone for all. Without it, none. */
  @Expose()
  @IsOptional()
  @List()
  @Satisfies(
    areOrigins,
    'CORS_ORIGINS must be * or a list such as https://a.example,https://b.example',
  )
  CORS_ORIGINS?: string[];

  /**
   * The proxies whose word on a client's address is taken: how many stand before this process, or their addresses
   * and subnets, separated by commas. Without it, none.
   */
  @Expose()
  @IsOptional()
  @WholeNumber()
  @Satisfies(
    areProxies,
    'TRUST_PROXY must be a number from 1 to 99 or a list such as 10.0.0.0/8,::1',
  )
  TRUST_PROXY?: number | string;

  /** Whether the reference page and the guides are served, at `/docs`. */
  @Expose()
  @IsIn(['on', 'off'], { message: 'DOCS must be on or off' })
  DOCS: 'on' | 'off' = 'on';

  /** The least severe log line that is written. */
  @Expose()
  @IsIn(LOG_LEVELS, { message: `LOG_LEVEL must be one of ${LOG_LEVELS.join(', ')}` })
  LOG_LEVEL: LogLevel = 'info';

  get isProduction(): boolean {
    return this.NODE_ENV === 'production';
  }

  /** What comes before a path outside `/v1` in an address: nothing, unless `PUBLIC_BASE_URL` is set. */
  get publicRoot(): string {
    return this.PUBLIC_BASE_URL?.replace(/\/v1$/, '') ?? '';
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
