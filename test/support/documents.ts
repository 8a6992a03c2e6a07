import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { PROJECT_ROOT } from '../../src/config/project-root.js';

const inFolder = (folder: string) =>
  readdirSync(join(PROJECT_ROOT, folder))
    .filter((file) => file.endsWith('.md'))
    .map((file) => join(folder, file));

/** All documents, as paths from the project's root. */
export const DOCUMENTS = [
  ...inFolder('.'),
  ...inFolder('docs'),
  ...inFolder('docs/guides'),
  'clients/typescript/README.md',
];
