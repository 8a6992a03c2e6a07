import { spawn, spawnSync } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { transform } from '@swc/core';
import ts from 'typescript';
import { PROJECT_ROOT } from '../../src/config/project-root.js';
import { serviceOfTests } from '../support/service.js';
import { GUIDES, readGuide, type Sample, samplesOf } from '../support/samples.js';

const LANGUAGES: Record<string, { command: string; extension: string }> = {
  bash: { command: 'bash', extension: 'sh' },
  typescript: { command: process.execPath, extension: 'mjs' },
  python: { command: 'python3', extension: 'py' },
};

/** Every language of the guides is there in CI; elsewhere the samples of one that is not are left out. */
function isMissing(language: string): boolean {
  const { error } = spawnSync(LANGUAGES[language]!.command, ['--version']);
  if (error !== undefined && process.env['CI']) {
    throw error;
  }
  return error !== undefined;
}

/** `clients/generated` runs those of several files. */
const isRunHere = ({ file }: Sample) => file === undefined;

async function run({ language, code }: Sample, folder: string, env = {}) {
  const { command, extension } = LANGUAGES[language]!;
  const file = join(folder, `sample.${extension}`);
  const { code: script } =
    language === 'typescript'
      ? await transform(code, { jsc: { parser: { syntax: 'typescript' }, target: 'es2022' } })
      : { code };
  await writeFile(file, script);
  const { PATH, HOME } = process.env;
  const child = spawn(command, [file], { cwd: folder, env: { PATH, HOME, ...env } });
  const exit = new Promise((resolve) => child.once('close', resolve));
  const [stdout, stderr] = await Promise.all([text(child.stdout), text(child.stderr)]);
  return { exit: await exit, stdout, stderr };
}

describe.each(GUIDES)('the guide %s', (name) => {
  const service = serviceOfTests({ RATE_LIMIT_PER_MINUTE: '600' });
  let folder: string;
  beforeAll(async () => (folder = await temporaryFolder()));

  it('has samples that run, one after the other, and print what it shows', async () => {
    const samples = samplesOf(name).filter(isRunHere);
    const env = { BASE: `${service.origin}/v1`, KEY: service.key };
    for (const sample of samples) {
      expect(Object.keys(LANGUAGES)).toContain(sample.language);
      if (isMissing(sample.language)) {
        console.warn(`${sample.language} samples of ${name} are left out: it is not installed`);
        continue;
      }
      const { exit, stdout, stderr } = await run(sample, folder, env);
      const { code } = sample;
      expect({ code, exit, stderr }).toEqual({ code, exit: 0, stderr: '' });
      if (sample.output !== undefined) {
        const shown = (output: string) =>
          sample.output!.lang === 'json'
            ? output.replaceAll(/\s+/g, '')
            : output.trim().replaceAll('\r', '');
        const pattern = shown(sample.output.text).split('…').map(escaped).join('.*?');
        expect(shown(stdout)).toMatch(new RegExp(`^${pattern}$`, 's'));
      }
    }
  });

  it('is shown by the service, and links only to what is there', async () => {
    const page = await service.anonymous.get(`/docs/guides/${name}`).expect(200);
    expect(page.text).toContain(`>${/^# (.+)$/m.exec(readGuide(name))![1]}</a></h1>`);
    const targets = [...page.text.matchAll(/(?:href|src)="([^"]+)"/g)].map(
      ([, target]) => new URL(target!, `${service.origin}/docs/guides/${name}`),
    );
    expect(targets.map(({ pathname }) => pathname)).toContain('/docs');
    for (const { origin, pathname, hash } of targets) {
      expect(origin).toBe(service.origin);
      const target = await service.anonymous.get(pathname).expect(200);
      if (hash !== '') {
        expect(target.text).toContain(` id="${hash.slice(1)}"`);
      }
    }
  });
});

/** The first response breaks off, others are 503 with `Retry-After: 1`. Writes the seconds from the first request to the last. */
const OUTAGE: Record<string, string> = {
  typescript: `
    let clock = 0;
    let last = 0;
    Date.now = () => clock;
    globalThis.setTimeout = ((done: () => void, wait: number) => ((clock += wait), setImmediate(done))) as any;
    const cut = new ReadableStream({ start: (body) => body.error(new TypeError('terminated')) });
    globalThis.fetch = async () => {
      last = clock;
      return clock === 0 ? new Response(cut) : new Response('{}', { status: 503, headers: { 'Retry-After': '1' } });
    };
    process.on('exit', () => console.log(last / 1000));`,
  python: `
import atexit, http.client, io, time, urllib.error, urllib.request
clock = last = 0
def sleep(seconds):
    global clock
    clock += seconds
def urlopen(request, timeout):
    global last
    last = clock
    raise http.client.IncompleteRead(b"") if clock == 0 else urllib.error.HTTPError("", 503, "", {"Retry-After": "1"}, io.BytesIO(b'{"code":"unavailable"}'))
time.monotonic, time.sleep, urllib.request.urlopen = lambda: clock, sleep, urlopen
atexit.register(lambda: print(last))
`,
};
import { temporaryFolder } from '../support/temporary-folder.js';

it.each(Object.keys(OUTAGE))(
  'the retries in %s go on for at least 30 seconds',
  async (language) => {
    if (isMissing(language)) {
      return;
    }
    const folder = await temporaryFolder();
    const sample = samplesOf('retries').find((candidate) => candidate.language === language)!;
    const { exit, stdout } = await run({ language, code: OUTAGE[language] + sample.code }, folder, {
      BASE: 'http://127.0.0.1/v1',
      KEY: 'key',
    });
    expect(exit).toBe(1);
    expect(Number(stdout)).toBeGreaterThanOrEqual(30);
    expect(Number(stdout)).toBeLessThan(45);
  },
);

it('the samples in TypeScript compile where it is strict', async () => {
  const folder = await temporaryFolder();
  const files: string[] = [];
  for (const name of GUIDES) {
    const samples = samplesOf(name).filter(isRunHere);
    for (const { code } of samples.filter(({ language }) => language === 'typescript')) {
      files.push(join(folder, `${name}-${files.length}.mts`));
      await writeFile(files.at(-1)!, code);
    }
  }
  const program = ts.createProgram(files, {
    strict: true,
    noEmit: true,
    target: ts.ScriptTarget.ES2022,
    module: ts.ModuleKind.NodeNext,
    typeRoots: [join(PROJECT_ROOT, 'node_modules/@types')],
    types: ['node'],
    skipLibCheck: true,
  });
  const errors = ts.getPreEmitDiagnostics(program);
  expect(files.length).toBeGreaterThan(5);
  expect(errors.map(({ messageText, file }) => [file?.fileName, messageText])).toEqual([]);
});

const escaped = (literal: string) => literal.replaceAll(/[\\^$.*+?()[\]{}|]/g, '\\$&');
