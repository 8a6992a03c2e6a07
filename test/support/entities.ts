import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { PROJECT_ROOT } from '../../src/config/project-root.js';

/** What the files `*.entity.ts` of `src` export: every entity of the service. */
export async function entitiesOfSource(): Promise<Function[]> {
  const source = join(PROJECT_ROOT, 'src');
  const files = readdirSync(source, { recursive: true, encoding: 'utf8' });
  const entities = files.filter((file) => file.endsWith('.entity.ts'));
  const modules = await Promise.all(entities.map((file) => import(join(source, file))));
  return modules.flatMap(Object.values).filter((one) => typeof one === 'function');
}
