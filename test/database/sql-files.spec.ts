import { spawnSync } from 'node:child_process';
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { PROJECT_ROOT } from '../../src/config/project-root.js';
import { APPLICATION_NAME } from '../../src/database/data-source.js';
import { END_SESSIONS } from '../../src/database/pool.js';
import { NEEDED_RIGHTS, OTHER_RIGHTS } from '../../src/schema/schema-state.js';
import { runMigrations } from '../../src/schema/migrations.js';
import { pageOnCitus } from '../../src/listing/citus-page-reader.js';
import type { List } from '../../src/listing/list.js';
import { pagesStatement } from '../../src/listing/postgres-page-reader.js';
import { ORDERS } from '../../src/orders/orders.service.js';
import { CITUS_STATEMENTS, insertOnCitus } from '../../src/pets/citus-pet-store.js';
import { PETS } from '../../src/pets/pets.service.js';
import { DELETE_OLD_IDEMPOTENCY_KEYS } from '../../src/pets/postgres-pet-store.js';
import { Project } from '../support/project.js';
import { until } from '../support/until.js';
import { read } from '../support/documents.js';
import { filterSets } from '../support/stores.js';
import { operations } from '../support/contract.js';
import { describeWith } from '../support/describe-with.js';
import { Postgres, systemBinaries } from '../support/postgres.js';

const binaries = await systemBinaries();

/** The statements of a list, for each set of its filters. */
const pagesOf = (operation: string, list: List) =>
  filterSets(list).map((filters) => {
    const names = filters.map(({ property }) => property).join(' and ');
    const purpose = `${operation}${names && ` with ${names}`}: pages.`;
    return { ...pagesStatement(list, filters), purpose, onCitus: pageOnCitus(list, filters) };
  });

const PAGES = [...pagesOf('listPets', PETS), ...pagesOf('listOrders', ORDERS)];

/** What statements are for, by their names or beginnings, in the order of docs/statements.sql. */
const STATEMENTS: Readonly<Record<string, string>> = {
  ...Object.fromEntries(PAGES.map(({ name, purpose }) => [name, purpose])),
  'valid-keys': 'Which API keys of the waiting requests are valid.',
  'note-key-use': 'Notes which API keys were used, to the minute.',
  'insert-pets': 'createPet.',
  'insert-pets-once': 'createPet with an Idempotency-Key.',
  'delete-old-idempotency-keys': 'Deletes Idempotency-Keys older than 24 hours, every ten minutes.',
  'pets-by-id': 'getPet.',
  'primary-position':
    'With DATABASE_READ_URL, on the primary before each read: how far its log goes.',
  'standby-state':
    'With DATABASE_READ_URL, on the standby before each read: whether it is a standby that has replayed this.',
  'end-sessions': 'Ends sessions that the service closed because they did not respond.',
  'show transaction_read_only': 'Readiness: whether the database is writable.',
  'select one as right': 'Readiness: which rights the role lacks.',
  'select name, timestamp from migrations order by id':
    'Readiness, and a start: which migrations are applied.',
  "select to_regclass('pets') is not null":
    'Readiness, and a start: whether the tables are in another schema than the one that the role uses.',
  "select current_setting('server_encoding')": 'A start: whether the database can hold the tables.',
  'select current_schema() as schema': 'A start: where it is, for its messages.',
  "select set_config('datestyle'":
    'Sessions of commands: the format of dates that the driver reads, and no rows hidden.',
  "select to_regclass('pg_dist_local_group')":
    'A start: whether this is Citus. If so, it also reads groupid from pg_dist_local_group.',
  'select name, setting, quote_ident': 'A start: whether sessions have their settings.',
  'select pg_backend_pid()':
    'First in each serving session: changes its settings, unless a pooler has the session.',
};

