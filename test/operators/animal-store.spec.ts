import { chmod, symlink } from 'node:fs/promises';
import { delimiter, dirname, join } from 'node:path';
import { parse } from 'yaml';
import { newApiKey } from '../../src/api-key.js';
import { runHere } from '../support/command.js';
import { statusWith } from '../support/pets.js';
import { Project } from '../support/project.js';
import { read } from '../support/documents.js';

const COMMANDS = [
  'serve',
  'check',
  ...['run', 'revert', 'show', 'sql'].map((command) => `migrate ${command}`),
  ...['create', 'list', 'revoke', 'admit'].map((command) => `keys ${command}`),
  'seed',
];

describe('animal-store', () => {
  const project = Project.ofTests();

  it('is found by its name, and lists its commands without any configuration', async () => {
    const program = join(project.folder, 'dist/src/main.js');
    // As npm and the Dockerfile do.
    await chmod(program, 0o755);
    await symlink(program, join(project.folder, 'animal-store'));
    const PATH = [project.folder, dirname(process.execPath), process.env['PATH']].join(delimiter);
    const variables = { PATH, PORT: 'none' };
    const outcome = await project.start('animal-store', ['--help'], variables).outcome;
    expect(outcome).toMatchObject({ code: 0, stderr: '' });
    for (const command of COMMANDS) {
      expect(outcome.stdout).toMatch(new RegExp(`^  ${command.split(' ')[0]} `, 'm'));
    }
  });

  it.each(COMMANDS)('%s has help with its exit codes', async (command) => {
    const { code, stdout, stderr } = await runHere(`${command} --help`);
    expect([code, stderr]).toEqual([0, '']);
    expect(stdout).toMatch(new RegExp(`^Usage: animal-store ${command}`));
    expect(stdout).toMatch(/\nExit codes:\n {2}0 {2}.+\n {2}1 {2}.+\n/);
  });

  it.each([
    ['migrate', /Usage:/],
    ['migrate drop', /Usage:/],
    ['migrate run all', /Usage:/],
    ['mirgate run', /unknown command 'mirgate'\n\(Did you mean migrate\?\)/],
  ])('runs nothing for %s, and says what there is', async (command, message) => {
    const stderr = expect.stringMatching(message);
    expect(await runHere(command)).toEqual({ code: 1, stdout: '', stderr });
  });

  describe("as docker compose's api", () => {
    async function start(LOCAL_API_KEY: string) {
      const compose = read('docker-compose.yml');
      const [command, ...args] = parse(compose).services.api.entrypoint;
      const PATH = `${project.folder}:${process.env['PATH']}`;
      const DATABASE_URL = await project.createMigratedDatabase();
      return project.start(command, args, { PATH, DATABASE_URL, LOCAL_API_KEY });
    }

    it('serves with the key in LOCAL_API_KEY, and gets the signals', async () => {
      const key = newApiKey();
      const program = await start(key);
      const [, base] = await program.says(/^Animal Store Service at (\S+)$/m);
      expect(await statusWith(base!, key)).toBe(200);
      expect((await program.end('SIGTERM')).code).toBe(0);
    });

    it('says in its own log why it refuses what LOCAL_API_KEY holds, and does not serve', async () => {
      const { code, stdout, stderr } = await (await start('animalstore_sekrit')).outcome;
      expect([code, stdout]).toEqual([1, '']);
      expect(stderr).toMatch(/^LOCAL_API_KEY is not a key .+\.env/m);
      expect(stderr).not.toContain('sekrit');
    });
  });
});
