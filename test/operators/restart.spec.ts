import { addPet, petNames, statusWith } from '../support/pets.js';
import { type EmbeddedService, Project } from '../support/project.js';
import { until } from '../support/until.js';

describe('the pets and the key are still there', () => {
  const names: string[] = [];
  const project = Project.ofTests();
  let key: string;
  let service: EmbeddedService;
  beforeAll(async () => {
    service = await project.serveEmbedded();
    key = service.key;
  });
  beforeEach(async () => {
    const name = `after ${names.length} others`;
    await addPet(service.base, key, name);
    names.push(name);
  });

  async function expectNextToHaveAll(): Promise<void> {
    service = await project.serveEmbedded();
    expect(service.key).toBe(key);
    expect(await petNames(service.base, key)).toEqual(names);
  }

  it('after Ctrl-C, which stops both in order', async () => {
    service.program.signalGroup('SIGINT');
    expect(await service.program.outcome).toMatchObject({ code: 0, stderr: '' });
    expect(await project.postmaster()).toBeUndefined();
    await expectNextToHaveAll();
  });

  it('after the service was killed, whose database the next start adopts', async () => {
    const postmaster = await project.postmaster();
    await service.program.end('SIGKILL');
    await expectNextToHaveAll();
    expect(await project.postmaster()).toBe(postmaster);
  });

  it('after the database was killed, which the service survives', async () => {
    process.kill((await project.postmaster())!, 'SIGKILL');
    await until('PostgreSQL has ended', async () => (await project.postmaster()) === undefined);
    expect(await statusWith(service.base, key)).toBe(503);
    expect((await service.program.end('SIGTERM')).code).toBe(0);
    await expectNextToHaveAll();
  });

  it('except for a key that was revoked beside the service: the next start prints another one', async () => {
    expect((await project.run('keys', ['revoke', '1'])).code).toBe(0);
    await service.program.end('SIGTERM');
    const next = await project.serveEmbedded();
    expect(next.key).not.toBe(key);
    expect(await petNames(next.base, next.key)).toEqual(names);
  });
});
