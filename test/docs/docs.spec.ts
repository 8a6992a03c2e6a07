import { existsSync, readdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { parseEnv } from 'node:util';
import { parse } from 'yaml';
import { isApiKey } from '../../src/api-key.js';
import { Environment, readEnvironment } from '../../src/config/environment.js';
import { PROJECT_ROOT } from '../../src/config/project-root.js';
import { ERRORS } from '../../src/errors/api-error.js';
import { DOCUMENTS, read } from '../support/documents.js';

const exists = (path: string) => existsSync(join(PROJECT_ROOT, path));
/** The files of the service, as paths from the project's root. */
const inSource = readdirSync(join(PROJECT_ROOT, 'src'), { recursive: true, encoding: 'utf8' })
  .filter((file) => file.endsWith('.ts'))
  .map((file) => join('src', file));
const { scripts } = JSON.parse(read('package.json'));

describe('the documents', () => {
  it('list in docs/guides/errors.md exactly the errors of src/errors/api-error.ts, with their statuses', () => {
    const rows = read('docs/guides/errors.md').matchAll(/^\| +(\d{3}) +\| +`(\w+)` +\|/gm);
    const listed = Array.from(rows, ([, status, code]) => `${status} ${code}`);
    const errors = Object.entries(ERRORS).map(([code, { status }]) => `${status} ${code}`);
    expect(listed.toSorted()).toEqual(errors.toSorted());
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
    [
      'files and folders',
      /`((?:src|test|scripts|migrations|docs|deploy|public|bench|clients|\.ci)(?:\/[\w./@-]*)?)`/g,
      // The changelog also names what was removed.
      (path, file) => file === 'CHANGELOG.md' || exists(path),
    ],
  ])('name only %s that exist', (_what, pattern, isThere) => {
    const named = [...DOCUMENTS, '.vscode/launch.json'].flatMap((file) =>
      Array.from(read(file).matchAll(pattern), ([, one, other]) => ({
        name: (one ?? other)!,
        file,
      })),
    );
    expect(named.length).toBeGreaterThan(30);
    expect(named.filter(({ name, file }) => !isThere(name, file))).toEqual([]);
  });
});

it('folders of src import only from their own row of the table in ARCHITECTURE.md, or from rows below', () => {
  const section = read('ARCHITECTURE.md').split('\n## Folders\n')[1]!.split('\n## ')[0]!;
  const cells = Array.from(section.matchAll(/^\| (`src\/.+?) +\|/gm), ([, cell]) => cell!);
  const rowOf = new Map(
    cells.flatMap((cell, row) =>
      Array.from(cell.matchAll(/`src\/([\w.-]+?)(?:\.ts)?`/g), ([, name]) => [name!, row] as const),
    ),
  );
  const files = inSource.filter((file) => file !== 'src/main.ts');
  const imports = files.flatMap((file) =>
    Array.from(read(file).matchAll(/(?:from|import\() ?'(\.{1,2}\/.+?)'/g), ([, path]) => ({
      file,
      imported: join(dirname(file), path!),
    })),
  );
  const rowOfFile = (path: string) => rowOf.get(path.split('/')[1]!.replace(/\.[jt]s$/, ''));
  const inRows = imports.filter(({ imported }) => imported.startsWith('src/'));
  expect(inRows.length).toBeGreaterThan(200);
  expect(files.filter((file) => rowOfFile(file) === undefined)).toEqual([]);
  expect(
    inRows.filter(({ file, imported }) => !(rowOfFile(imported)! >= rowOfFile(file)!)),
  ).toEqual([]);
});

it('docs/dba.md says of each statement of docs/statements.sql where it runs', () => {
  const section = read('docs/dba.md').split('\n## Which SQL runs where\n')[1]!.split('\n## ')[0]!;
  const rows = [...section.matchAll(/^\| (.+?) +\| (.*?) +\| (.+?) +\| (.+?) +\|$/gm)].slice(2);
  const namesIn = (text: string) => Array.from(text.matchAll(/`([a-z-]+)`/g), ([, name]) => name!);
  const [sent, onCitus] = read('docs/statements.sql').split('\n-- On Citus, ') as [string, string];
  const prepared = Array.from(sent.matchAll(/ Prepared as (.+)\.$/gm), ([, name]) => name);
  const listed = rows.flatMap(([, , primary, standby]) => namesIn(primary! + standby));
  expect(listed.toSorted()).toEqual(prepared.toSorted());
  const readOnStandbys = rows.filter(([, , , standby]) => standby === 'on a standby');
  expect(readOnStandbys.map(([, operation]) => operation)).toEqual([
    'listPets',
    'listOrders',
    'getPet',
  ]);
  // A statement of createPet, and another one for each list, the ids and the deletion of old records.
  const others = rows.filter(([, , , , citus]) => /^(one|several|another)/.test(citus!));
  for (const [, operation] of others) {
    expect(onCitus).toContain(operation === 'every ten minutes' ? operation : `-- ${operation}: `);
  }
  const operations = onCitus.matchAll(/^-- (\w+)(?= with|:)/gm);
  const names = new Set(Array.from(operations, ([, operation]) => operation!));
  expect(others.map(([, operation]) => operation)).toEqual(expect.arrayContaining([...names]));
});

describe('.env.example', () => {
  const EXAMPLE = read('.env.example');
  const variables = parseEnv(EXAMPLE) as Record<string, string>;
  /** Those of docker-compose.yml alone. */
  const PORTS = ['DATABASE_PORT', 'BALANCER_PORT', 'PROMETHEUS_PORT', 'GRAFANA_PORT'];
  const OF_COMPOSE = ['PUBLISHED_ADDRESS', ...PORTS];
  /** Compose sets its own. It publishes at no name, such as localhost, and not at `*`, which HOST may be. */
  const NOT_OF_COMPOSE = /^(?:HOST|DATABASE_(?:(?:READ_)?URL(?:_FILE)?|POOLER))$/;
  const { services } = parse(read('docker-compose.yml'), { merge: true });

  it('has exactly the variables that are read, explains each, and changes nothing if it is used as it is', () => {
    const ofKeys = ['LOCAL_API_KEY', 'LOCAL_API_KEY_FILE'];
    const known = [...Object.keys(new Environment()), ...ofKeys, ...OF_COMPOSE].toSorted();
    expect(Object.keys(variables).toSorted()).toEqual(known);
    expect(known.filter((name) => !new RegExp(`^#.+\n${name}=`, 'm').test(EXAMPLE))).toEqual([]);
    expect(readEnvironment(variables)).toEqual(readEnvironment({}));
    expect(isApiKey(variables['LOCAL_API_KEY']!)).toBe(true);
  });

  it('has each variable that docker-compose.yml gives to the service, or at which it publishes a port', () => {
    const { environment, ports, build } = services.api;
    const given = Object.entries<string | number>({ ...environment, ...build.args })
      .filter(([name, value]) => `${value}`.startsWith(`\${${name}:`))
      .map(([name]) => name);
    // .env.example tells the defaults, which are the service's own.
    const values = given.map((name) => ({ ...environment, ...build.args })[name]);
    const defaults: Record<string, string> = {
      NODE_ENV: `:-${new Environment().NODE_ENV}`,
      LOCAL_API_KEY: ':?is not set; copy .env.example to .env',
    };
    expect(values).toEqual(given.map((name) => `\${${name}${defaults[name] ?? ':-'}}`));
    const published = [...ports.join().matchAll(/\$\{(\w+)/g)].map(([, name]) => name!);
    const all = new Set([...given, ...published, ...OF_COMPOSE]);
    const ofCompose = Object.keys(variables).filter((name) => !NOT_OF_COMPOSE.test(name));
    expect([...all].toSorted()).toEqual(ofCompose.toSorted());
    expect(environment.DATABASE_URL).toMatch(/@db:5432\/animals$/);
    expect(services.migrate.environment).toEqual(environment);
    expect(ports[0]).toMatch(`${environment.PUBLISHED_HOST}:`);
    expect(read('docker-compose.yml')).not.toMatch(/\$\{?HOST\b/);
  });

  /** What the comment above a variable says. */
  const commentOn = (name: string) =>
    new RegExp(`((?:^#.*\n)+)${name}=`, 'm').exec(EXAMPLE)![1]!.replaceAll(/\n?# ?/g, ' ');

  it('tells the defaults of the service and of docker-compose.yml, and the least and greatest values', () => {
    const told = (name: string) => /\sDefault: (\S+?)[,.]?\s/.exec(commentOn(name))?.[1];
    for (const [name, value] of Object.entries(new Environment())) {
      expect([name, told(name)]).toEqual([name, value === undefined ? told(name) : `${value}`]);
    }
    const ports = Object.values<{ ports?: string[] }>(services).flatMap((one) => one.ports ?? []);
    for (const name of [...PORTS, 'PORT', 'PUBLISHED_ADDRESS']) {
      const used = ports.join().matchAll(new RegExp(`\\{${name}:-([\\d.]+)\\}`, 'g'));
      const defaults = new Set(Array.from(used, ([, it]) => it));
      expect([name, ...defaults]).toEqual([name, told(name)]);
    }
    const ranges = Object.keys(new Environment()).flatMap((name) => {
      const [, least, most] = /\b(\d+) to (\d+)\b/.exec(commentOn(name)) ?? [];
      return least === undefined ? [] : [[name, Number(least), Number(most)] as const];
    });
    expect(ranges.length).toBeGreaterThanOrEqual(5);
    for (const [name, least, most] of ranges) {
      const read = (value: number) => () =>
        readEnvironment({ DATABASE_URL: 'postgres://db/animals', [name]: `${value}` });
      [least, most].forEach((value) => expect(read(value)).not.toThrow());
      [least - 1, most + 1].forEach((value) => expect(read(value)).toThrow(name));
    }
  });

  it('is beside a docker-compose.yml that mounts, and watches, only what exists', () => {
    const mounted = Object.values<{ volumes?: string[] }>(services)
      .flatMap(({ volumes = [] }) => volumes.map((volume) => volume.split(':')[0]!))
      .filter((path) => path.startsWith('./'));
    const watched = services.api.develop.watch.map(({ path }: { path: string }) => path);
    expect([...mounted, ...watched].filter((path) => !exists(path))).toEqual([]);
  });
});
