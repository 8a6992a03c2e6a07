import { existsSync, readFileSync } from 'node:fs';
import { isIP } from 'node:net';
import { join } from 'node:path';
import { parseEnv } from 'node:util';
import { plainToInstance, Transform } from 'class-transformer';
import { IsBoolean, IsIn, IsString, Matches, validateSync } from 'class-validator';
import leven from 'leven';
import { OperatorError } from '../errors/operator-error.js';
import { LOG_LEVELS, type LogLevel } from '../logging/logger.js';
import { AllOf, Satisfies, WholeNumber } from '../validation/decorators.js';
import { DatabaseUrl } from './database-url.js';
import { PROJECT_ROOT } from './project-root.js';

const OneOf = (values: readonly string[]) =>
  IsIn(values, { message: `$property must be one of ${values.join(', ')}` });

function BaseUrl(): PropertyDecorator {
  const message = '$property must be an http(s):// URL that ends in /v1, in ASCII';
  return AllOf(
    // What a URI may contain unencoded (RFC 3986, section 2), as headers have it. Without `@`, so that it has no password.
    Matches(/^https?:\/\/[\w.~:/[\]!$&'()*+,;=%-]+\/v1$/, { message }),
    Satisfies(URL.canParse, { message }),
  );
}

const listOf = (text: string): string[] => text.split(',').map((item) => item.trim());

/** `*` alone, or origins as a browser writes them in `Origin` (RFC 6454, section 6.2). */
const areOrigins = (origins: string[]) => origins.join() === '*' || origins.every(isOrigin);

/** Those of apps and extensions, such as `capacitor://localhost`, have a scheme that `URL` knows no origin of. */
const isOrigin = (text: string) =>
  /^https?:/.test(text)
    ? URL.canParse(text) && new URL(text).origin === text && !text.includes('*')
    : /^[a-z][a-z0-9+.-]*:\/\/[\w.-]+(?::[0-9]{1,5})?$/.test(text);

/** A number from 1 to 99, or addresses and subnets, separated by commas. */
const areProxies = (proxies: number | string) =>
  typeof proxies === 'number' ? proxies >= 1 : listOf(proxies).every(isSubnet);

/** An IP address, or a subnet in CIDR notation. `/0` is rejected. */
function isSubnet(text: string): boolean {
  const [, address = '', prefix = '1'] = /^([^/]+)(?:\/([1-9][0-9]{0,2}))?$/.exec(text) ?? [];
  const version = isIP(address);
  return version !== 0 && Number(prefix) <= (version === 4 ? 32 : 128);
}

/** Every variable that the service reads, at the start. `.env.example` says what each means, and its default. */
export class Environment {
  /** Other spellings of `production` are rejected: they would start the embedded PostgreSQL. */
  @OneOf(['production', 'development', 'test'])
  NODE_ENV: 'production' | 'development' | 'test' = 'development';

  @OneOf(['production', 'staging', 'development'])
  DEPLOYMENT_ENVIRONMENT?: 'production' | 'staging' | 'development';

  /** Of an IPv6 address in brackets, as Docker Compose has it, without them. */
  @IsString()
  @Transform(({ value }) => value?.replace(/^\[(.+)\]$/, '$1'))
  HOST = '127.0.0.1';

  @WholeNumber(0, 65535)
  PORT = 3000;

  @WholeNumber(0, 65535)
  METRICS_PORT?: number;

  @WholeNumber(1, 86_400)
  KEEP_ALIVE_SECONDS = 620;

  @DatabaseUrl('one')
  DATABASE_URL?: string;

  @IsString()
  DATABASE_URL_FILE?: string;

  @DatabaseUrl('each')
  DATABASE_READ_URL?: string;

  @IsString()
  DATABASE_READ_URL_FILE?: string;

  @WholeNumber(2, 100)
  DATABASE_POOL_SIZE = 10;

  /** Set if a pooler gives transactions any of its sessions. These have the role's settings, and prepare nothing. */
  @OneOf(['transaction'])
  DATABASE_POOLER?: 'transaction';

  @WholeNumber(0, 60)
  DRAIN_SECONDS = 2;

  @Transform(({ value }) => ({ true: true, false: false })[value as string] ?? value)
  @IsBoolean({ message: '$property must be true or false' })
  MIGRATE_ON_START = false;

  @BaseUrl()
  PUBLIC_BASE_URL?: string;

  @BaseUrl()
  STAGING_BASE_URL?: string;

  @WholeNumber(1, 1_000_000)
  RATE_LIMIT_PER_MINUTE?: number;

  @Transform(({ value }) => listOf(value))
  @Satisfies(areOrigins, {
    message: '$property must be * or a list such as https://a.example,https://b.example',
  })
  CORS_ORIGINS?: string[];

  @Transform(({ value }) => (/^[0-9]{1,2}$/.test(value) ? Number(value) : value))
  @Satisfies(areProxies, {
    message: '$property must be a number from 1 to 99 or a list such as 10.0.0.0/8,::1',
  })
  TRUST_PROXY?: number | string;

  @OneOf(['on', 'off'])
  DOCS: 'on' | 'off' = 'on';

  @OneOf(LOG_LEVELS)
  LOG_LEVEL: LogLevel = 'info';

  @Matches(/^[0-9a-f]{7,64}$/, { message: '$property must be a commit, in hexadecimal' })
  COMMIT?: string;

  get deployment() {
    const implied = this.NODE_ENV === 'production' ? 'production' : 'development';
    const isStaging = this.baseUrl === this.STAGING_BASE_URL;
    return this.DEPLOYMENT_ENVIRONMENT ?? (isStaging ? 'staging' : implied);
  }

  /** `HOST` as Node expects it: without one, it listens on all IPv6 and IPv4 addresses, or on IPv4 without IPv6. */
  get listenHost(): string | undefined {
    return this.HOST === '*' ? undefined : this.HOST;
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

/** The text of a file, without a byte order mark, which editors of Windows write. @throws OperatorError */
function textOf(file: string, rule: string): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(readFileSync(file));
  } catch (error) {
    // The error's message contains the path, where an operator may have put the secret by mistake.
    const { code } = error as NodeJS.ErrnoException;
    throw new OperatorError(`${rule} a file that this process can read: ${code}`);
  }
}

/** The value of a variable, or the content of the file that `${name}_FILE` names. @throws OperatorError */
export function secretOf(name: string, variables: NodeJS.ProcessEnv): string | undefined {
  const { [name]: value, [`${name}_FILE`]: file } = variables;
  if (!file) {
    return value || undefined;
  }
  if (value) {
    throw new OperatorError(`${name}_FILE must not be set beside ${name}`);
  }
  const content = textOf(file, `${name}_FILE must name`).replace(/\r?\n$/, '');
  if (content === '') {
    throw new OperatorError(`${name}_FILE must name a file that is not empty`);
  }
  return content;
}

/** @throws OperatorError with a line for each invalid variable. Values are not in it: they may be secret. */
export function readEnvironment(variables: NodeJS.ProcessEnv): Environment {
  const faults = new Map<string, string>();
  const rule = (isBroken: boolean, name: string, must: string) =>
    isBroken && !faults.has(name) && faults.set(name, `${name} ${must}`);
  const given = { ...variables };
  for (const name of ['DATABASE_URL', 'DATABASE_READ_URL']) {
    try {
      given[name] = secretOf(name, variables);
    } catch (error) {
      faults.set(name, (error as OperatorError).message);
    }
  }
  // An empty variable counts as one that is not set: Compose passes those.
  const set = Object.fromEntries(Object.entries(given).filter(([, value]) => value));
  const environment = plainToInstance(Environment, set);
  // `whitelist` removes the variables that the service does not read.
  const options = { stopAtFirstError: true, whitelist: true, skipUndefinedProperties: true };
  const errors = validateSync(environment, options);
  for (const { property, constraints } of errors) {
    faults.set(property, faults.get(property) ?? Object.values(constraints!)[0]!);
  }
  const { NODE_ENV, PORT, METRICS_PORT, DATABASE_URL, DATABASE_READ_URL } = environment;
  const isEmbedded = DATABASE_URL === undefined && environment.DATABASE_URL_FILE === undefined;
  const isProduction = NODE_ENV === 'production';
  rule(
    isEmbedded && isProduction,
    'DATABASE_URL',
    'must be set when NODE_ENV is production; for development, unset NODE_ENV',
  );
  rule(isEmbedded && !!environment.DATABASE_POOLER, 'DATABASE_POOLER', 'requires DATABASE_URL');
  rule(isEmbedded && !!DATABASE_READ_URL, 'DATABASE_READ_URL', 'requires DATABASE_URL');
  rule(PORT !== 0 && PORT === METRICS_PORT, 'METRICS_PORT', 'must not be the same as PORT');
  // What it was to encrypt must not be sent in clear.
  const isClear = [DATABASE_URL, DATABASE_READ_URL].some(
    (url) => url && !/[?&]ssl(?:mode|rootcert|cert|key|negotiation=direct|=)/.test(url),
  );
  const mustEncrypt = /^(require|verify)/.test(set['PGSSLMODE'] ?? '');
  const remedy = 'set the parameter sslmode of DATABASE_URL and DATABASE_READ_URL instead';
  rule(mustEncrypt && isClear, 'PGSSLMODE', `is ignored: ${remedy}`);
  if (faults.size > 0) {
    throw new OperatorError([...faults.values()].join('\n'));
  }
  return environment;
}

/** @returns a sentence for each variable whose name is almost that of one that is read. */
export function warningsOf(variables: NodeJS.ProcessEnv): string[] {
  const names = [...Object.keys(new Environment()), 'LOCAL_API_KEY', 'LOCAL_API_KEY_FILE'];
  return Object.keys(variables).flatMap((given) => {
    // Many names are near a short one.
    const meant = names.find((name) => leven(given, name) <= (name.length < 8 ? 1 : 2));
    return meant === undefined || names.includes(given)
      ? []
      : `${given} is not read. Is it meant to be ${meant}?`;
  });
}

/** Reads the variables of this process, and of `.env` those that are not set. @throws as {@link readEnvironment}. */
export function loadEnvironment(): Environment {
  const file = join(PROJECT_ROOT, '.env');
  const text = existsSync(file) ? textOf(file, '.env must be') : '';
  for (const [name, value] of Object.entries(parseEnv(text))) {
    process.env[name] ??= value;
  }
  const variables = { ...process.env };
  for (const name of Object.keys(variables).filter((one) => one.startsWith('PGSSL'))) {
    console.error(`${name} is ignored: only the parameters of DATABASE_URL configure TLS.`);
    // pg would read two of them, and those in part.
    delete process.env[name];
  }
  warningsOf(variables).forEach((warning) => console.error(warning));
  return readEnvironment(variables);
}
