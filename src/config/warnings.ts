/** libpq's variables for TLS that are set. pg reads two of them, and those in part; the service lets it read none. */
export const ignoredIn = (variables: NodeJS.ProcessEnv) =>
  Object.keys(variables).filter((name) => name.startsWith('PGSSL') && variables[name] !== '');

/**
 * A sentence for each variable that is set in vain: libpq's for TLS, and one whose name is similar to one of `names`,
 * which the program reads. It is no error, because the variable may belong to other software. Names that other software
 * often has, such as `DATABASE_HOST` and `DATABASE_USER`, are not similar enough.
 */
export function warningsOf(variables: NodeJS.ProcessEnv, names: readonly string[]): string[] {
  const warnings = ignoredIn(variables).map(
    (name) => `${name} is ignored: only the parameters of DATABASE_URL configure TLS.`,
  );
  for (const [given, value] of Object.entries(variables)) {
    const meant = names.find((name) => isSimilar(given, name));
    if (value && meant !== undefined && !names.includes(given)) {
      warnings.push(`${given} is not read. Is it meant to be ${meant}?`);
    }
  }
  return warnings;
}

/**
 * Whether the names differ in one place by at most 2 characters; by 1 if the name is so short that many are near it. At
 * the end, they may differ by 3 characters if the shorter name lacks only those: `TRUST_PROXIES`, `RATE_LIMIT_PER_MIN`.
 */
function isSimilar(given: string, name: string): boolean {
  const length = Math.min(given.length, name.length);
  let start = 0;
  while (start < length && given[start] === name[start]) {
    start += 1;
  }
  let end = 0;
  while (end < length - start && given.at(-1 - end) === name.at(-1 - end)) {
    end += 1;
  }
  const different = Math.max(given.length, name.length) - start - end;
  const isShort = name.length < 8;
  return different <= (isShort ? 1 : start >= length - 1 ? 3 : 2);
}
