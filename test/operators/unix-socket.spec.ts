import { chmod, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Project } from '../support/project.js';
import { Postgres, systemBinaries } from '../support/postgres.js';

const binaries = await systemBinaries();

(binaries ? describe : describe.skip)('with a PostgreSQL behind a Unix socket', () => {
  let folder: string;
  let server: Postgres;
  let project: Project;
  let DATABASE_URL: string;
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'animal-store-socket-'));
    await chmod(folder, 0o777);
    server = await Postgres.start([`unix_socket_directories=${folder}`]);
    project = await Project.create();
    DATABASE_URL = `postgres://postgres:${server.password}@/postgres?host=${folder}&port=${server.port}`;
  });
  afterAll(async () => {
    await project.remove();
    await server.stop();
    await rm(folder, { recursive: true });
  });

  it('every command runs, and the service serves', async () => {
    const applied = await project.run('migrate', ['run'], { DATABASE_URL });
    expect([applied.code, applied.stderr]).toEqual([
      0,
      expect.stringMatching(`^Database postgres at ${folder}:${server.port}, role postgres`),
    ]);
    const checked = await project.run('check', [], { DATABASE_URL });
    expect([checked.code, checked.stdout.includes(server.password)]).toEqual([0, false]);
    const { stdout } = await project.run('keys', ['create', '--name', 'x'], { DATABASE_URL });
    const { base } = await project.serve({ DATABASE_URL });
    const headers = { Authorization: `Bearer ${stdout.trim()}` };
    expect((await fetch(`${base}/pets`, { headers })).status).toBe(200);
  });

  it.each([
    ['before the host', () => DATABASE_URL],
    [
      'as a parameter',
      () =>
        `postgres://127.0.0.1:${server.port}/postgres?user=postgres&password=${server.password}&options=-c%20geqo%3Doff&ssl=0`,
    ],
  ])('psql connects by a URL with the password %s, and shows it to nobody', async (_, url) => {
    const ask = ['-Atc', 'select current_user', '-c', '\\! ps -o args= -p $PPID'];
    const { code, stdout, stderr } = await project.run('psql', ask, { DATABASE_URL: url() });
    expect([code, stderr]).toEqual([0, '']);
    expect(stdout).toMatch(/^postgres\n\S*psql -Atc select current_user /);
    expect(stdout).not.toContain(server.password);
  });
});
