import { execFile } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { appendFile, cp, readdir, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { gzipSync } from 'node:zlib';
import { install } from '@sinonjs/fake-timers';
import { minify } from '@swc/core';
import { lexer, type Tokens } from 'marked';
import { type Browser, chromium } from 'playwright-core';
import { PROJECT_ROOT } from '../../../src/config/project-root.js';
import { ERRORS } from '../../../src/errors/api-error.js';
import { DOCUMENT, resolved } from '../../../test/support/contract.js';
import { describeWith } from '../../../test/support/describe-with.js';
import { read } from '../../../test/support/documents.js';
import { Program } from '../../../test/support/program.js';
import { serviceOfTests } from '../../../test/support/service.js';
import { temporaryFolder } from '../../../test/support/temporary-folder.js';
import { error, OtherServer, OtherStore } from './server.js';

const PACKAGE = join(PROJECT_ROOT, 'clients/typescript');
const TSC = join(PROJECT_ROOT, 'node_modules/typescript/bin/tsc');

const README = lexer(readFileSync(join(PACKAGE, 'README.md'), 'utf8'));
const codeOf = (language: string) =>
  (README.find((token) => token.type === 'code' && token['lang'] === language) as Tokens.Code).text;

const PACKAGE_JSON = JSON.parse(readFileSync(join(PACKAGE, 'package.json'), 'utf8'));
const INSTALLED = 'node_modules/@example/animal-store-client';

const CHROMIUM = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'].find(
  (path) => existsSync(path),
);

const PRELUDE = [
  `import { AnimalStore, type StoreErrorCode } from '@example/animal-store-client';`,
  `const store = new AnimalStore('', '');`,
  `store.createPet({ name: 'Rex', categoryId: 1n }, { idempotencyKey: 'mine', signal: undefined });`,
  `for await (const { pets, cursor } of store.pages({ cursor: 'c' })) store.pages({ cursor });`,
  `store.getPet(1n, { signal: AbortSignal.timeout(1), requestId: 'mine' });`,
  `const codes: StoreErrorCode[] = ${JSON.stringify([...Object.keys(ERRORS), 'no_response', 'unknown'])};`,
];

/** Each uses the types in one way that they do not allow. */
const MISTAKES = [
  `store.createPet({ categoryId: 1n });`,
  `store.createPet({ name: 'Rex', categoryId: 1 });`,
  `store.createPet({ name: 'Rex', categoryId: 1n, status: 'gone' });`,
  `store.createPet({ name: 'Rex', categoryId: 1n, colour: 'red' });`,
  `store.listPets({ status: 'gone' });`,
  `store.listPets({ offset: 20 });`,
  `const id: number = (await store.createPet({ name: 'Rex', categoryId: 1n })).id;`,
  `for await (const pet of store.pages()) pet.name;`,
  `store.createPet({ name: 'Rex', categoryId: 1n }, 'mine');`,
  `const code: StoreErrorCode = 'gone';`,
  `store.getPet(1);`,
  `store.deletePet(1n);`,
];

async function all<Item>(items: AsyncIterable<Item>): Promise<Item[]> {
  const read: Item[] = [];
  for await (const item of items) {
    read.push(item);
  }
  return read;
}

