import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { readdir, readFile, stat } from 'node:fs/promises';
import { type AddressInfo, createServer } from 'node:net';
import { join } from 'node:path';
import { query } from '../support/ask.js';
import { addPet, petNames } from '../support/pets.js';
import { type EmbeddedService, Project } from '../support/project.js';

describe('two first starts at once, without any configuration', () => {
  const project = Project.ofTests();
  let services: [EmbeddedService, EmbeddedService];
  beforeAll(async () => {
    services = await Promise.all([project.serveEmbedded(), project.serveEmbedded()]);
  });

  it('print the base address, the key and a command that works when pasted', async () => {
    expect(services[0].base).not.toBe(services[1].base);
    for (const { base, program } of services) {
      expect(base).toMatch(/^http:\/\/127\.0\.0\.1:[1-9][0-9]*\/v1$/);
      const [, curl] = await program.says(/^Try it: +(curl .+)$/m);
      const printed = execFileSync('sh', ['-c', curl!], { encoding: 'utf8', stdio: 'pipe' });
      expect(JSON.parse(printed)).toEqual([]);
    }
  });

  it('leave no temporary files', async () => {
    const data = join(project.folder, '.data');
    const kept = ['api-key', 'postgres', 'postgres-password', 'postgres.log'];
    expect((await readdir(data)).toSorted()).toEqual(kept);
    const own = (await readdir(join(data, 'postgres'))).filter((name) => /animal/.test(name));
    expect(own).toEqual([]);
  });

  it('keep all that they wrote from other accounts', async () => {
    const folder = join(project.folder, '.data');
    const entries = await readdir(folder, { recursive: true, withFileTypes: true });
    const files = entries.filter((entry) => entry.isFile());
    const names = files.map(({ name }) => name);
    expect(names).toEqual(expect.arrayContaining(['api-key', 'PG_VERSION']));
    for (const { parentPath, name } of files) {
      const { mode } = await stat(join(parentPath, name));
      expect([name, (mode & 0o077).toString(8)]).toEqual([name, '0']);
    }
  });

  it('start it in a session of its own, which Ctrl-C in their terminal does not reach', async () => {
    const sessionOf = (pid: number | undefined) =>
      execFileSync('ps', ['-o', 'sid=', '-p', `${pid}`], { encoding: 'utf8' }).trim();
    const sessions = services.map(({ program }) => sessionOf(program.processId));
    expect(sessions).not.toContain(sessionOf(await project.postmaster()));
  });

  it('share one database, also when the one that started it has ended, and the last process stops it', async () => {
    const ps = ['-o', 'ppid=', '-p', `${await project.postmaster()}`];
    const starter = Number(execFileSync('ps', ps, { encoding: 'utf8' }));
    const isStarter = ({ program }: EmbeddedService) => program.processId === starter;
    const [one, other] = isStarter(services[0]) ? services : services.toReversed();
    expect(isStarter(one!)).toBe(true);
    await addPet(one!.base, one!.key, 'Rex');
    for (const { program } of [one!, other!]) {
      expect(await petNames(other!.base, other!.key)).toEqual(['Rex']);
      expect((await program.end('SIGTERM')).code).toBe(0);
    }
    expect(await project.postmaster()).toBeUndefined();
  });

  it('are followed by one that stops the database if it finds PORT in use, naming it', async () => {
    const server = createServer().listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    const { code, stdout, stderr } = await project.run('serve', [], { PORT: String(port) });
    server.close();
    const message = new RegExp(`^(?!.*\\n +at ).*${port}.* PORT .* PORT=0 npm start\n$`, 's');
    expect([code, stderr]).toEqual([1, expect.stringMatching(message)]);
    expect(stdout).not.toContain('null');
    expect(await project.postmaster()).toBeUndefined();
  });

  it('are followed by others that have the pets and the key, although the service or PostgreSQL was killed, or a new key if that one was revoked', async () => {
    const killed = await project.serveEmbedded();
    const { key } = killed;
    await addPet(killed.base, key, 'Max');
    const postmaster = (await project.postmaster())!;
    await killed.program.end('SIGKILL');
    const adopting = await project.serveEmbedded();
    expect([adopting.key, await project.postmaster()]).toEqual([key, postmaster]);
    expect(await petNames(adopting.base, key)).toEqual(['Rex', 'Max']);

    await addPet(adopting.base, key, 'Bello');
    const file = (name: string) => readFile(join(project.folder, '.data', name), 'utf8');
    const port = (await file('postgres/postmaster.pid')).split('\n')[3];
    const url = `postgres://postgres:${await file('postgres-password')}@127.0.0.1:${port}/postgres`;
    await query(url, 'update api_keys set revoked_at = now()');
    process.kill(postmaster, 'SIGKILL');
    const { code, stderr } = await adopting.program.outcome;
    expect([code, stderr]).toEqual([1, expect.stringMatching(/^.* has ended\. Start again.*\n$/)]);
    const next = await project.serveEmbedded();
    expect(next.key).not.toBe(key);
    expect(await petNames(next.base, next.key)).toEqual(['Rex', 'Max', 'Bello']);
    await next.program.end('SIGTERM');
    // It starts four programs and PostgreSQL three times.
  }, 120_000);
});
