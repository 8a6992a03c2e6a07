import { existsSync, readFileSync } from 'node:fs';
import { isIP } from 'node:net';
import { join } from 'node:path';
import { parseEnv } from 'node:util';
import { plainToInstance, Transform } from 'class-transformer';
import { IsBoolean, IsIn, IsString, Matches, Max, Min, validateSync } from 'class-validator';
import { OperatorError } from '../errors/operator-error.js';
import { LOG_LEVELS, type LogLevel } from '../logging/logger.js';
import { AllOf, MayBeOmitted, Satisfies } from '../validation/decorators.js';
import { DatabaseUrl, ReadUrl } from './database-url.js';
import { PROJECT_ROOT } from './project-root.js';

/** The property is a whole number in plain digits. */
function WholeNumber(least: number, most: number): PropertyDecorator {
  const message = `$property must be a whole number from ${least} to ${most}`;
  return AllOf(
    Transform(({ value }) => (/^[0-9]{1,9}$/.test(value) ? Number(value) : value)),
    Min(least, { message }),
    Max(most, { message }),
  );
}

/** The property is a base URL that ends in `/v1`, or is omitted. */
function BaseUrl(): PropertyDecorator {
  const message = '$property must be an http(s):// URL that ends in /v1, in ASCII';
  return AllOf(
    MayBeOmitted(),
    // The characters that a URI may contain unencoded (RFC 3986, section 2), because the value is sent in headers.
    // Without `@`, so that it has no password.
    Matches(/^https?:\/\/[\w.~:/[\]!$&'()*+,;=%-]+\/v1$/, { message }),
    Satisfies(URL.canParse, { message }),
  );
}

const NODE_ENVS = ['production', 'development', 'test'] as const;

const listOf = (text: string): string[] => text.split(',').map((item) => item.trim());

/** `*` alone, or origins as a browser writes them in `Origin` (RFC 6454, section 6.2). */
function areOrigins(origins: string[]): boolean {
  return (
    (origins.length === 1 && origins[0] === '*') ||
    origins.every(
      (origin) =>
        /^https?:\/\/[^*]+$/.test(origin) &&
        URL.canParse(origin) &&
        new URL(origin).origin === origin,
    )
  );
}

/** A number from 1 to 99, or addresses and subnets, separated by commas. */
function areProxies(proxies: number | string): boolean {
  return typeof proxies === 'number' ? proxies >= 1 : listOf(proxies).every(isSubnet);
}

/** An IP address, or a subnet in CIDR notation. `/0` is rejected. */
function isSubnet(text: string): boolean {
  const [, address = '', prefix = '1'] = /^([^/]+)(?:\/([1-9][0-9]{0,2}))?$/.exec(text) ?? [];
  const version = isIP(address);
  return version !== 0 && Number(prefix) <= (version === 4 ? 32 : 128);
}

/**
 * The kind of pooler between the service and PostgreSQL. `transaction` is a pooler that gives each transaction any of
 * its sessions. The settings of such a session are the role's, and the service prepares no statements.
 */
export type Pooler = 'transaction';

export const DEPLOYMENT_ENVIRONMENTS = ['production', 'staging', 'development'] as const;

export type DeploymentEnvironment = (typeof DEPLOYMENT_ENVIRONMENTS)[number];

/** Every environment variable that the service reads, each documented in `.env.example`. Read once, at start. */
export class Environment {
  /**
   * Every deployment has `production`, which makes `DATABASE_URL` mandatory. Other spellings are rejected: otherwise a
   * misspelled `production` would start the embedded PostgreSQL.
   */
  @IsIn(NODE_ENVS, { message: `$property must be ${NODE_ENVS.join(', ')} or not set` })
  NODE_ENV: (typeof NODE_ENVS)[number] = 'development';

  /** Which environment this is; the OpenAPI document names the servers after it. */
  @MayBeOmitted()
  @IsIn(DEPLOYMENT_ENVIRONMENTS, {
    message: `$property must be one of ${DEPLOYMENT_ENVIRONMENTS.join(', ')}`,
  })
  DEPLOYMENT_ENVIRONMENT?: DeploymentEnvironment;

  /** Address to listen on. */
  @IsString()
  HOST = '127.0.0.1';

  /** TCP port to listen on; 0 picks a free one. */
  @WholeNumber(0, 65535)
  PORT = 3000;

  /** TCP port of the metrics for Prometheus, at `HOST`; 0 picks a free one. Without it, there are no metrics. */
  @MayBeOmitted()
  @WholeNumber(0, 65535)
  METRICS_PORT?: number;

  /** The database's URL. Its parameters set TLS. Outside production, the embedded PostgreSQL runs if it is not set. */
  @DatabaseUrl()
  DATABASE_URL?: string;

  /** The file that `DATABASE_URL` was read from. */
  @MayBeOmitted()
  @IsString()
  DATABASE_URL_FILE?: string;

  /** The hot standbys that reads go to; without it, they go to the primary. */
  @ReadUrl()
  DATABASE_READ_URL?: string;

  /** The file that `DATABASE_READ_URL` was read from. */
  @MayBeOmitted()
  @IsString()
  DATABASE_READ_URL_FILE?: string;

  /** The maximum number of connections of this process to the database, and to each standby. */
  @WholeNumber(2, 100)
  DATABASE_POOL_SIZE = 10;

  /** The kind of pooler that is between the service and PostgreSQL; without it, none. */
  @MayBeOmitted()
  @IsIn(['transaction'], { message: '$property must be transaction or not set' })
  DATABASE_POOLER?: Pooler;

  /** Seconds for which the service still serves after SIGTERM, while readiness is 503 already. */
  @WholeNumber(0, 60)
  DRAIN_SECONDS = 2;

  /** Whether the service applies pending migrations at start. Otherwise it does not start while some are pending. */
  @Transform(({ value }) => ({ true: true, false: false })[value as string] ?? value)
  @IsBoolean({ message: '$property must be true or false' })
  MIGRATE_ON_START = false;

  /** The base URL at which clients reach the service, which ends in `/v1`. With it, URLs in responses are absolute. */
  @BaseUrl()
  PUBLIC_BASE_URL?: string;

  /** The base URL of the staging environment. The OpenAPI documents of the other environments list it as a server. */
  @BaseUrl()
  STAGING_BASE_URL?: string;

  /** Requests that an API key may make a minute, in this process; without it, any number. */
  @MayBeOmitted()
  @WholeNumber(1, 1_000_000)
  RATE_LIMIT_PER_MINUTE?: number;

  /** The web origins whose pages may read responses, or `*` alone for all. If it is not set, none may. */
  @MayBeOmitted()
  @Transform(({ value }) => listOf(value))
  @Satisfies(areOrigins, {
    message: '$property must be * or a list such as https://a.example,https://b.example',
  })
  CORS_ORIGINS?: string[];

  /**
   * The proxies whose `X-Forwarded-For` is trusted: how many are in front of this process, or their addresses and
   * subnets, separated by commas. Without it, none.
   */
  @MayBeOmitted()
  @Transform(({ value }) => (/^[0-9]{1,2}$/.test(value) ? Number(value) : value))
  @Satisfies(areProxies, {
    message: '$property must be a number from 1 to 99 or a list such as 10.0.0.0/8,::1',
  })
  TRUST_PROXY?: number | string;

  /** Whether the reference page and the guides are served, at `/docs`. */
  @IsIn(['on', 'off'], { message: '$property must be on or off' })
  DOCS: 'on' | 'off' = 'on';

  /** The least severe log line that is written. */
  @IsIn(LOG_LEVELS, { message: `$property must be one of ${LOG_LEVELS.join(', ')}` })
  LOG_LEVEL: LogLevel = 'info';

  /** The commit that this build is of, for the metrics and the log. */
  @MayBeOmitted()
  @Matches(/^[0-9a-f]{7,64}$/, { message: '$property must be a commit, in hexadecimal' })
  COMMIT?: string;

  /** `DEPLOYMENT_ENVIRONMENT`, or what `NODE_ENV` implies. */
  get deployment(): DeploymentEnvironment {
    const implied = this.NODE_ENV === 'production' ? 'production' : 'development';
    return this.DEPLOYMENT_ENVIRONMENT ?? implied;
  }

  /** What comes before an operation's path in a URL: `/v1` alone, unless `PUBLIC_BASE_URL` is set. */
  get baseUrl(): string {
    return this.PUBLIC_BASE_URL ?? '/v1';
  }

  /** What comes before a path outside `/v1`. */
  get publicRoot(): string {
    return this.baseUrl.replace(/\/v1$/, '');
  }
}

/** Whether `PUBLIC_BASE_URL` is the address of the staging environment. */
function isAtStagingAddress({ PUBLIC_BASE_URL, STAGING_BASE_URL }: Environment): boolean {
  return (
    PUBLIC_BASE_URL !== undefined &&
    STAGING_BASE_URL !== undefined &&
    new URL(PUBLIC_BASE_URL).href === new URL(STAGING_BASE_URL).href
  );
}

/**
 * The value of the variable `name`, or the content of the file that `${name}_FILE` names, as Docker and Kubernetes give
 * secrets. A newline at the end of the file is removed.
 *
 * @returns `undefined` if neither is set.
 * @throws OperatorError if both are set, or the file is empty or cannot be read.
 */
export function secretOf(name: string, variables: NodeJS.ProcessEnv): string | undefined {
  const { [name]: value, [`${name}_FILE`]: file } = variables;
  if (!file) {
    return value || undefined;
  }
  if (value) {
    throw new OperatorError(`${name}_FILE must not be set beside ${name}`);
  }
  try {
    const content = readFileSync(file, 'utf8').replace(/\r?\n$/, '');
    if (content === '') {
      throw new OperatorError(`${name}_FILE must name a file that is not empty`);
    }
    return content;
  } catch (error) {
    if (error instanceof OperatorError) {
      throw error;
    }
    // The error's message contains the path. It is not used, because an operator may have put the secret there by mistake.
    const { code } = error as NodeJS.ErrnoException;
    throw new OperatorError(`${name}_FILE must name a file that this process can read: ${code}`);
  }
}

/** @throws OperatorError with a line for each invalid variable. Values are not in it: they may be secret. */
export function readEnvironment(variables: NodeJS.ProcessEnv): Environment {
  // An empty variable counts as one that is not set: Compose passes those.
  const set = Object.fromEntries(Object.entries(variables).filter(([, value]) => value !== ''));
  const secretFaults: string[] = [];
  for (const name of ['DATABASE_URL', 'DATABASE_READ_URL']) {
    try {
      const url = secretOf(name, set);
      if (url !== undefined) {
        set[name] = url;
      }
    } catch (error) {
      secretFaults.push((error as OperatorError).message);
    }
  }
  const environment = plainToInstance(Environment, set);
  // `whitelist` removes the variables that the service does not read.
  const errors = validateSync(environment, { stopAtFirstError: true, whitelist: true });
  const messages = errors.flatMap(({ constraints = {} }) => Object.values(constraints));
  const faults = [...messages, ...secretFaults];
  if (environment.NODE_ENV === 'production' && set['DATABASE_URL'] === undefined) {
    faults.push('DATABASE_URL must be set when NODE_ENV is production');
  }
  for (const name of ['DATABASE_POOLER', 'DATABASE_READ_URL']) {
    const isValid = set[name] !== undefined && !errors.some(({ property }) => property === name);
    if (isValid && set['DATABASE_URL'] === undefined) {
      faults.push(`${name} requires DATABASE_URL`);
    }
  }
  if (
    faults.length === 0 &&
    environment.deployment !== 'staging' &&
    isAtStagingAddress(environment)
  ) {
    faults.push(
      'DEPLOYMENT_ENVIRONMENT must be staging when PUBLIC_BASE_URL and STAGING_BASE_URL are the same address',
    );
  }
  if (faults.length > 0) {
    throw new OperatorError(faults.join('\n'));
  }
  return environment;
}

/**
 * Adds the variables of the project's `.env`, if there is one, to those of this process; those already set stay.
 *
 * @returns the validated environment.
 * @throws OperatorError as {@link readEnvironment} does.
 */
export function loadEnvironment(): Environment {
  const file = join(PROJECT_ROOT, '.env');
  if (existsSync(file)) {
    // process.loadEnvFile reports a file without read permission as missing.
    const set = parseEnv(readFileSync(file, 'utf8'));
    for (const [name, value] of Object.entries(set)) {
      process.env[name] ??= value;
    }
  }
  return readEnvironment(process.env);
}