describe('the package of the TypeScript client', () => {
  const service = serviceOfTests();
  let folder: string;
  let packages: { filename: string; files: string[] }[];
  /** Of the README's sample and of the mistakes. */
  let errors: string[];
  /** What the installed package exports. */
  let client: any;

  const run = async (file: string, args: string[], cwd: string, env = {}) =>
    (await promisify(execFile)(file, args, { cwd, env: { ...process.env, ...env } })).stdout;
  const open = (options = {}) =>
    new client.AnimalStore(`${service.origin}/v1`, service.key, options);

  beforeAll(async () => {
    folder = await temporaryFolder();
    const pack = async (cwd: string, ...args: string[]) => {
      const command = ['pack', '--json', '--pack-destination', folder, ...args];
      const output = await run('npm', command, cwd);
      const [{ filename, files }] = JSON.parse(output.slice(output.search(/^\[/m)));
      return { filename, files: files.map(({ path }: { path: string }) => path) };
    };
    const dependencies = ['openapi-fetch', 'openapi-typescript-helpers'].map((name) =>
      pack(join(PROJECT_ROOT, 'node_modules', name), '--ignore-scripts'),
    );
    packages = await Promise.all([pack(PACKAGE), ...dependencies]);
    await writeFile(join(folder, 'package.json'), '{ "private": true, "type": "module" }');
    const typeRoots = [join(PROJECT_ROOT, 'node_modules/@types')];
    const strict = { strict: true, target: 'es2022', module: 'nodenext', skipLibCheck: true };
    const tsconfig = { compilerOptions: { ...strict, types: ['node'], typeRoots } };
    await writeFile(join(folder, 'tsconfig.json'), JSON.stringify(tsconfig));
    const archives = packages.map(({ filename }) => `./${filename}`);
    await run('npm', ['install', '--offline', '--ignore-scripts', ...archives], folder);
    await writeFile(join(folder, 'sample.ts'), codeOf('typescript'));
    await cp(join(PACKAGE, 'examples'), folder, { recursive: true });
    await writeFile(join(folder, 'mistakes.ts'), [...PRELUDE, ...MISTAKES].join('\n'));
    const compilation = run(process.execPath, [TSC, '--pretty', 'false', '-p', '.'], folder);
    errors = (await compilation.catch(({ stdout }) => stdout as string)).match(/^\S.*$/gm) ?? [];
    client = await import(join(folder, 'node_modules/@example/animal-store-client/dist/index.js'));
  });
  beforeEach(() => service.query('truncate pets restart identity cascade'));

  it('has its build, types, examples and README, brings openapi-fetch only, and leaves no file that git would add', async () => {
    const { files, filename } = packages[0]!;
    expect(files).toEqual(
      expect.arrayContaining(['README.md', 'dist/index.js', 'dist/index.d.ts']),
    );
    const others = /^(?!(README\.md|package\.json|dist\/.+\.(js|d\.ts))$)/;
    const examples = await readdir(join(PACKAGE, 'examples'));
    expect(files.filter((path) => others.test(path)).toSorted()).toEqual(
      examples.map((name) => `examples/${name}`).toSorted(),
    );
    const installed = await readdir(join(folder, 'node_modules'));
    const expected = ['@example', 'openapi-fetch', 'openapi-typescript-helpers'];
    expect(installed.filter((name) => !name.startsWith('.')).toSorted()).toEqual(expected);
    const made = [filename, 'dist/index.js', 'src/schema.ts'];
    expect(await run('git', ['check-ignore', ...made], PACKAGE)).toBe(`${made.join('\n')}\n`);
  });

  it('compiles and does what its README shows', async () => {
    expect(errors.filter((error) => !error.startsWith('mistakes.ts'))).toEqual([]);
    const env = { BASE: `${service.origin}/v1`, KEY: service.key };
    const output = await run(process.execPath, ['sample.js'], folder, env);
    expect(output.trim()).toBe(codeOf('text'));
  });

  it('does not compile if it is used with what the document does not have', () => {
    const lines = errors.map((error) => Number(/^mistakes\.ts\((\d+),/.exec(error)?.[1]));
    expect([...new Set(lines)]).toEqual(MISTAKES.map((_mistake, i) => PRELUDE.length + 1 + i));
  });

  it('does not compile if the document has a parameter of lists that it would not send', async () => {
    const copy = join(folder, 'clients/typescript');
    await cp(PACKAGE, copy, { recursive: true, filter: (file) => !file.endsWith('/dist') });
    await symlink(join(PROJECT_ROOT, 'node_modules'), join(folder, 'clients/node_modules'));
    const compile = async (document: string) => {
      await writeFile(join(copy, 'openapi.yaml'), document);
      await run('node', ['generate-types.mjs', 'openapi.yaml', 'src/schema.ts'], copy);
      const compilation = run(process.execPath, [TSC, '--noEmit', '--pretty', 'false'], copy);
      return compilation.catch(({ stdout }) => stdout as string);
    };
    const document = read('docs/openapi.yaml');
    expect(await compile(document)).toBe('');
    const cursor = "        - $ref: '#/components/parameters/cursor'\n";
    const owner = '        - { name: owner, in: query, schema: { type: string } }\n';
    expect(await compile(document.replace(cursor, cursor + owner))).toMatch(
      /^src\/animal-store\.ts.+ 'owner' is missing/s,
    );
  });

  it.each([0n, -1n, 9007199254740993n, 2n ** 63n - 1n, -(2n ** 63n)])(
    'keeps every digit of an int64, in both directions: %s',
    async (int64) => {
      const name = '"id":1,"categoryId":"2"';
      const created = await open().createPet({ name, categoryId: int64 });
      expect(created).toEqual({ id: 1n, name, categoryId: int64, status: 'available' });
      await service.query('truncate idempotency_keys');
      await service.query('update pets set id = $1', [String(int64)]);
      const listed = [{ id: int64, name, categoryId: int64, status: 'available' }];
      expect(await all(open().listPets())).toEqual(listed);
      expect(await open({ onDeprecation: () => {} }).getPet(int64)).toEqual(listed[0]);
    },
  );

  it.each([
    ['node10', 'commonjs', 'package.json of a CommonJS package'],
    ['bundler', 'esnext', 'a bundler'],
  ])('has types where moduleResolution is %s', async (moduleResolution, module) => {
    const options = { strict: true, target: 'es2022', module, moduleResolution, noEmit: true };
    const libraries = { lib: ['es2022', 'dom'], types: [], ignoreDeprecations: '6.0' };
    await writeFile(join(folder, `${module}.ts`), PRELUDE.slice(0, 3).join('\n') + '\nexport {};');
    const tsconfig = { compilerOptions: { ...options, ...libraries }, files: [`${module}.ts`] };
    await writeFile(join(folder, `${module}.json`), JSON.stringify(tsconfig));
    await run(process.execPath, [TSC, '-p', `${module}.json`], folder);
  });

  it('is not published in the public registry by accident', async () => {
    const server = await OtherServer.start();
    try {
      const { origin } = new URL(server.base);
      const env = { npm_config_registry: origin, npm_config_fetch_retries: '0' };
      const args = ['publish', '--ignore-scripts', packages[0]!.filename];
      await expect(run('npm', args, folder, env)).rejects.toThrow('registry.invalid');
      expect(server.received).toEqual([]);
      expect(PACKAGE_JSON.name).toMatch(/^@example\//);
    } finally {
      await server.stop();
    }
  });

  it('names its version in User-Agent, has no links that end with it, and is small', async () => {
    const { version } = PACKAGE_JSON;
    const fetch = jest.fn(async () => new Response('[]'));
    await all(open({ fetch }).listPets());
    const [request] = fetch.mock.calls[0] as unknown as [Request];
    expect(request.headers.get('User-Agent')).toBe(`animal-store-client/${version}`);
    const links = readFileSync(join(PACKAGE, 'README.md'), 'utf8').match(/\]\([^)]*/g) ?? [];
    expect(links.filter((link) => !/^\]\((https:|#)/.test(link))).toEqual([]);
    const modules = packages[0]!.files.filter((file) => file.endsWith('.js'));
    const texts = modules.map((file) => readFileSync(join(folder, INSTALLED, file), 'utf8'));
    texts.push(read('node_modules/openapi-fetch/dist/index.mjs'));
    const minified = await Promise.all(
      texts.map((text) => minify(text, { module: true, mangle: true })),
    );
    const code = minified.map((output) => output.code).join('');
    // Without what a bundler removes: exports, imports, and functions of openapi-fetch that are not used.
    expect(gzipSync(code, { level: 9 }).length).toBeLessThan(7_000);
  });

  it('knows every int64 of the OpenAPI document', async () => {
    const dist = join(folder, 'node_modules/@example/animal-store-client/dist');
    const { INT64_FIELDS } = await import(join(dist, 'int64.js'));
    const fields = Object.values<any>(DOCUMENT.components.schemas).flatMap(({ properties = {} }) =>
      Object.keys(properties).filter((name) => resolved<any>(properties[name]).format === 'int64'),
    );
    expect(new Set(fields)).toEqual(new Set(INT64_FIELDS));
  });

  it('lists page by page, only as far as it is read, and sends no other parameters', async () => {
    for (const status of ['available', 'sold', 'available', 'available', 'available']) {
      await service.api.post('/v1/pets').send({ name: 'a', categoryId: 1, status }).expect(201);
    }
    const requests: string[] = [];
    const fetch = (request: Request, init: RequestInit) => {
      requests.push(new URL(request.url).search);
      return globalThis.fetch(request, init);
    };
    const store = open({ fetch });
    const query = { limit: 2, status: 'available', limt: 1, statuss: 'sold' };
    const pages = await all<{ pets: { id: bigint }[] }>(store.pages(query));
    expect(pages.map(({ pets }) => pets.map(({ id }) => id).join())).toEqual(['1,3', '4,5']);
    expect(requests).toEqual([
      '?limit=2&status=available',
      expect.stringMatching(/^\?limit=2&status=available&cursor=[\w-]+$/),
    ]);
    for await (const { id } of store.listPets({ limit: 2 })) {
      if (id === 2n) {
        break;
      }
    }
    expect(requests.slice(2)).toEqual(['?limit=2']);
    expect(await all(store.listPets())).toHaveLength(5);
    expect(requests.slice(3)).toEqual(['?limit=100']);
  });

  it('throws the error of a response, after one attempt', async () => {
    const fetch = jest.fn(globalThis.fetch);
    const creating = open({ fetch }).createPet({ name: ' ', categoryId: 1n });
    const error = await creating.catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(client.StoreError);
    const text = expect.stringMatching(/^[\w-]+$/);
    const message = expect.stringMatching(/\w/);
    expect(error).toMatchObject({ status: 400, code: 'invalid_request', message, requestId: text });
    expect(fetch).toHaveBeenCalledTimes(1);
  });

  it.each([
    [
      'of another server has the code unknown',
      async () => new Response('<html>', { status: 500, statusText: 'Broken' }),
      { status: 500, code: 'unknown', message: expect.stringMatching(/500 Broken$/) },
    ],
    [
      'that does not come is waited for during 30 seconds',
      () => Promise.reject(new TypeError('refused')),
      { status: 0, code: 'no_response', message: expect.stringContaining('refused') },
    ],
  ])('without options, a response %s', async (_what, fetch, expected) => {
    const clock = install({ toFake: ['setTimeout', 'performance'] });
    const own = jest.spyOn(globalThis, 'fetch').mockImplementation(fetch);
    try {
      const since = performance.now();
      const settled = all(open().listPets()).catch((error: unknown) => [error, performance.now()]);
      await clock.tickAsync(60_000);
      const [error, at] = (await settled) as [unknown, number];
      expect(error).toBeInstanceOf(client.StoreError);
      expect(error).toMatchObject(expected);
      expect(at - since).toBeCloseTo(expected.status === 0 ? 30_000 : 0, -1);
    } finally {
      own.mockRestore();
      clock.uninstall();
    }
  });

  it('creates a pet for each call, but one for all calls with a key of the caller', async () => {
    const create = (idempotencyKey?: string) =>
      open().createPet({ name: 'Rex', categoryId: 1n }, { idempotencyKey });
    const ids: bigint[] = [];
    for (const key of [undefined, undefined, 'mine', 'mine', 'other']) {
      ids.push((await create(key)).id);
    }
    expect(ids).toEqual([1n, 2n, 3n, 3n, 4n]);
  });

  it('says once for each operation that it is deprecated, until when, and where to read on', async () => {
    await service.api.post('/v1/pets').send({ name: 'Rex', categoryId: 1 }).expect(201);
    const onDeprecation = jest.fn();
    const store = open({ onDeprecation });
    await all(store.listPets());
    await store.getPet(1n);
    await expect(store.getPet(2n)).rejects.toMatchObject({ code: 'pet_not_found' });
    const [operation, guide] = ['GET /pets/{petId}', `${service.origin}/docs/guides/deprecation`];
    const [since, sunset] = ['2026-11-19', '2030-12-05'].map((date) => new Date(date));
    expect(onDeprecation.mock.calls).toEqual([[{ operation, since, sunset, guide }]]);
    const warn = jest.spyOn(console, 'warn').mockImplementation(() => {});
    await open().getPet(1n);
    expect(warn.mock.calls.flat()).toEqual([
      `${operation} is deprecated since 2026-11-19, to be removed on 2030-12-05 or later: ${guide}`,
    ]);
    warn.mockRestore();
  });

  it('adds one animal, although the response to the first attempt is lost', async () => {
    const fetch = jest.fn(async (request: Request, init: RequestInit) => {
      const response = await globalThis.fetch(request, init);
      if (fetch.mock.calls.length === 1) {
        throw new TypeError('terminated');
      }
      return response;
    });
    expect((await open({ fetch }).createPet({ name: 'Rex', categoryId: 1n })).id).toBe(1n);
    expect(fetch).toHaveBeenCalledTimes(2);
    expect(await service.query('select id from pets')).toHaveLength(1);
  });

  describe('the examples', () => {
    const ROWS = process.env['TEST_LENGTH'] === 'full' ? 20_000 : 2_000;
    let server: OtherServer;
    let cwd: string;
    beforeEach(async () => {
      server = await OtherServer.start();
      cwd = await temporaryFolder();
    });
    afterEach(() => server.stop());

    const start = (program: string) => {
      const env = {
        PATH: process.env['PATH'],
        BASE: server.base,
        KEY: 'key',
        IMPORT: `of today ${'x'.repeat(255)}`,
      };
      return Program.start(process.execPath, [join(folder, `${program}.mjs`)], { cwd, env });
    };
    /** Starts a program, and kills it when the server has received `count` requests. */
    async function killAfter(count: number, program: string): Promise<void> {
      const { respond } = server;
      const isThere = new Promise<void>((resolve) => {
        server.respond = (response, request) => {
          if (server.received.length === count) {
            resolve();
          }
          return respond(response, request);
        };
      });
      const killed = start(program);
      await isThere;
      process.kill(killed.processId, 'SIGKILL');
      expect((await killed.outcome).code).toBe(null);
      server.respond = respond;
    }
    const linesOf = (file: string) => readFileSync(join(cwd, file), 'utf8').trimEnd().split('\n');

    it('import each row once, with 16 workers, although they are killed, are limited, and lose responses, and a row is removed', async () => {
      const store = new OtherStore(ROWS / 5);
      server.respond = store.respond;
      const rows = Array.from({ length: ROWS }, (_, n) => `{"name":"${n}","categoryId":${n}}`);
      rows[7] = '{"name":"","categoryId":1}';
      rows[9] = `{"name":"${'x'.repeat(20_000)}","categoryId":1}`;
      rows[20] = rows[21]!;
      const write = () => writeFile(join(cwd, 'rows.ndjson'), `${rows.join('\r\n')}\r\n`);
      await write();
      await killAfter(ROWS / 10, 'importer');
      // As if it had been killed while it wrote.
      await appendFile(join(cwd, 'done.txt'), String(ROWS - 1));
      rows.splice(9, 1);
      await write();
      await killAfter(ROWS / 2, 'importer');
      const waits = /^(.+ Again in \d+ ms\.\n)*$/;
      expect(await start('importer').outcome).toMatchObject({
        code: 0,
        stderr: expect.stringMatching(waits),
      });
      const names = store.pets.map(({ name }) => name).toSorted();
      const expected = rows.map((row) => JSON.parse(row).name as string).filter(Boolean);
      expect(names).toEqual(expected.toSorted());
      const done = linesOf('done.txt').map((line) => line.split(' '));
      expect(new Set(done.map(([id]) => id)).size).toBe(ROWS);
      expect(done).toHaveLength(ROWS);
      const rejected = done.filter(([, id]) => id === 'rejected,').map(([, , , line]) => line);
      expect(rejected.toSorted()).toEqual(['10:', '8:']);
      const ids = done.map(([, id]) => id).filter((id) => id !== 'rejected,');
      expect(ids.toSorted()).toEqual(store.pets.map(({ id }) => `${id}`).toSorted());
      expect(store.refused.length).toBeGreaterThan(2);
      // The service accepts no other ones.
      const keys = server.received.map(({ headers }) => headers['idempotency-key']);
      keys.forEach((key) => expect(key).toMatch(/^[!-~]{1,255}$/));
    });

    it('copy every pet once, although they are killed between and in pages', async () => {
      const store = new OtherStore();
      store.pets.push(...Array.from({ length: 1_050 }, (_, n) => ({ id: n + 1, name: '"id":1', categoryId: 1, status: 'sold' }))); // prettier-ignore
      server.respond = store.respond;
      await killAfter(4, 'nightly-copy');
      await appendFile(join(cwd, 'pets.part'), '{"pets":[{"id":');
      await killAfter(8, 'nightly-copy');
      server.respond = (response, request) =>
        server.received.length === 10 ? error(response, 503, 'unavailable') : store.respond(response, request); // prettier-ignore
      const { code, stderr } = await start('nightly-copy').outcome;
      expect({ code, stderr }).toEqual({ code: 0, stderr: expect.stringMatching(/^The message of unavailable\. Again in \d+ ms\.\n$/) }); // prettier-ignore
      const pets = linesOf('pets.ndjson').flatMap((line) => JSON.parse(line).pets);
      expect(pets).toEqual(store.pets);
      // What was written before is not asked for again.
      expect(server.received.length).toBeLessThanOrEqual(11 + 3);
    });

    describeWith('Chromium', CHROMIUM)('in Chromium, on a page without TLS', () => {
      let browser: Browser;
      beforeAll(async () => {
        browser = await chromium.launch({
          executablePath: CHROMIUM!,
          // Root may not use the sandbox.
          chromiumSandbox: process.getuid?.() !== 0,
          // A page of 127.0.0.1 would have crypto.randomUUID.
          args: ['--host-resolver-rules=MAP shop.test 127.0.0.1'],
        });
      });
      afterAll(() => browser?.close());

      /** Serves the page and the packages, and the rest as the store does. */
      const openPage = async (store: OtherStore) => {
        const modules: Record<string, string> = {
          '/client/': join(folder, INSTALLED, 'dist/'),
          '/openapi-fetch/': join(folder, 'node_modules/openapi-fetch/dist/'),
        };
        server.respond = (response, request) => {
          const { path } = request;
          const [, directory = '', file = ''] = /^(\/[\w-]+\/)([\w.-]+js)$/.exec(path) ?? [];
          if (directory in modules) {
            response.writeHead(200, { 'Content-Type': 'text/javascript' });
            return response.end(readFileSync(modules[directory] + file));
          }
          if (path.startsWith('/v1/')) {
            return store.respond(response, request);
          }
          response.writeHead(200, { 'Content-Type': 'text/html' });
          return response.end(readFileSync(join(folder, 'shop.html')));
        };
        const page = await browser.newPage();
        await page.goto(`http://shop.test:${server.port}/`);
        return page;
      };

      it('list pets, and go on after an error', async () => {
        const store = new OtherStore();
        // Names are text, whatever they contain.
        store.pets.push(...Array.from({ length: 50 }, (_, n) => ({ id: n + 1, name: '<i>Rex</i>', categoryId: 1, status: 'sold' }))); // prettier-ignore
        const page = await openPage(store);
        const { respond } = server;
        await page.getByLabel('API key').fill('key');
        await page.getByRole('button', { name: 'List' }).click();
        await page.getByText('20 <i>Rex</i>').waitFor();
        const more = page.getByRole('button', { name: 'More' });
        server.respond = (response) => error(response, 500, 'internal_error');
        await more.click();
        await page.getByText('The message of internal_error.').waitFor();
        server.respond = respond;
        await more.click();
        await page.getByText('40 <i>Rex</i>').waitFor();
        await more.click();
        await page.getByText('50 <i>Rex</i>').waitFor();
        expect(await page.locator('li').count()).toBe(50);
        expect(await more.isDisabled()).toBe(true);
        await page.close();
      });

      it('create a pet, and do not follow a redirect', async () => {
        const page = await openPage(new OtherStore());
        const { respond } = server;
        const create = () =>
          page.evaluate(`import('/client/index.js').then(({ AnimalStore }) =>
            new AnimalStore(location.origin + '/v1', 'key')
              .createPet({ name: 'Rex', categoryId: 1n })
              .then(({ id }) => isSecureContext + ' ' + id, ({ code, status }) => code + ' ' + status))`);
        expect(await create()).toBe('false 1');
        server.respond = (response) => response.writeHead(301, { Location: '/v1/pets' }).end();
        expect(await create()).toBe('unknown 0');
        server.respond = respond;
        await page.close();
      });
    });
  });
});
