import { spawnSync } from 'node:child_process';
import { chmod, chown, cp, mkdir, readFile, rm, symlink } from 'node:fs/promises';
import { join } from 'node:path';
import { PROJECT_ROOT } from '../../src/config/project-root.js';
import { type Ids, type Outcome, Program } from './program.js';
import { temporaryFolder } from './temporary-folder.js';
import { read } from './documents.js';
import { createDatabase, createMigratedDatabase, dropDatabase } from './database.js';
import { until } from './until.js';

/** What the service and the npm scripts read. */
const PARTS: string[] = ['package.json', ...JSON.parse(read('package.json')).files];

/** The built service in a project folder of its own, so that its programs leave the checkout's data alone. */
export class Project {
  private readonly programs: Program[] = [];
  private readonly databases: string[] = [];

  private root = '';

  private constructor(private readonly ids: Ids) {}

  /** The project of the tests of a file or a `describe`, which is made before them and removed after them. */
  static ofTests(ids: Ids = {}): Project {
    const project = new Project(ids);
    beforeAll(() => project.prepare());
    afterAll(() => project.remove());
    return project;
  }

  private async prepare(): Promise<void> {
    this.root = await temporaryFolder();
    const { folder, temporary, ids } = this;
    // What programs do not read takes time to copy.
    const options = { recursive: true, filter: (file: string) => !/\.(d\.ts|map)$/.test(file) };
    for (const part of PARTS) {
      await cp(join(PROJECT_ROOT, part), join(folder, part), options);
    }
    await symlink(join(PROJECT_ROOT, 'node_modules'), join(folder, 'node_modules'));
    await mkdir(temporary);
    await chmod(temporary, 0o1777);
    // -1: as it is.
    await chown(folder, ids.uid ?? -1, ids.gid ?? -1);
  }

  get folder(): string {
    return join(this.root, 'project');
  }

  /** The folder for temporary files that its programs are given: a killed one may leave some. */
  private get temporary(): string {
    return join(this.root, 'tmp');
  }

  /** @returns the URL of a new, empty database on the tests' server, which {@link remove} drops. */
  async createDatabase(create = createDatabase): Promise<string> {
    const url = await create();
    this.databases.push(url);
    return url;
  }

  /** As {@link createDatabase}, with all migrations. */
  createMigratedDatabase(): Promise<string> {
    return this.createDatabase(createMigratedDatabase);
  }

  /** Starts the service; returns once it has announced itself. */
  async serve(variables: Variables = {}) {
    const program = this.spawn('serve', [], variables);
    // In plain text, or else in the log's first line.
    const [, base] = await program.says(
      /^(?:Animal Store Service at |.*"address":")(http[^"\s]+)/m,
    );
    return { program, base: base! };
  }

  /** Starts the service on its embedded PostgreSQL; returns once it has announced itself and its key. */
  async serveEmbedded(variables: Variables = {}) {
    const service = await this.serve(variables);
    const [, key] = await service.program.says(/^API key: (\S+)$/m);
    return { ...service, key: key! };
  }

  /** Runs a command of `animal-store` to its end. */
  run(command: string, args: string[], variables: Variables = {}): Promise<Outcome> {
    return this.spawn(command, args, variables).outcome;
  }

  spawn(command: string, args: string[] = [], variables: Variables = {}): Program {
    const file = join(this.folder, 'dist/src/main.js');
    return this.start(process.execPath, [file, command, ...args], variables);
  }

  /** Starts any program in the project's folder. */
  start(command: string, args: string[], variables: Variables): Program {
    const { PATH } = process.env;
    const env = { PATH, TMPDIR: this.temporary, PORT: '0', DRAIN_SECONDS: '0', ...variables };
    const program = Program.start(command, args, { cwd: this.folder, env, ids: this.ids });
    this.programs.push(program);
    return program;
  }

  /** The process id of the embedded PostgreSQL, while it runs. */
  async postmaster(): Promise<number | undefined> {
    const file = join(this.folder, '.data/postgres/postmaster.pid');
    const processId = parseInt(await readFile(file, 'utf8').catch(() => ''));
    const ps = spawnSync('ps', ['-o', 'command=', '-p', `${processId}`], { encoding: 'utf8' });
    return ps.stdout.includes('postgres') ? processId : undefined;
  }

  /** Ends whatever runs here still, and deletes the folder and the databases. */
  async remove(): Promise<void> {
    for (const program of this.programs) {
      program.signalGroup('SIGKILL');
    }
    await Promise.all(this.programs.map(({ outcome }) => outcome));
    const postmaster = await this.postmaster();
    if (postmaster !== undefined) {
      process.kill(postmaster, 'SIGQUIT');
      await until('PostgreSQL ends', async () => (await this.postmaster()) === undefined);
    }
    await Promise.all(this.databases.map(dropDatabase));
    await rm(this.root, { recursive: true, force: true, maxRetries: 5 });
  }
}

type Variables = Record<string, string>;

/** `base` is its base address, up to and with `/v1`. */
export type Service = Awaited<ReturnType<Project['serve']>>;

export type EmbeddedService = Awaited<ReturnType<Project['serveEmbedded']>>;
