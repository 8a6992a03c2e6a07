import { Transform } from 'class-transformer';
import { AllOf, MayBeOmitted, Satisfies } from '../validation/decorators.js';

/** The parameters that pg or this service supports, and what their values must match. pg silently ignores all others. */
const PARAMETERS: Readonly<Record<string, string>> = {
  host: '.*',
  port: '[0-9]{1,5}',
  user: '.*',
  password: '.*',
  application_name: '.*',
  options: '.*',
  target_session_attrs: 'read-write',
  ssl: 'true|1|0',
  sslmode: 'disable|verify-full|no-verify',
  sslrootcert: '.*',
  sslcert: '.*',
  sslkey: '.*',
  sslnegotiation: 'postgres|direct',
};

const WRITABLE = 'target_session_attrs';

/**
 * The property is a `postgres://` URL, or is omitted.
 *
 * @param target `one`: if it names several hosts, it requires `target_session_attrs=read-write`. `each`: all its hosts
 *   are used, so it has no `target_session_attrs`.
 */
export function DatabaseUrl(target: 'one' | 'each'): PropertyDecorator {
  const allowed = Object.keys(PARAMETERS).filter((name) => target === 'one' || name !== WRITABLE);
  const faultOf = (url: string) => faultIn(url, allowed);
  return AllOf(
    MayBeOmitted(),
    Transform(({ value }) => parsable(value)),
    Satisfies((url) => faultOf(url) === undefined, {
      message: ({ property, value }) => `${property} must ${faultOf(value)}`,
    }),
  );
}

/** What `url` must be or have. No value is in the text: it may be secret. */
function faultIn(url: string, allowed: string[]): string | undefined {
  const { path = '@', query = '' } = partsOf(url) ?? {};
  const hosts = hostsOf(url);
  // If the password contains an unencoded `/`, what follows it would be the name of the database.
  if (path.includes('@') || !hosts.every((one) => URL.canParse(one))) {
    return 'be a postgres:// URL with a percent-encoded password';
  }
  const found = new Set<string>();
  for (const [name, value] of new URLSearchParams(query)) {
    if (!allowed.includes(name)) {
      // After an unencoded `?` in the password, the name would be a part of it.
      const shown = query.includes('@') ? 'some of its parameters' : `the parameter ${name}`;
      return `not have ${shown}; it may have ${allowed.join(', ')}`;
    }
    if (!new RegExp(`^(?:${PARAMETERS[name]})$`, 's').test(value)) {
      return `have a parameter ${name} that matches ${PARAMETERS[name]}`;
    }
    found.add(name === 'ssl' ? 'sslmode' : name);
  }
  // pg would use only one of them.
  if (found.size < new URLSearchParams(query).size) {
    return 'have each parameter once, and not both ssl and sslmode';
  }
  return hosts.length > 1 && allowed.includes(WRITABLE) && !found.has(WRITABLE)
    ? `have ${WRITABLE}=read-write, because it names several hosts`
    : undefined;
}

interface Parts {
  scheme: string;
  /** The role, and the password after a colon. */
  credentials?: string;
  /** Hosts, with or without port, separated by commas. `URL` accepts only one. */
  hosts: string;
  path: string;
  query?: string;
}

const PARTS =
  /^(?<scheme>postgres(?:ql)?:\/\/)(?=.)(?:(?<credentials>[^/?]*)@)?(?<hosts>[^/?]*)(?<path>[^?]*)(?:\?(?<query>.*))?$/s;

const partsOf = (url: string) => PARTS.exec(url)?.groups as Parts | undefined;

function join({ scheme, credentials, hosts, path, query }: Parts): string {
  const before = credentials === undefined ? '' : `${credentials}@`;
  return `${scheme}${before}${hosts}${path}${query === undefined ? '' : `?${query}`}`;
}

/** A URL for each of the hosts, separated by commas, that `url` names. */
export function hostsOf(url: string): string[] {
  const parts = partsOf(url);
  return parts?.hosts.split(',').map((hosts) => join({ ...parts, hosts })) ?? [url];
}

/**
 * Gives a URL the form that `URL` and pg read as it is meant. Without a host, the role, the password and the port become
 * parameters: `URL` accepts them only after a host, and PostgreSQL's URL of a Unix socket has none:
 * `postgres://user@/database?host=/folder`. The values of `sslmode` that pg treats as `verify-full` become that, because
 * pg warns that its next major version will treat them otherwise.
 */
export function parsable(url: string): string {
  const parts = partsOf(url);
  if (parts === undefined) {
    return url;
  }
  const { credentials, hosts, path, query } = parts;
  const parameters = query?.replace(
    /(?<=^|&)sslmode=(?:prefer|require|verify-ca)(?=&|$)/,
    'sslmode=verify-full',
  );
  if (credentials === undefined || !/^(:[0-9]*)?$/.test(hosts)) {
    return join({ ...parts, query: parameters });
  }
  const [, user, password] = /^([^:]*):?(.*)$/s.exec(credentials)!;
  const moved = Object.entries({ user, password, port: hosts.slice(1) })
    .filter(([, value]) => value)
    // These characters may be unencoded before a host, and have a meaning in a query.
    .map(([name, value]) => `${name}=${value!.replace(/[+&=#]/g, encodeURIComponent)}`);
  const all = [parameters || [], moved].flat().join('&');
  return join({ scheme: parts.scheme, hosts: '', path: path || '/', query: all });
}

/** Masks the passwords of a valid URL with `***`. */
export function withoutPassword(url: string): string {
  const parts = partsOf(url)!;
  const credentials = parts.credentials?.replace(/:.+$/s, ':***');
  const parameters = new URLSearchParams(parts.query);
  if (!parameters.has('password')) {
    return join({ ...parts, credentials });
  }
  parameters.set('password', '***');
  return join({ ...parts, credentials, query: String(parameters) });
}
