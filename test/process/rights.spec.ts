import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { PROJECT_ROOT } from '../../src/config/project-root.js';
import { administer } from '../../src/database/database.js';
import { runMigrations } from '../../src/database/migrations.js';
import { createDatabase, dropDatabase } from '../service.js';
import { Project } from './project.js';

it('a role with the rights that docs/operations.md lists serves and issues keys', async () => {
  const owner = await createDatabase();
  await runMigrations(owner);
  const role = `${new URL(owner).pathname.slice(1)}_service`;
  const guide = await readFile(join(PROJECT_ROOT, 'docs/operations.md'), 'utf8');
  const database = new URL(owner).pathname.slice(1);
  const grants = guide
    .match(/^grant .+ to animals;$/gm)!
    .map((grant) => grant.replace('database animals', `database ${database}`));
  const asOwner = (sql: string) => administer(owner, (dataSource) => dataSource.query(sql));
  await asOwner(`create role ${role} login password 'sekrit'`);
  await asOwner(grants.join('\n').replaceAll('to animals;', `to ${role};`));
  const DATABASE_URL = Object.assign(new URL(owner), { username: role, password: 'sekrit' }).href;

  const project = await Project.create();
  const { stdout } = await project.run('cli/keys', ['create', '--name', 'x'], { DATABASE_URL });
  const headers = { Authorization: `Bearer ${stdout.trim()}`, 'Content-Type': 'application/json' };
  const { base, program } = await project.serve({ DATABASE_URL });
  const status = async (path: string, more: RequestInit = {}) =>
    (await fetch(new URL(path, base), { headers, ...more })).status;
  const add = (key: object) => ({
    method: 'POST',
    body: '{"name":"Rex","categoryId":1}',
    headers: { ...headers, ...key },
  });
  expect([
    await status('/health/ready'),
    await status('/v1/pets', add({})),
    await status('/v1/pets', add({ 'Idempotency-Key': 'once' })),
    await status('/v1/pets', add({ 'Idempotency-Key': 'once' })),
    await status('/v1/pets'),
    await status('/v1/pets/1'),
    await status('/v1/store/orders'),
  ]).toEqual([200, 201, 201, 201, 200, 200, 200]);
  // Ends with a round that notes which keys were used, and would warn where it may not.
  const { stdout: log } = await program.end('SIGINT');
  expect(log).not.toContain('"level":"warn"');
  await project.remove();
  await asOwner(`drop owned by ${role}; drop role ${role}`);
  await dropDatabase(owner);
});
