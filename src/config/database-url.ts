import { readFileSync } from 'node:fs';
import { Transform } from 'class-transformer';
import { Client } from 'pg';
import { AllOf, Satisfies } from '../validation/decorators.js';

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
  sslnegotiation: 'postgres|direct',
  sslrootcert: '.*',
  sslcert: '.*',
  sslkey: '.*',
};

const WRITABLE = 'target_session_attrs';

/** The property is a `postgres://` URL. Of several hosts, `one` is used, which `target_session_attrs` picks, or `each`. */
export function DatabaseUrl(target: 'one' | 'each'): PropertyDecorator {
  const allowed = Object.keys(PARAMETERS).filter((name) => target === 'one' || name !== WRITABLE);
  const faultOf = (url: string) => faultIn(url, allowed);
  return AllOf(
    Transform(({ value }) => parsable(value)),
    Satisfies((url) => faultOf(url) === undefined, {
      message: ({ property, value }) => `${property} must ${faultOf(value)}`,
    }),
  );
}

/** What `url` must be or have. No value is in the text: it may be secret. */
function faultIn(url: string, allowed: string[]): string | undefined {
  const hosts = hostsOf(url);
  // If the password contains an unencoded `/`, what follows it would be the name of the database.
  const isUrl = /^postgres(?:ql)?:\/\/(?=.)[^/?#]*[^@?#]*(?:\?[^#]*)?$/.test(url);
  if (!isUrl || !hosts.every((one) => URL.canParse(one))) {
    return 'be a postgres:// URL with a percent-encoded password';
  }
  const query = queryOf(url);
  const parameters = new URLSearchParams(query);
  for (const [name, value] of parameters) {
    if (!allowed.includes(name)) {
      // After an unencoded `?` in the password, the name would be a part of it.
      const shown = query.includes('@') ? 'some of its parameters' : `the parameter ${name}`;
      return `not have ${shown}; it may have ${allowed.join(', ')}`;
    }
    if (!new RegExp(`^(?:${PARAMETERS[name]})$`, 's').test(value)) {
      return `have a parameter ${name} that matches ${PARAMETERS[name]}`;
    }
  }
  const names = [...parameters.keys()].map((name) => (name === 'ssl' ? 'sslmode' : name));
  if (new Set(names).size < parameters.size) {
    return 'have each parameter once, and not both ssl and sslmode; sslrootcert=system is sslmode=verify-full';
  }
  return hosts.length > 1 && allowed.includes(WRITABLE) && !parameters.has(WRITABLE)
    ? `have ${WRITABLE}=read-write, because it names several hosts`
    : undefined;
}

const queryOf = (url: string) => /\?(.*)/s.exec(url)?.[1] ?? '';

/** A URL for each of the hosts, separated by commas, that `url` names. `URL` accepts only one host. */
export function hostsOf(url: string): string[] {
  const [, before, hosts, after] = /^([^:]+:\/\/(?:[^/?]*@)?)([^/?]*)(.*)$/s.exec(url) ?? [];
  return hosts?.split(',').map((host) => `${before}${host}${after}`) ?? [url];
}

/** The password of `user` in the URL in a file now; `undefined` if it is another user's, or somebody replaces the file. */
export function passwordIn(file: string, user: string | undefined): string | undefined {
  try {
    const [connectionString] = hostsOf(parsable(readFileSync(file, 'utf8').trim()));
    const login = new Client({ connectionString });
    return login.user === user ? login.password : undefined;
  } catch {
    return undefined;
  }
}

/**
 * Gives a URL the form that `URL` and pg read as it is meant. That of a Unix socket, `postgres://user@/database?host=/folder`,
 * gets a host, which its parameter overrides. pg treats some `sslmode`s as `verify-full`, but warns of its next version.
 */
const parsable = (url: string): string =>
  url
    .replace(/^(postgres(?:ql)?:\/\/[^/?]*@)(?=[:/?]|$)/, '$1localhost')
    .replace(/([?&]sslmode=)(?:prefer|require|verify-ca)(?=&|$)/, '$1verify-full')
    // As in libpq 16. Without a file, pg has the roots that Node has.
    .replace(/([?&])sslrootcert=system(?=&|$)/, '$1sslmode=verify-full')
    .replace(/([?&]sslmode=verify-full)((?:&.*)?)&sslmode=verify-full(?=&|$)/, '$1$2');
