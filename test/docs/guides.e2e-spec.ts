import { once } from 'node:events';
import { symlink, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { basename, join } from 'node:path';
import { type Options, transform } from '@swc/core';
import { PROJECT_ROOT } from '../../src/config/project-root.js';
import { OpenApiDocument } from '../../src/openapi/openapi-document.js';
import { expectError } from '../support/answers.js';
import { inFolder, read } from '../support/documents.js';
import { itWith } from '../support/describe-with.js';
import { Program } from '../support/program.js';
import { serviceOfTests, startService } from '../support/service.js';
import { temporaryFolder } from '../support/temporary-folder.js';

/** What runs a file of each language. TypeScript's is compiled here: a loader of its own for each would take a second. */
const COMMANDS: Record<string, string> = {
  bash: 'bash',
  typescript: process.execPath,
  python: 'python3',
};
const TYPESCRIPT: Options = { jsc: { parser: { syntax: 'typescript' }, target: 'es2022' } };
const GUIDES = inFolder('docs/guides').map((file) => basename(file, '.md'));
const readGuide = (name: string) => read(`docs/guides/${name}.md`);

/** Its name, the second word, is that of a sample in several files that belong together. */
const CODE = /^```(?<language>\w+)(?: (?<file>\S+))?\n(?<code>[^]*?)\n```$/;
/** What it prints, below it. In text, `…` stands for anything; in JSON, white space means nothing. */
const OUTPUT = /\n\n```(?<format>text|json)\n(?<output>[^]*?)\n```$/;
const SAMPLE = new RegExp(`${CODE.source}(?:${OUTPUT.source})?`, 'gm');

/** The samples that run here: `clients/generated` runs those of several files. */
const SAMPLES = GUIDES.flatMap((guide) =>
  Array.from(readGuide(guide).matchAll(SAMPLE), ({ groups }: any) => ({ guide, ...groups })),
).filter(({ file }) => file === undefined);

let folder: string;
beforeAll(async () => {
  folder = await temporaryFolder();
  await symlink(join(PROJECT_ROOT, 'node_modules'), join(folder, 'node_modules'));
});

async function run(language: string, code: string, env = {}) {
  const file = join(folder, 'sample.mjs');
  const isTypeScript = language === 'typescript';
  await writeFile(file, isTypeScript ? (await transform(code, TYPESCRIPT)).code : code);
  const options = { cwd: folder, env: { PATH: process.env['PATH'], ...env } };
  return Program.start(COMMANDS[language]!, [file], options).outcome;
}

const escaped = (literal: string) => literal.replaceAll(/[\\^$.*+?()[\]{}|]/g, '\\$&');

describe('the samples of the guides', () => {
  const service = serviceOfTests({ RATE_LIMIT_PER_MINUTE: '600' });

  itWith('python3').each(GUIDES)(
    'run one after the other, and print what is shown: %s',
    async (guide) => {
      await service.query('truncate pets restart identity cascade');
      const { key } = await service.keys.issue(guide);
      const env = { BASE: `${service.origin}/v1`, KEY: key };
      for (const sample of SAMPLES.filter((it) => it.guide === guide)) {
        const { language, code, format, output } = sample;
        const { code: exit, stdout, stderr } = await run(language, code, env);
        expect({ code, exit, stderr }).toEqual({ code, exit: 0, stderr: '' });
        if (output !== undefined) {
          const shown = (text: string) =>
            format === 'json' ? text.replaceAll(/\s+/g, '') : text.trim().replaceAll('\r', '');
          const pattern = shown(output).split('…').map(escaped).join('.*?');
          expect(shown(stdout)).toMatch(new RegExp(`^${pattern}$`, 's'));
        }
      }
    },
  );

  it('in TypeScript compile where it is strict', async () => {
    const samples = SAMPLES.filter(({ language }) => language === 'typescript');
    const files = samples.map(({ guide }, n) => join(folder, `${guide}-${n}.mts`));
    await Promise.all(files.map((file, n) => writeFile(file, samples[n]!.code)));
    const options =
      '--strict --noEmit --target es2022 --module nodenext --skipLibCheck --types node';
    const args = ['node_modules/typescript/bin/tsc', ...options.split(' '), ...files];
    const { stdout } = await Program.start(process.execPath, args, { cwd: folder }).outcome;
    expect(stdout).toBe('');
    expect(files.length).toBeGreaterThan(1);
  });

  /** The first response breaks off, others are 503 with `Retry-After: 1`. Writes the seconds from the first request to the last. */
  const OUTAGE = `
import atexit, http.client, io, time, urllib.error, urllib.request
clock = last = 0
def sleep(seconds):
    global clock
    clock += seconds
def open_url(self, request, data=None, timeout=None):
    global last
    last = clock
    raise http.client.IncompleteRead(b"") if clock == 0 else urllib.error.HTTPError("", 503, "", {"Retry-After": "1"}, io.BytesIO(b'{"code":"unavailable"}'))
time.monotonic, time.sleep, urllib.request.OpenerDirector.open = lambda: clock, sleep, open_url
atexit.register(lambda: print(last))
`;
  itWith('python3')('of retries go on for at least 30 seconds', async () => {
    const sample = SAMPLES.find((it) => it.guide === 'retries' && it.language === 'python')!;
    const env = { BASE: 'http://127.0.0.1/v1', KEY: 'key' };
    const { code, stdout } = await run('python', OUTAGE + sample.code, env);
    expect(code).toBe(1);
    expect(Number(stdout)).toBeGreaterThanOrEqual(30);
    expect(Number(stdout)).toBeLessThan(45);
  });

  const NOT_PROMISED = [
    ['a redirect', 301, { Location: '/v1/pets' }, ''],
    ['a list with 200', 200, {}, '[{"id":1}]'],
    ['JSON of another kind', 201, {}, '{"ok":true}'],
    ['a list', 201, {}, '[{"id":1}]'],
    ['HTML', 201, {}, '<html>'],
    ['no body', 204, {}, ''],
  ] as const;
  itWith('python3').each([
    ['retries', 'python'],
    ['pagination', 'typescript'],
  ] as const)('fail if a response is not what they expect: %s in %s', async (guide, language) => {
    const sample = SAMPLES.find((it) => it.guide === guide && it.language === language)!;
    for (const [what, status, headers, body] of NOT_PROMISED) {
      const isList = guide === 'pagination' && body.startsWith('[');
      const server = createServer((request, response) => {
        // Whoever follows the redirect gets what it would believe.
        const isFollowed = status === 301 && request.method === 'GET' && guide === 'retries';
        response.writeHead(isFollowed ? 200 : isList ? 500 : status, headers);
        response.end(isFollowed ? '[{"id":1}]' : body);
      });
      await once(server.listen(0, '127.0.0.1'), 'listening');
      const { port } = server.address() as AddressInfo;
      const env = { BASE: `http://127.0.0.1:${port}/v1`, KEY: 'key' };
      const { code, stdout } = await run(language, sample.code, env);
      expect({ what, code, stdout }).toEqual({ what, code: 1, stdout: '' });
      server.closeAllConnections();
      await once(server.close(), 'close');
    }
  });
});

const PAGES = ['/docs', ...GUIDES.map((guide) => `/docs/guides/${guide}`)];

describe('the pages', () => {
  const service = serviceOfTests();

  // test/http/routing has their methods.
  it.each(PAGES)(
    'need no key, load nothing of others, and link to each other, saying which one this is, and only to what is there: %s',
    async (path) => {
      const { headers, text } = await service.anonymous.get(path).expect(200);
      expect(headers).toMatchObject({
        'content-type': 'text/html; charset=utf-8',
        'cache-control': 'no-cache',
        'content-security-policy':
          "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; " +
          "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        'referrer-policy': 'no-referrer',
        'x-content-type-options': 'nosniff',
        'x-request-id': expect.any(String),
      });
      const [, guide] = /guides\/(.+)/.exec(path) ?? [];
      const title = guide && /^# (.+)$/m.exec(readGuide(guide))![1];
      expect(text).toContain(guide ? `>${title}</a></h1>` : 'swagger-ui');
      expect(text).toContain(`<title>${title ?? 'Reference'} · Animal Store Service</title>`);
      const targets = [...text.matchAll(/(?:href|src)="([^"]+)"/g)].map(
        ([, target]) => new URL(target!, service.origin + path),
      );
      expect(targets.map(({ pathname }) => pathname)).toEqual(
        expect.arrayContaining([...PAGES, '/openapi.json']),
      );
      const current = text.match(/(?<=<a href=")[^"]+(?=" aria-current="page">)/g) ?? [];
      expect(current.map((to) => new URL(to, service.origin + path).pathname)).toEqual([path]);
      for (const { origin, pathname, hash } of targets) {
        expect(origin).toBe(service.origin);
        const target = await service.anonymous.get(pathname).expect(200);
        // Swagger UI makes the places of operations.
        if (!hash.startsWith('#/')) {
          expect(target.text ?? '').toContain(hash && ` id="${hash.slice(1)}"`);
        }
      }
    },
  );

  it('show the description and the operations of the OpenAPI document before a script has run', async () => {
    const { text } = await service.anonymous.get('/docs').expect(200);
    const { body } = await service.anonymous.get('/openapi.json').expect(200);
    const paragraphs: string[] = body.info.description.split('\n\n');
    const [first = '', ...others] = paragraphs.map((one) => one.replaceAll('\n', ' '));
    expect(text.replaceAll('\n', ' ')).toContain(`<p>${first}</p>`);
    expect(text.match(/<p>/g)!.length).toBeGreaterThanOrEqual(1 + others.length);
    const { operations } = service.get(OpenApiDocument);
    const places = operations.map(({ tags, operationId }) => `#/${tags[0]}/${operationId}`);
    expect(text.match(/(?<=href=")#\/[^"]+/g)).toEqual(places);
    expect(text).not.toContain('{text}');
  });

  it('are where / leads behind the prefix of PUBLIC_BASE_URL', async () => {
    const url = 'https://pets.example/animals/v1';
    const other = await startService({ PUBLIC_BASE_URL: url });
    await other.anonymous.get('/').expect(303).expect('Location', '/animals/docs');
    await other.stop();
  });

  it('are gone, their files too, where DOCS is off, and / leads to the OpenAPI document', async () => {
    const other = await startService({ DOCS: 'off' });
    for (const path of [...PAGES, '/docs/assets/docs.css', '/docs/assets/reference.js']) {
      expectError(await other.anonymous.get(path), 404, 'route_not_found');
      expectError(await other.anonymous.post(path), 404, 'route_not_found');
    }
    await other.anonymous.get('/').expect(303).expect('Location', './openapi.json');
    await other.anonymous.get('/openapi.json').expect(200);
    await other.stop();
  });
});
