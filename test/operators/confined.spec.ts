import { spawnSync } from 'node:child_process';
import { ordinaryAccount } from '../support/account.js';
import { addPet, petNames } from '../support/pets.js';
import { Project } from '../support/project.js';

/**
 * Runs a command as Kubernetes runs a container with the securityContext of deploy/kubernetes: no mount can be written to,
 * the user is in no list of users, and has no capabilities.
 */
const CONFINED = [
  '--mount',
  'sh',
  '-c',
  `findmnt --raw --noheadings --output TARGET | while read -r target; do
     mount -o remount,bind,ro "$target" 2>/dev/null
   done
   exec setpriv --reuid 10001 --regid 10001 --clear-groups --no-new-privs --bounding-set=-all --inh-caps=-all "$@"`,
  'sh',
];

/** Whether this machine lets these tests do so; if not, why is printed. */
function canConfine(): boolean {
  if (ordinaryAccount() === undefined) {
    return false;
  }
  const { status, stderr } = spawnSync('unshare', [...CONFINED, 'true'], { encoding: 'utf8' });
  if (status !== 0) {
    console.warn(`Not run on a read-only file system: ${stderr}`);
  }
  return status === 0;
}

// Skipped, in CI too, if this process may not mount: no package that CI installs gives it this right.
(canConfine() ? describe : describe.skip)(
  'as any user, without capabilities, on a read-only file system',
  () => {
    const project = Project.ofTests();
    const variables = { NODE_ENV: 'production' };
    beforeAll(async () => {
      Object.assign(variables, { DATABASE_URL: await project.createDatabase() });
    });

    const start = (...command: string[]) =>
      project.start('unshare', [...CONFINED, ...command], variables);
    const run = (...args: string[]) => start(process.execPath, 'dist/src/main.js', ...args);

    it('nothing can be written, and nothing is allowed', async () => {
      const script = `touch x "$TMPDIR/x" /tmp/x 2>/dev/null; ls x "$TMPDIR/x" 2>/dev/null
        id -u; grep CapBnd /proc/self/status`;
      const { stdout } = await start('sh', '-c', script).outcome;
      expect(stdout).toBe('10001\nCapBnd:\t0000000000000000\n');
    });

    it('migrations are applied, keys created, and animals served', async () => {
      expect(await run('migrate', 'run').outcome).toMatchObject({ code: 0 });
      const { stdout } = await run('keys', 'create', '--name', 'x').outcome;
      const program = run('serve');
      const [, base] = await program.says(/"address":"([^"]+)"/);
      await addPet(base!, stdout.trim(), 'Rex');
      expect(await petNames(base!, stdout.trim())).toEqual(['Rex']);
      expect((await fetch(new URL('/docs', base))).status).toBe(200);
      expect((await program.end('SIGTERM')).code).toBe(0);
    });
  },
);
