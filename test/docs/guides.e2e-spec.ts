import { spawn, spawnSync } from 'node:child_process';
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { transform } from '@swc/core';
import { lexer, type Tokens } from 'marked';
import ts from 'typescript';
import { PROJECT_ROOT } from '../../src/config/project-root.js';
import { startService, type TestService } from '../service.js';

const FOLDER = join(PROJECT_ROOT, 'docs/guides');
const GUIDES = (await readdir(FOLDER)).map((file) => file.replace('.md', ''));

const LANGUAGES: Record<string, { interpreter: string; extension: string }> = {
  bash: { interpreter: 'bash', extension: 'sh' },
  typescript: { interpreter: process.execPath, extension: 'mjs' },
  python: { interpreter: 'python3', extension: 'py' },
};

/** What a sample prints, below it. In text, `…` stands for anything; in JSON, white space means nothing. */
const OUTPUTS = ['text', 'json'];

interface Sample {
  language: string;
  code: string;
  output?: Tokens.Code;
}

function samplesOf(markdown: string): Sample[] {
  const samples: Sample[] = [];
  let before: Tokens.Generic | undefined;
  for (const token of lexer(markdown).filter(({ type }) => type !== 'space')) {
    if (token.type === 'code') {
      const { lang = '', text: code } = token as Tokens.Code;
      if (OUTPUTS.includes(lang) && before?.type === 'code' && before['lang'] in LANGUAGES) {
        samples.at(-1)!.output = token as Tokens.Code;
      } else {
        expect(Object.keys(LANGUAGES)).toContain(lang);
        samples.push({ language: lang, code });
      }
    }
    before = token;
  }
  return samples;
}

/** Every interpreter is there in CI; elsewhere the samples of one that is not are left out. */
function isMissing(interpreter: string): boolean {
  const { error } = spawnSync(interpreter, ['--version']);
  if (error !== undefined && process.env['CI']) {
    throw error;
  }
  return error !== undefined;
}

describe.each(GUIDES)('the guide %s', (name) => {
  let service: TestService;
  let folder: string;
  beforeAll(async () => {
    service = await startService({ RATE_LIMIT_PER_MINUTE: '600' });
    folder = await mkdtemp(join(tmpdir(), 'animal-store-guide-'));
  });
  afterAll(async () => {
    await service.stop();
    await rm(folder, { recursive: true });
  });

  const run = async ({ language, code }: Sample) => {
    const { interpreter, extension } = LANGUAGES[language]!;
    const file = join(folder, `sample.${extension}`);
    const { code: script } =
      language === 'typescript'
        ? await transform(code, { jsc: { parser: { syntax: 'typescript' }, target: 'es2022' } })
        : { code };
    await writeFile(file, script);
    const child = spawn(interpreter, [file], {
      cwd: folder,
      env: { PATH: process.env['PATH'], BASE: `${service.origin}/v1`, KEY: service.key },
    });
    const exit = new Promise((resolve) => child.once('close', resolve));
    const [stdout, stderr] = await Promise.all([text(child.stdout), text(child.stderr)]);
    return { exit: await exit, stdout, stderr };
  };

  it('has samples that run, one after the other, and print what it shows', async () => {
    const samples = samplesOf(await readFile(join(FOLDER, `${name}.md`), 'utf8'));
    expect(new Set(samples.map(({ language }) => language)).size).toBeGreaterThan(1);
    for (const sample of samples) {
      if (isMissing(LANGUAGES[sample.language]!.interpreter)) {
        console.warn(`${sample.language} samples of ${name} are left out: no interpreter`);
        continue;
      }
      const { exit, stdout, stderr } = await run(sample);
      expect({ sample: sample.code, exit, stderr }).toEqual({
        sample: sample.code,
        exit: 0,
        stderr: '',
      });
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

  it('is shown by the service', async () => {
    const markdown = await readFile(join(FOLDER, `${name}.md`), 'utf8');
    const page = await service.anonymous.get(`/docs/guides/${name}`).expect(200);
    expect(page.text).toContain(`<h1>${/^# (.+)$/m.exec(markdown)![1]}</h1>`);
  });

  it('links only to what is there', async () => {
    const page = await service.anonymous.get(`/docs/guides/${name}`);
    const targets = [...page.text.matchAll(/(?:href|src)="([^"]+)"/g)].map(
      ([, target]) => new URL(target!, `${service.origin}/docs/guides/${name}`),
    );
    expect(targets.map(({ pathname }) => pathname)).toContain('/docs');
    for (const { origin, pathname } of targets) {
      expect(origin).toBe(service.origin);
      await service.anonymous.get(pathname).expect(200);
    }
  });
});

it('the samples in TypeScript compile where it is strict', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'animal-store-samples-'));
  const files: string[] = [];
  for (const name of GUIDES) {
    const samples = samplesOf(await readFile(join(FOLDER, `${name}.md`), 'utf8'));
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
  const faults = ts.getPreEmitDiagnostics(program);
  await rm(folder, { recursive: true });
  expect(files.length).toBeGreaterThan(5);
  expect(
    faults.map(({ messageText, file }) => [file?.fileName.slice(folder.length), messageText]),
  ).toEqual([]);
});

const escaped = (literal: string) => literal.replaceAll(/[\\^$.*+?()[\]{}|]/g, '\\$&');
