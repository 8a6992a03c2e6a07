import { addPet, petNames } from '../support/pets.js';
import { type EmbeddedService, Project } from '../support/project.js';

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

  it('after the service was killed, whose database the next start adopts', async () => {
    const postmaster = await project.postmaster();
    await service.program.end('SIGKILL');
    await expectNextToHaveAll();
    expect(await project.postmaster()).toBe(postmaster);
  });

  it('after PostgreSQL was killed, which ends the service with the reason', async () => {
    process.kill((await project.postmaster())!, 'SIGKILL');
    const { code, stderr } = await service.program.outcome;
    expect([code, stderr]).toEqual([1, expect.stringMatching(/^.* has ended\. Start again.*\n$/)]);
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
