import { existsSync, readdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { PROJECT_ROOT } from '../../src/config/project-root.js';
import { runHere } from '../support/command.js';
import { DOCUMENT, examplesOf } from '../support/contract.js';
import { DOCUMENTS, read } from '../support/documents.js';

const exists = (path: string) => existsSync(join(PROJECT_ROOT, path));
/** The first group of each match that has one, or the whole match. */
const matches = (text: string, pattern: RegExp) =>
  [...text.matchAll(pattern)].map(([all, ...groups]) => groups.find((group) => group) ?? all);

const { scripts } = JSON.parse(read('package.json'));

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
});

it('ARCHITECTURE.md draws and lists the folders of src in the same rows, and draws classes that there are', () => {
  const text = read('ARCHITECTURE.md');
  const [path, rows] = matches(text, /^```mermaid$([^`]+)/gm);
  const [, table] = text.split(/^## (?:Folders|Four ideas)$/m);
  const listed = matches(table!, /^\| (`src\/[\w-]+`(?:, `src\/[\w-]+`)*) /gm);
  const drawn = matches(rows!, /^ {2}(?!columns)(.+)$/gm).map((row) =>
    matches(row, /\["(.+)"\]:|(\w+):/g),
  );
  expect(drawn).toEqual(listed.map((row) => matches(row, /src\/([\w-]+)/g)));
  const entries = readdirSync(join(PROJECT_ROOT, 'src'), { recursive: true, encoding: 'utf8' });
  const files = entries.filter((entry) => entry.endsWith('.ts'));
  const folders = new Set(files.map(dirname).filter((folder) => folder !== '.'));
  expect(drawn.flat().toSorted()).toEqual([...folders].toSorted());
  const classes = new Set(matches(path!, /\b[A-Z]\w*[a-z][A-Z]\w+\b/g));
  expect(classes.size).toBeGreaterThan(5);
  const source = files.map((file) => read(`src/${file}`)).join('\n');
  expect([...classes].filter((name) => !source.includes(`class ${name} `))).toEqual([]);
});

it('docs/operations.md names commands that the program has', async () => {
  const commands = matches(read('docs/operations.md'), /^\| `animal-store ([a-z ]+)`/gm);
  expect(commands.length).toBeGreaterThan(10);
  for (const command of commands) {
    const { stdout } = await runHere(`${command} --help`);
    expect(stdout).toMatch(new RegExp(`^Usage: animal-store ${command} `));
  }
});
