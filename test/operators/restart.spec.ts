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
    const name = expect.getState().currentTestName!;
    await addPet(service.base, key, name);
    names.push(name);
  });

  async function expectNextToHaveAll(): Promise<void> {
    service = await project.serveEmbedded();
    expect(service.key).toBe(key);
    expect(await petNames(service.base, key)).toEqual(names);
  }

  it.each([
    ['Ctrl-C', 'SIGINT'],
    ['SIGTERM', 'SIGTERM'],
  ] as const)('after %s, which stops both in order', async (_how, signal) => {
    const { program } = service;
    if (signal === 'SIGINT') {
      program.signalGroup(signal);
    } else {
      program.send(signal);
    }
    expect(await program.outcome).toMatchObject({ code: 0, stderr: '' });
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

  it('after both were killed', async () => {
    process.kill((await project.postmaster())!, 'SIGKILL');
    await service.program.end('SIGKILL');
    await expectNextToHaveAll();
  });
});
