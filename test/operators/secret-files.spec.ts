import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { newApiKey } from '../../src/api-key.js';
import { onServer } from '../support/service.js';
import { statusWith } from '../support/pets.js';
import { Project } from '../support/project.js';
import { until } from '../support/until.js';

describe('secrets in files', () => {
  const project = Project.ofTests();
  let database: string;
  let role: string;
  let file: string;
  const beforeHost = (password: string) =>
    Object.assign(new URL(database), { username: role, password });
  const asParameter = (password: string) =>
    Object.assign(new URL(database), {
      username: '',
      password: '',
      search: String(new URLSearchParams({ user: role, password })),
    });
  const endSessions = () =>
    onServer(`select pg_terminate_backend(pid) from pg_stat_activity where usename = '${role}'`);

  beforeAll(async () => {
    database = await project.createDatabase();
    const name = new URL(database).pathname.slice(1);
    role = `${name}_owner`;
    file = join(project.folder, 'url');
    await onServer(`create role ${role} login`);
    await onServer(`alter database ${name} owner to ${role}`);
  });
  // After the database, which it owns.
  afterAll(() => onServer(`drop role ${role}`));

  it.each([
    ['before the host', beforeHost],
    ['as a parameter', asParameter],
  ])(
    'let a changed password work without a restart, and admit a key, unless it is set twice: %s',
    async (_where, urlOf) => {
      const putPassword = (password: string) => writeFile(file, `${urlOf(password).href}\n`);
      await onServer(`alter role ${role} password 'first'`);
      await putPassword('first');
      const variables = { DATABASE_URL_FILE: file, MIGRATE_ON_START: 'true' };
      const { base, program } = await project.serve(variables);
      const key = newApiKey();
      const LOCAL_API_KEY_FILE = join(project.folder, 'key');
      await writeFile(LOCAL_API_KEY_FILE, `${key}\n`);
      const admit = (more = {}) =>
        project.run('keys', ['admit', '--name', 'x'], {
          ...variables,
          LOCAL_API_KEY_FILE,
          ...more,
        });
      expect(await admit()).toMatchObject({ code: 0 });
      expect(await statusWith(base, key)).toBe(200);
      expect(await admit({ LOCAL_API_KEY: key })).toMatchObject({
        code: 1,
        stderr: 'LOCAL_API_KEY_FILE must not be set beside LOCAL_API_KEY\n',
      });

      await onServer(`alter role ${role} password '/se#cond'`);
      await endSessions();
      await until('a new connection is refused', async () => (await statusWith(base, key)) === 503);
      await writeFile(file, 'postgres://');
      expect(await statusWith(base, key)).toBe(503);
      await putPassword('/se#cond');
      expect(await statusWith(base, key)).toBe(200);

      // Sessions that were opened before do not matter.
      await endSessions();
      await until('it serves again', async () => (await statusWith(base, key)) === 200);
      const { stdout, stderr } = await program.end('SIGTERM');
      expect(stdout + stderr).not.toMatch(/first@|=first|se%23cond|se#cond/);
    },
  );
});
