import { existsSync, readFileSync } from 'node:fs';
import { isIP } from 'node:net';
import { join } from 'node:path';
import { parseEnv } from 'node:util';
import { plainToInstance, Transform } from 'class-transformer';
import { IsBoolean, IsIn, IsString, Matches, Max, Min, validateSync } from 'class-validator';
import { OperatorError } from '../errors/operator-error.js';
import { LOG_LEVELS, type LogLevel } from '../logging/logger.js';
import { AllOf, MayBeOmitted, Satisfies } from '../validation/decorators.js';
import { DatabaseUrl } from './database-url.js';
import { PROJECT_ROOT } from './project-root.js';
import { ignoredIn, warningsOf } from './warnings.js';

const AnyText = () => AllOf(MayBeOmitted(), IsString());

const OneOf = (values: readonly string[]) =>
  AllOf(MayBeOmitted(), IsIn(values, { message: `$property must be one of ${values.join(', ')}` }));

/** The property is a whole number in plain digits. */
function WholeNumber(least: number, most: number): PropertyDecorator {
  const message = `$property must be a whole number from ${least} to ${most}`;
  return AllOf(
    MayBeOmitted(),
    Transform(({ value }) => (/^[0-9]{1,9}$/.test(value) ? Number(value) : value)),
    Min(least, { message }),
    Max(most, { message }),
  );
}

/** The property is a base URL that ends in `/v1`. */
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

const listOf = (text: string): string[] => text.split(',').map((item) => item.trim());

/** `*` alone, or origins as a browser writes them in `Origin` (RFC 6454, section 6.2). */
const areOrigins = (origins: string[]) => origins.join() === '*' || origins.every(isOrigin);

const isOrigin = (text: string) =>
  /^https?:\/\/[^*]+$/.test(text) && URL.canParse(text) && new URL(text).origin === text;

/** A number from 1 to 99, or addresses and subnets, separated by commas. */
const areProxies = (proxies: number | string) =>
  typeof proxies === 'number' ? proxies >= 1 : listOf(proxies).every(isSubnet);

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

const NODE_ENVS = ['production', 'development', 'test'] as const;

const DEPLOYMENT_ENVIRONMENTS = ['production', 'staging', 'development'] as const;

export type DeploymentEnvironment = (typeof DEPLOYMENT_ENVIRONMENTS)[number];

/**
 * Every environment variable that the service reads; `LOCAL_API_KEY` is read by `animal-store keys` alone. Read once, at
 * start. `.env.example` says what each means, and what follows if it is not set.
 */
export class Environment {
  /** Other spellings of `production` are rejected: they would start the embedded PostgreSQL. */
  @OneOf(NODE_ENVS)
  NODE_ENV: (typeof NODE_ENVS)[number] = 'development';

  /** {@link deployment} is this, or what `NODE_ENV` implies. */
  @OneOf(DEPLOYMENT_ENVIRONMENTS)
  DEPLOYMENT_ENVIRONMENT?: DeploymentEnvironment;

  @AnyText()
  HOST = '127.0.0.1';

  /** 0 picks a free port. */
  @WholeNumber(0, 65535)
  PORT = 3000;

  /** 0 picks a free port. Without it, nothing is measured. */
  @WholeNumber(0, 65535)
  METRICS_PORT?: number;

  /** Set in production. Without it, the embedded PostgreSQL runs. */
  @DatabaseUrl('one')
  DATABASE_URL?: string;

  /** The file that `DATABASE_URL` was read from. */
  @AnyText()
  DATABASE_URL_FILE?: string;

  /** The hot standbys that reads go to; without it, they go to the primary. */
  @DatabaseUrl('each')
  DATABASE_READ_URL?: string;

  /** The file that `DATABASE_READ_URL` was read from. */
  @AnyText()
  DATABASE_READ_URL_FILE?: string;

  /** The maximum number of connections of this process to the database, and to each standby. */
  @WholeNumber(2, 100)
  DATABASE_POOL_SIZE = 10;

  @OneOf(['transaction'])
  DATABASE_POOLER?: Pooler;

  /** Seconds for which the service still serves after SIGTERM, while readiness is 503 already. */
  @WholeNumber(0, 60)
  DRAIN_SECONDS = 2;

  /** Whether the service applies pending migrations at start. Otherwise it does not start while some are pending. */
  @Transform(({ value }) => ({ true: true, false: false })[value as string] ?? value)
  @IsBoolean({ message: '$property must be true or false' })
  MIGRATE_ON_START = false;

  /** Where clients reach the service. With it, URLs in responses are absolute. */
  @BaseUrl()
  PUBLIC_BASE_URL?: string;

  @BaseUrl()
  STAGING_BASE_URL?: string;

  /** Requests that an API key may make a minute, in this process; without it, any number. */
  @WholeNumber(1, 1_000_000)
  RATE_LIMIT_PER_MINUTE?: number;

  @MayBeOmitted()
  @Transform(({ value }) => listOf(value))
  @Satisfies(areOrigins, {
    message: '$property must be * or a list such as https://a.example,https://b.example',
  })
  CORS_ORIGINS?: string[];

