import { mkdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { PROJECT_ROOT } from '../../src/config/project-root.js';
import { Project } from '../support/project.js';

describe('npm run openapi', () => {
  it('writes docs/openapi.json without a database, as the service answers with it', async () => {
    const project = await Project.create();
    await mkdir(join(project.folder, 'docs'), { recursive: true });
    const variables = { PUBLIC_BASE_URL: 'https://a.test/v1', DOCS: 'off' };
    const outcome = await project.run('openapi', [], variables);
    expect(outcome).toEqual({ code: 0, stdout: '', stderr: '' });
    const read = (folder: string) => readFile(join(folder, 'docs/openapi.json'), 'utf8');
    expect(await read(project.folder)).toBe(await read(PROJECT_ROOT));
    await project.remove();
  });
});
