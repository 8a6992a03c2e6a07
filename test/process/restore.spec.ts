import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { PROJECT_ROOT } from '../../src/config/project-root.js';
import { systemBinaries, SystemPostgres } from '../database/system-postgres.js';
import { addPet, petNames, statusWith } from './pets.js';
import { Project } from './project.js';

const binaries = await systemBinaries();

/** The commands of the numbered steps of a section of docs/operations.md, by the step's number. */
async function stepsOf(title: string): Promise<Map<number, string>> {
  const guide = await readFile(join(PROJECT_ROOT, 'docs/operations.md'), 'utf8');
  const [, section] = guide.split(`\n### ${title}\n`);
  const steps = section!.split(/\n#+ /)[0]!.matchAll(/^(\d)\. [^]*?(?=^\d\. |^\S|$(?![^]))/gm);
  return new Map(
    [...steps].flatMap(([step, number]) => {
      const [, block] = /^ {3}```sh\n([^]*?)^ {3}```$/m.exec(step) ?? [];
      return block === undefined ? [] : [[Number(number), block.replaceAll(/^ {3}/gm, '')]];
    }),
  );
}

(binaries ? describe : describe.skip)('docs/operations.md, step by step', () => {
  let project: Project;
  let servers: SystemPostgres[];
  beforeAll(async () => {
    project = await Project.create();
    servers = await Promise.all([1, 2].map(() => SystemPostgres.start(binaries!)));
  });
  afterAll(async () => {
    await project.remove();
    await Promise.all(servers.map((server) => server.stop()));
  });

  const OWNER_PASSWORD = 'owner-password';
  const SERVICE_PASSWORD = 'service-password';

  /** Runs a step's commands against `server`. @returns their standard output. */
  async function run(server: SystemPostgres, commands: string | undefined): Promise<string> {
    const passwords = [
      `*:*:*:postgres:${server.password}`,
      `*:*:*:animals_owner:${OWNER_PASSWORD}`,
      `*:*:*:animals:${SERVICE_PASSWORD}`,
    ];
    const PGPASSFILE = join(project.folder, '.pgpass');
    await writeFile(PGPASSFILE, passwords.join('\n'), { mode: 0o600 });
    const variables = {
      PGHOST: '127.0.0.1',
      PGPORT: String(server.port),
      PGPASSFILE,
      OWNER_PASSWORD,
      SERVICE_PASSWORD,
    };
    expect(commands).toBeDefined();
    const program = project.start('sh', ['-e', '-c', commands!], variables);
    const { code, stdout, stderr } = await program.outcome;
    expect({ commands, code, stderr }).toEqual({ commands, code: 0, stderr: expect.any(String) });
    return stdout;
  }

  it('sets a database up, backs it up, and restores it on a new server', async () => {
    const [old, fresh] = servers as [SystemPostgres, SystemPostgres];
    const setUp = await stepsOf('Set up');
    const restore = await stepsOf('Backup and restore');
    expect([[...setUp.keys()], [...restore.keys()]]).toEqual([
      [1, 2, 3, 4],
      [1, 3],
    ]);
    const databaseOf = ({ port }: SystemPostgres) => ({
      DATABASE_URL: `postgres://animals:${SERVICE_PASSWORD}@127.0.0.1:${port}/animals`,
    });

    await run(old, setUp.get(1));
    expect(await run(old, setUp.get(2))).toMatch(/Applied .+\.\n$/);
    await run(old, setUp.get(3));
    expect(await run(old, setUp.get(4))).not.toContain('FAIL');
    const created = await project.run('keys', ['create', '--name', 'x'], databaseOf(old));
    const key = created.stdout.trim();
    const before = await project.serve(databaseOf(old));
    await addPet(before.base, key, 'Rex');
    await run(old, restore.get(1));

    await run(fresh, setUp.get(1));
    await run(fresh, restore.get(3));
    await run(fresh, setUp.get(3));
    expect(await run(fresh, setUp.get(4))).not.toContain('FAIL');
    const after = await project.serve(databaseOf(fresh));
    expect((await fetch(new URL('/health/ready', after.base))).status).toBe(200);
    expect(await statusWith(after.base, key)).toBe(200);
    await addPet(after.base, key, 'Bello');
    expect(await petNames(after.base, key)).toEqual(['Rex', 'Bello']);
  }, 60_000);
});