/** What {@link CITUS_STATEMENTS} are for. */
const PURPOSES_ON_CITUS: Readonly<Record<string, string>> = {
  newPets: 'createPet: the ids and the JSON of new pets.',
  expiryCutoff: 'createPet with an Idempotency-Key: the time 24 hours ago.',
  findKey: 'createPet with an Idempotency-Key: its record, if it has one.',
  lockKey: 'createPet with an Idempotency-Key, in a transaction with the insert: its lock.',
  recordKey: 'createPet with an Idempotency-Key, in the same transaction: its record.',
  deleteOldKeys: 'Deletes Idempotency-Keys older than 24 hours, every ten minutes.',
};

const ON_CITUS = [
  ...PAGES.map(({ purpose, onCitus }) => [purpose, onCitus]),
  ['createPet: as many rows as there are new pets.', insertOnCitus(1)],
  ...Object.entries(CITUS_STATEMENTS).map(([key, text]) => [
    PURPOSES_ON_CITUS[key] ?? `${key}.`,
    text,
  ]),
];

describeWith('PostgreSQL', binaries)('the SQL files of docs', () => {
  const project = Project.ofTests();
  let server: Postgres;
  beforeAll(async () => {
    server = await Postgres.start(
      ['log_statement=all', 'log_line_prefix=%a|', 'log_min_error_statement=panic'],
      binaries!,
    );
    await runMigrations(server.url);
  });
  afterAll(() => server.stop());

  /** With WRITE_SQL_FILES, as `npm run sql-files` sets it, the file is written instead. */
  async function expectFile(name: string, text: string): Promise<void> {
    const file = join(PROJECT_ROOT, 'docs', name);
    if (process.env['WRITE_SQL_FILES']) {
      await writeFile(file, text);
    }
    expect(await readFile(file, 'utf8')).toBe(text);
  }

  it('schema.sql is what pg_dump -s writes of the migrated database', async () => {
    const args = ['-s', '--no-owner', '--no-privileges', server.url];
    const { stdout, status } = spawnSync('pg_dump', args, { encoding: 'utf8' });
    expect(status).toBe(0);
    const text = stdout
      // Versions, settings of the restoring session, and what is random in each dump.
      .replaceAll(/^(--|SET |SELECT pg_catalog\.set_config|\\(un)?restrict ).*\n/gm, '')
      .replaceAll(/\n{3,}/g, '\n\n')
      .trim();
    await expectFile(
      'schema.sql',
      `-- The migrated schema, as pg_dump -s writes it. Made by npm run sql-files.\n\n${text}\n`,
    );
  });

  it('grants.sql gives the service the rights that it looks for', async () => {
    const rights = [...NEEDED_RIGHTS, ...OTHER_RIGHTS].map((right) => right.split(' on '));
    const grants = [...new Set(rights.map(([, relation]) => relation!))].map((relation) => {
      const own = rights.filter((right) => right[1] === relation).map(([privilege]) => privilege);
      const columns = relation === 'api_keys' ? ' (last_used_at)' : '';
      return `grant ${own.join(', ')}${columns} on ${relation.replace(/.+_seq$/, 'sequence $&')} to animals;\n`;
    });
    const text = read('docs/grants.sql');
    await expectFile('grants.sql', text.replace(/(^grant .+ to animals;\n)+/m, grants.join('')));
  });

  it('statements.sql has every statement that the service sends, and no other', async () => {
    const DATABASE_URL = server.url;
    const created = await project.run('keys', ['create', '--name', 'x'], { DATABASE_URL });
    const headers = {
      Authorization: `Bearer ${created.stdout.trim()}`,
      'Content-Type': 'application/json',
    };
    const since = server.log.length;
    // No standby, but the statements are sent to find out.
    const variables = { DATABASE_URL, DATABASE_READ_URL: DATABASE_URL };
    const { base, program } = await project.serve(variables);
    const body = '{"name":"Rex","categoryId":1}';
    const idempotent = { method: 'POST', body, headers: { ...headers, 'Idempotency-Key': 'k' } };
    for (const [path, init] of [
      ['/health/ready'],
      ['/v1/pets', { method: 'POST', body }],
      ['/v1/pets', idempotent],
      ['/v1/pets', idempotent],
      ['/v1/pets?status=available'],
    ] as [string, RequestInit?][]) {
      const { status } = await fetch(new URL(path, base), { headers, ...init });
      const errors = server.log.slice(since).match(/(?<=\|ERROR: {2}).*/g) ?? [];
      expect([path, status, errors]).toEqual([path, init === undefined ? 200 : 201, []]);
    }
    for (const { path, method, body: example, success } of operations()) {
      const init = { method, headers, ...(example && { body: JSON.stringify(example) }) };
      expect((await fetch(new URL(path, base), init)).status).toBe(success);
    }
    await until('the standby is asked', () => server.log.includes('execute standby-state'));
    await program.end('SIGINT');
    // The last one that it sends.
    await until('all is logged', () => server.log.includes('execute note-key-use'));

    const sent = statementsIn(server.log.slice(since));
    for (const { name, text } of [...PAGES, DELETE_OLD_IDEMPOTENCY_KEYS, END_SESSIONS]) {
      sent.set(name, text);
    }
    // The text or the name of one that is not above says what it is for.
    const listed = [...new Set([...Object.keys(STATEMENTS), ...sent.keys()])];
    expect([...sent.keys()].toSorted()).toEqual(listed.toSorted());
    expect(listed.filter((statement) => !isBeginning(statement)).toSorted()).toEqual(
      [...(await namesInSource()), ...PAGES.map(({ name }) => name)].toSorted(),
    );
    const parts = listed.map((statement) => {
      const purpose = STATEMENTS[statement] ?? 'Of an operation.';
      const prepared = isBeginning(statement) ? '' : ` Prepared as ${statement}.`;
      return `-- ${purpose}${prepared}\n${sent.get(statement)!.trim()};\n`;
    });
    await expectFile(
      'statements.sql',
      [
        '-- Every statement that the service sends, except those of TypeORM when it connects. Made by npm run',
        '-- sql-files. Tests check that they are current, and that their plans use the indexes.\n',
        ...parts,
        '-- On Citus, these replace the statements on pets, orders and Idempotency-Keys. They are not prepared.\n',
        ...ON_CITUS.map(([purpose, text]) => `-- ${purpose}\n${text};\n`),
      ].join('\n'),
    );
  });
});

