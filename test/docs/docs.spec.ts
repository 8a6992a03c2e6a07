import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { PROJECT_ROOT } from '../../src/config/project-root.js';
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
