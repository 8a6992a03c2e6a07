import { readdirSync } from 'node:fs';
import { dirname, join } from 'node:path';

const ROOT = dirname(dirname(import.meta.dirname));
const MIGRATIONS = join(ROOT, 'migrations');

/** Files of the project that code names by their paths from the root. */
const NAMED = /'((?:docs|deploy)\/[\w./-]+\.(?:yaml|sql|md))'/g;

/** What a file depends on beside its imports, for `--watch`: the documents that it names, and migrations. */
export function extract(code, file, importsOf) {
  const named = Array.from(code.matchAll(NAMED), ([, path]) => join(ROOT, path));
  const loaded = file === join(MIGRATIONS, 'index.ts') ? readdirSync(MIGRATIONS) : [];
  return new Set([...importsOf(code), ...named, ...loaded.map((name) => join(MIGRATIONS, name))]);
}

/** Jest keeps what it extracted while this stays the same. */
export const getCacheKey = () => readdirSync(MIGRATIONS).join();