/** The entries of {@link STATEMENTS} that a log shows, with their texts. One that is not listed has its own name. */
function statementsIn(log: string): Map<string, string> {
  const logged = '(?:statement|execute ([^:]+)): ([^]*?)\\n(?=[^\\t]|$(?![^]))';
  const entries = log.matchAll(new RegExp(`^${APPLICATION_NAME}\\|LOG:  ${logged}`, 'gm'));
  const sent = new Map<string, string>();
  for (const [, name = '<unnamed>', lines] of entries) {
    const text = lines!.replaceAll('\n\t', '\n');
    const begins = (statement: string) => isBeginning(statement) && text.startsWith(statement);
    if (name !== '<unnamed>') {
      sent.set(name, text);
    } else if (!OF_TYPEORM.test(text)) {
      sent.set(Object.keys(STATEMENTS).find(begins) ?? text, text);
    }
  }
  return sent;
}

const isBeginning = (statement: string) => /[ "]/.test(statement);

/** The names of all statements in src, but for those of Citus. */
async function namesInSource(): Promise<string[]> {
  const files = await readdir(join(PROJECT_ROOT, 'src'), { recursive: true });
  const sources = files.filter((file) => /(?<!\.spec)\.ts$/.test(file));
  const names = /new Statement\(\s*'(.+?)',/g;
  return sources.flatMap((file) =>
    [...read(join('src', file)).matchAll(names)].map(([, name]) => name!),
  );
}

/** What TypeORM sends when it connects, and around a statement. */
const OF_TYPEORM =
  /^(START TRANSACTION|COMMIT|ROLLBACK|SELECT version\(\)|SHOW server_version|SELECT \* FROM current_(schema|database)\(\))/i;