  /** How many proxies are in front of this process, or their addresses and subnets, separated by commas. */
  @MayBeOmitted()
  @Transform(({ value }) => (/^[0-9]{1,2}$/.test(value) ? Number(value) : value))
  @Satisfies(areProxies, {
    message: '$property must be a number from 1 to 99 or a list such as 10.0.0.0/8,::1',
  })
  TRUST_PROXY?: number | string;

  @OneOf(['on', 'off'])
  DOCS: 'on' | 'off' = 'on';

  @OneOf(LOG_LEVELS)
  LOG_LEVEL: LogLevel = 'info';

  @MayBeOmitted()
  @Matches(/^[0-9a-f]{7,64}$/, { message: '$property must be a commit, in hexadecimal' })
  COMMIT?: string;

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
  let content: string;
  try {
    content = readFileSync(file, 'utf8').replace(/\r?\n$/, '');
  } catch (error) {
    // The error's message contains the path. It is not used, because an operator may have put the secret there by mistake.
    const { code } = error as NodeJS.ErrnoException;
    throw new OperatorError(`${name}_FILE must name a file that this process can read: ${code}`);
  }
  if (content === '') {
    throw new OperatorError(`${name}_FILE must name a file that is not empty`);
  }
  return content;
}

/** @throws OperatorError with a line for each invalid variable. Values are not in it: they may be secret. */
export function readEnvironment(variables: NodeJS.ProcessEnv): Environment {
  // An empty variable counts as one that is not set: Compose passes those.
  const set = Object.fromEntries(Object.entries(variables).filter(([, value]) => value !== ''));
  const faults = new Map<string, string>();
  for (const name of ['DATABASE_URL', 'DATABASE_READ_URL']) {
    try {
      const url = secretOf(name, set);
      if (url !== undefined) {
        set[name] = url;
      }
    } catch (error) {
      faults.set(name, (error as OperatorError).message);
    }
  }
  const environment = plainToInstance(Environment, set);
  // `whitelist` removes the variables that the service does not read.
  const errors = validateSync(environment, { stopAtFirstError: true, whitelist: true });
  const messages = errors.map(({ property, constraints }) => [
    property,
    Object.values(constraints!)[0]!,
  ]);
  for (const [name, message] of [...messages, ...contradictionsIn(environment, set)]) {
    // One line for each variable.
    faults.set(name!, faults.get(name!) ?? message!);
  }
  if (faults.size > 0) {
    throw new OperatorError([...faults.values()].join('\n'));
  }
  return environment;
}

/** The variables that do not go with others, each with a message. */
function contradictionsIn(environment: Environment, set: NodeJS.ProcessEnv): string[][] {
  const { NODE_ENV, PORT, METRICS_PORT, PUBLIC_BASE_URL, STAGING_BASE_URL } = environment;
  const { DATABASE_URL, DATABASE_URL_FILE, DATABASE_READ_URL, DATABASE_POOLER } = environment;
  const found: string[][] = [];
  const rule = (isBroken: boolean, name: string, must: string) =>
    isBroken && found.push([name, `${name} ${must}`]);
  const isEmbedded = DATABASE_URL === undefined && DATABASE_URL_FILE === undefined;
  const isProduction = NODE_ENV === 'production';
  rule(isEmbedded && isProduction, 'DATABASE_URL', 'must be set when NODE_ENV is production');
  rule(isEmbedded && !!DATABASE_POOLER, 'DATABASE_POOLER', 'requires DATABASE_URL');
  rule(isEmbedded && !!DATABASE_READ_URL, 'DATABASE_READ_URL', 'requires DATABASE_URL');
  rule(PORT !== 0 && PORT === METRICS_PORT, 'METRICS_PORT', 'must not be the same as PORT');
  // It is ignored (see `warningsOf`), but what it was to encrypt must not be sent in clear.
  const isClear = (url?: string) =>
    url !== undefined && !/[?&]ssl(mode|rootcert|cert|key)?=/.test(url);
  rule(
    /^(require|verify|no-v)/.test(set['PGSSLMODE'] ?? '') &&
      [DATABASE_URL, DATABASE_READ_URL].some(isClear),
    'PGSSLMODE',
    'is ignored: set the parameter sslmode of DATABASE_URL and DATABASE_READ_URL instead',
  );
  const [own, staging] = [PUBLIC_BASE_URL, STAGING_BASE_URL].map(
    (url = '') => URL.canParse(url) && new URL(url).href,
  );
  rule(
    own !== false && own === staging && environment.deployment !== 'staging',
    'DEPLOYMENT_ENVIRONMENT',
    'must be staging when PUBLIC_BASE_URL and STAGING_BASE_URL are the same address',
  );
  return found;
}

/**
 * Adds the variables of the project's `.env`, if there is one, to those of this process; those already set stay. Prints
 * {@link warningsOf} on standard error.
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
  const names = [...Object.keys(new Environment()), 'LOCAL_API_KEY', 'LOCAL_API_KEY_FILE'];
  warningsOf(process.env, names).forEach((warning) => console.error(warning));
  const environment = readEnvironment(process.env);
  // pg would read two of them.
  ignoredIn(process.env).forEach((name) => delete process.env[name]);
  return environment;
}
