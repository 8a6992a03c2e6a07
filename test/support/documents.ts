import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { PROJECT_ROOT } from '../../src/config/project-root.js';

/** The text of a file of the project, by its path from the root. */
export const read = (file: string) => readFileSync(join(PROJECT_ROOT, file), 'utf8');

/** The documents in a folder, as paths from the project's root. */
export const inFolder = (folder: string) =>
  readdirSync(join(PROJECT_ROOT, folder))
    .filter((file) => file.endsWith('.md'))
    .map((file) => join(folder, file));

/** All documents, as such paths. */
export const DOCUMENTS = [
  ...inFolder('.'),
  ...inFolder('docs'),
  ...inFolder('docs/guides'),
  'clients/typescript/README.md',
];
