import { execFileSync, spawnSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { ordinaryAccount } from '../support/account.js';
import { addPet, petNames } from '../support/pets.js';
import { Project } from '../support/project.js';
import { until } from '../support/until.js';

// Elsewhere, these tests do not run as root.
const project = Project.ofTests(ordinaryAccount());

it('a first start of an ordinary account, killed while it creates the database, leaves nothing incomplete to the next one', async () => {
  const data = join(project.folder, '.data');
  const program = project.spawn('serve');
  const find = [data, '-name', 'PG_VERSION'];
  await until('initdb works', () => spawnSync('find', find).stdout.length > 0);
  const children = ['-P', String(program.processId)];
  const initdb = Number(execFileSync('pgrep', children, { encoding: 'utf8' }));
  await program.end('SIGKILL');
  expect(readdirSync(data)).not.toContain('postgres');

  const { base, key } = await project.serveEmbedded();
  await addPet(base, key, 'Rex');
  const hasEnded = () => spawnSync('ps', ['-p', String(initdb)]).status !== 0;
  await until('the first initdb has ended', hasEnded);
  expect(await petNames(base, key)).toEqual(['Rex']);
  const folders = [data, join(data, 'postgres')].map((path) => stat(path));
  const [uid, ...others] = (await Promise.all(folders)).map((folder) => folder.uid);
  expect(others).toEqual([uid]);
});
