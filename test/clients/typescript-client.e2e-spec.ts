import { execFile } from 'node:child_process';
import { cp, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { promisify } from 'node:util';
import { PROJECT_ROOT } from '../../src/config/project-root.js';
import { startService, type TestService } from '../service.js';

const TSC = join(PROJECT_ROOT, 'node_modules/typescript/bin/tsc');

/** Each uses the types in one way that they do not allow. */
const MISTAKES = [
  `store.add({ categoryId: 1n });`,
  `store.add({ name: 'Rex' });`,
  `store.add({ name: 'Rex', categoryId: 1 });`,
  `store.add({ name: 'Rex', categoryId: '1' });`,
  `store.add({ name: 1, categoryId: 1n });`,
  `store.add({ name: 'Rex', categoryId: 1n, status: 'gone' });`,
  `store.add({ name: 'Rex', categoryId: 1n, colour: 'red' });`,
  `store.all('gone');`,
  `(await store.add({ name: 'Rex', categoryId: 1n })).colour;`,
  `client.GET('/cats');`,
  `client.DELETE('/pets');`,
  `client.GET('/pets', { params: { query: { limit: '20' } } });`,
  `client.GET('/pets', { params: { query: { offset: 20 } } });`,
  `client.GET('/pets/{petId}');`,
  `client.POST('/pets');`,
  `(await client.GET('/pets/{petId}', { params: { path: { petId: 1n } } })).error?.code === 'gone';`,
];

describe('the example of a TypeScript client', () => {
  let service: TestService;
  let folder: string;
  beforeAll(async () => {
    service = await startService();
    folder = await mkdtemp(join(tmpdir(), 'animal-store-client-'));
    await cp(join(PROJECT_ROOT, 'examples/typescript-client'), folder, {
      recursive: true,
      filter: (source) => basename(source) !== 'node_modules',
    });
    await symlink(join(PROJECT_ROOT, 'node_modules'), join(folder, 'node_modules'));
    await cp(join(PROJECT_ROOT, 'docs/openapi.json'), join(folder, 'openapi.json'));
    await promisify(execFile)('npm', ['run', 'build'], { cwd: folder });
  });
  afterAll(() => Promise.all([service.stop(), rm(folder, { recursive: true, force: true })]));

  /** Runs a program of Node's in the folder. @returns what it wrote. */
  const run = async (...args: string[]) => {
    const options = { cwd: folder, encoding: 'utf8' } as const;
    return (await promisify(execFile)(process.execPath, args, options)).stdout;
  };

  it('compiles with types made of docs/openapi.json, and does what it says', async () => {
    for (let i = 0; i < 150; i += 1) {
      const status = i < 120 ? 'sold' : 'available';
      await service.api.post('/v1/pets').send({ name: 'a', categoryId: 1, status }).expect(201);
    }
    const lines = (await run('demo.js', `${service.origin}/v1`, service.key)).trim().split('\n');
    expect(lines).toEqual([
      'added Rex, category 9007199254740993',
      '121 sold',
      expect.stringMatching(/^400 invalid_request: .*name/),
    ]);
    const failure = run('demo.js', `${service.origin}/v1`, 'no-key');
    await expect(failure).rejects.toThrow("code: 'invalid_api_key'");
  });

  it('does not compile where it uses what the document does not have', async () => {
    const prelude = [
      `import createClient from 'openapi-fetch';`,
      `import type { paths } from './animal-store.js';`,
      `import { AnimalStore } from './client.js';`,
      `const store = new AnimalStore('', '');`,
      `const client = createClient<paths>();`,
      `store.add({ name: 'Rex', categoryId: 1n });`,
    ];
    await writeFile(join(folder, 'mistakes.ts'), [...prelude, ...MISTAKES].join('\n'));
    const failure = await run(TSC, '-p', '.', '--noEmit').catch(({ stdout }) => stdout as string);
    const faulty = [...failure.matchAll(/^mistakes\.ts\((\d+),/gm)].map(([, line]) => Number(line));
    expect([...new Set(faulty)]).toEqual(MISTAKES.map((_mistake, i) => prelude.length + 1 + i));
  });
});
