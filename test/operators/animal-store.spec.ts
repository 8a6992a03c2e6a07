import { spawnSync } from 'node:child_process';
import { chmod, symlink } from 'node:fs/promises';
import { delimiter, dirname, join } from 'node:path';
import { Project } from '../support/project.js';

const COMMANDS = [
  ['serve'],
  ['check'],
  ...['run', 'revert', 'show', 'sql'].map((command) => ['migrate', command]),
  ...['create', 'list', 'revoke', 'rotate', 'admit'].map((command) => ['keys', command]),
  ['seed'],
  ['psql'],
];

describe('animal-store', () => {
  const project = Project.ofTests();
  beforeAll(async () => {
    const program = join(project.folder, 'dist/src/main.js');
    // As npm and the Dockerfile do.
    await chmod(program, 0o755);
    await symlink(program, join(project.folder, 'animal-store'));
  });

  /** Runs the program by its name, as a shell finds it. */
  function animalStore(args: string[], variables: Record<string, string> = {}) {
    const PATH = [project.folder, dirname(process.execPath), process.env['PATH']].join(delimiter);
    const { status, stdout, stderr } = spawnSync('animal-store', args, {
      cwd: project.folder,
      env: { PATH, ...variables },
      encoding: 'utf8',
    });
    return { code: status, stdout, stderr };
  }

  it('lists its commands, without any configuration', () => {
    const { code, stdout, stderr } = animalStore(['--help'], { PORT: 'none' });
    expect([code, stderr]).toEqual([0, '']);
    for (const [command] of COMMANDS) {
      expect(stdout).toMatch(new RegExp(`^  ${command} `, 'm'));
    }
  });

  it.each(COMMANDS)('%s %s has help with its exit codes', (...command) => {
    const { code, stdout, stderr } = animalStore([...command.filter(Boolean), '--help']);
    expect([code, stderr]).toEqual([0, '']);
    expect(stdout).toMatch(new RegExp(`^Usage: animal-store ${command.join(' ')}`));
    expect(stdout).toMatch(/\nExit codes:\n {2}0 {2}.+\n {2}1 {2}.+\n/);
  });

  it.each([['migrate'], ['migrate', 'drop'], ['migrate', 'run', 'all']])(
    'runs nothing for %s %s %s, and gives the usage',
    (...args) => {
      const outcome = animalStore(args.filter(Boolean));
      expect(outcome).toEqual({ code: 1, stdout: '', stderr: expect.stringContaining('Usage:') });
    },
  );

  it('runs nothing for a command that is misspelt, and says which it may be', () => {
    const { code, stdout, stderr } = animalStore(['mirgate', 'run']);
    expect([code, stdout]).toEqual([1, '']);
    expect(stderr).toMatch(/unknown command 'mirgate'\n\(Did you mean migrate\?\)/);
  });

  it('lists keys as JSON', async () => {
    const variables = { DATABASE_URL: await project.createMigratedDatabase() };
    animalStore(['keys', 'create', '--name', 'Rex', '--expires', '1d'], variables);
    animalStore(['keys', 'create', '--name', 'Bello'], variables);
    animalStore(['keys', 'revoke', '2'], variables);
    const moment = expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/);
    const common = { createdAt: moment, lastUsedAt: null };
    expect(JSON.parse(animalStore(['keys', 'list', '--json'], variables).stdout)).toEqual([
      { ...common, id: '1', name: 'Rex', isValid: true, expiresAt: moment, revokedAt: null },
      { ...common, id: '2', name: 'Bello', isValid: false, expiresAt: null, revokedAt: moment },
    ]);
  });
});
