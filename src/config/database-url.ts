import { Transform } from 'class-transformer';
import { AllOf, MayBeOmitted, Satisfies } from '../validation/decorators.js';

/** The values of `sslmode` that pg treats as `verify-full`. It warns that its next major version will not. */
const LIKE_FULL = ['prefer', 'require', 'verify-ca'];
const SSL_MODES = ['disable', ...LIKE_FULL, 'verify-full', 'no-verify'];

/** The parameters that pg or this service supports, and a check of their values. pg silently ignores all others. */
const URL_PARAMETERS: Readonly<Record<string, (value: string) => boolean>> = {
  host: () => true,
  port: (value) => /^[0-9]{1,5}$/.test(value),
  user: () => true,
  password: () => true,
  application_name: () => true,
  options: () => true,
  target_session_attrs: (value) => value === 'read-write',
  ssl: (value) => ['true', '1', '0'].includes(value),
  // `withFullTls` has replaced those in LIKE_FULL, except percent-encoded ones, which are rejected.
  sslmode: (value) => SSL_MODES.includes(value) && !LIKE_FULL.includes(value),
  sslrootcert: () => true,
  sslcert: () => true,
  sslkey: () => true,
  sslnegotiation: (value) => ['postgres', 'direct'].includes(value),
};

/** The property is a `DATABASE_URL`, or is omitted. */
export function DatabaseUrl(): PropertyDecorator {
  return AllOf(
    MayBeOmitted(),
    Transform(({ value }) => parsable(withFullTls(value))),
    Satisfies(isDatabaseUrl, {
      message: `$property must be a postgres:// URL. Its parameters may be ${Object.keys(URL_PARAMETERS).join(', ')}, each at most once, and not both ssl and sslmode. sslmode may be ${SSL_MODES.join(', ')}. Several hosts require target_session_attrs=read-write`,
    }),
  );
}

/** The property is a `DATABASE_READ_URL`, or is omitted. */
export function ReadUrl(): PropertyDecorator {
  return AllOf(
    MayBeOmitted(),
    Transform(({ value }) => parsable(withFullTls(value))),
    Satisfies(isReadUrl, {
      message:
        '$property must be a postgres:// URL of one or several hosts. It may have the parameters of DATABASE_URL except target_session_attrs',
    }),
  );
}

const AS_FULL = new RegExp(`(?<=^|&)sslmode=(?:${LIKE_FULL.join('|')})(?=&|$)`);

/** Replaces the values of `sslmode` that pg treats as `verify-full`. */
function withFullTls(url: string): string {
  const [address, ...rest] = url.split('?');
  return [address, rest.join('?').replace(AS_FULL, 'sslmode=verify-full')]
    .filter(Boolean)
    .join('?');
}

/** A URL for each of the hosts, separated by commas, that `url` names. */
export function hostsOf(url: string): string[] {
  const [, before, hosts = '', after] = /^(\w+:\/\/(?:[^/?]*@)?)([^/?]*)(.*)$/s.exec(url) ?? [];
  return hosts.split(',').map((host) => `${before}${host}${after}`);
}

/**
 * Moves the user, the password and the port of a URL without a host to its parameters. `URL` accepts them only after a
 * host, but PostgreSQL's URL of a Unix socket has none: `postgres://user@/database?host=/folder`.
 */
export function parsable(url: string): string {
  const [, scheme, user = '', password, port, path = '', query] =
    /^(\w+:\/\/)([^/?:]*)(?::([^/?]*))?@(?::([0-9]*))?(\/[^?]*)?(?:\?(.*))?$/s.exec(url) ?? [];
  if (scheme === undefined) {
    return url;
  }
  const moved = Object.entries({ user, password, port }).filter(([, value]) => value);
  const parameters = moved.map(([name, value]) => `${name}=${inQuery(value!)}`);
  return `${scheme}${path || '/'}?${[query || [], parameters].flat().join('&')}`;
}

/** Encodes the characters that a URL may have before its host, and that have a meaning in a query. */
const inQuery = (text: string) => text.replace(/[+&=#]/g, encodeURIComponent);

/** Whether `url` is a valid `DATABASE_URL`. If it has several hosts, it requires `target_session_attrs=read-write`. */
function isDatabaseUrl(url: string): boolean {
  const hasSeveralHosts = /^\w+:\/\/(?:[^/?]*@)?[^@/?]*,[^@/?]*(?:[/?]|$)/.test(url);
  return isPostgresUrl(url) && (!hasSeveralHosts || TO_TAKE_WRITES.test(url));
}

/** Whether `url` is a valid `DATABASE_READ_URL`. All its hosts are used, so it has no `target_session_attrs`. */
function isReadUrl(url: string): boolean {
  return (
    isPostgresUrl(url) &&
    !TO_TAKE_WRITES.test(url) &&
    hostsOf(url).every((one) => URL.canParse(one))
  );
}

const TO_TAKE_WRITES = /[?&]target_session_attrs=/;

/** Whether `url` is a `postgres://` URL whose parameters all have an effect. */
function isPostgresUrl(url: string): boolean {
  const parameters = [...new URLSearchParams(url.split('?').slice(1).join('?'))];
  // No parameter can occur twice, and `ssl` and `sslmode` cannot occur together: pg would use only one of them.
  const names = new Set(parameters.map(([name]) => (name === 'ssl' ? 'sslmode' : name)));
  return (
    /^postgres(ql)?:\/\/./.test(url) &&
    names.size === parameters.length &&
    // If the password contains an unencoded `/`, what follows it would be the name of the database.
    !/@/.test(url.split('?')[0]!.replace(/^\w+:\/\/[^/]*/, '')) &&
    parameters.every(
      ([name, value]) => Object.hasOwn(URL_PARAMETERS, name) && URL_PARAMETERS[name]!(value),
    )
  );
}

/** Masks the passwords of a `postgres://` URL with `***`. If it cannot be parsed, returns `postgres://***`. */
export function withoutPassword(url: string): string {
  // `URL` accepts only one host. So the URL is masked with its first host, and then gets all hosts again.
  const [, hosts = ''] = /^\w+:\/\/(?:[^/?]*@)?([^/?]*)/.exec(url) ?? [];
  const [ofOneHost] = hostsOf(url);
  if (!URL.canParse(ofOneHost!)) {
    return 'postgres://***';
  }
  const masked = new URL(ofOneHost!);
  if (masked.password !== '') {
    masked.password = '***';
  }
  if (masked.searchParams.has('password')) {
    masked.searchParams.set('password', '***');
  }
  return masked.href.replace(
    /^(\w+:\/\/(?:[^/?]*@)?)[^/?]*/,
    (_all, before: string) => before + hosts,
  );
}
