import { spawnSync } from 'node:child_process';
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { PROJECT_ROOT } from '../../src/config/project-root.js';
import { APPLICATION_NAME } from '../../src/database/data-source.js';
import { END_SESSIONS } from '../../src/database/pool.js';

import { runMigrations } from '../../src/schema/migrations.js';
import { DELETE_OLD_IDEMPOTENCY_KEYS } from '../../src/pets/pets.sql.js';
import { Project } from '../support/project.js';
import { until } from '../support/until.js';
import { read } from '../support/documents.js';
import { describeWith } from '../support/describe-with.js';
import { Postgres, systemBinaries } from '../support/postgres.js';

const binaries = await systemBinaries();

/** What each statement is for, by its name or by how it begins, in the order of docs/statements.sql. */
const STATEMENTS: Readonly<Record<string, string>> = {
  'valid-keys': 'Which API keys of the waiting requests are valid.',
  'note-key-use': 'Notes which API keys were used, to the minute.',
  'pet-pages': 'listPets: the pages that requests wait for.',
  'pet-pages-of-status': 'listPets with a status.',
  'insert-pets': 'createPet.',
  'insert-pets-once': 'createPet with an Idempotency-Key.',
  'delete-old-idempotency-keys': 'Deletes Idempotency-Keys older than 24 hours, every ten minutes.',
  'pets-by-id': 'getPet.',
  'order-pages': 'listOrders.',
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
    'A start: whether this is Citus. If so, other statements replace some of these, and the start also reads groupid from pg_dist_local_group.',
  'select name, setting, quote_ident': 'A start: whether sessions have their settings.',
  'select pg_backend_pid()':
    'First in each serving session: changes its settings, unless a pooler has the session.',
};

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
      ['/v1/pets'],
      ['/v1/pets?status=available'],
      ['/v1/pets/1'],
      ['/v1/store/orders'],
    ] as [string, RequestInit?][]) {
      const { status } = await fetch(new URL(path, base), { headers, ...init });
      const errors = server.log.slice(since).match(/(?<=\|ERROR: {2}).*/g) ?? [];
      expect([path, status, errors]).toEqual([path, init === undefined ? 200 : 201, []]);
    }
    await program.end('SIGINT');
    // The last one that it sends.
    await until('all is logged', () => server.log.includes('execute note-key-use'));

    const sent = statementsIn(server.log.slice(since));
    for (const { name, text } of [DELETE_OLD_IDEMPOTENCY_KEYS, END_SESSIONS]) {
      sent.set(name, text);
    }
    const listed = Object.keys(STATEMENTS);
    expect([...sent.keys()].toSorted()).toEqual(listed.toSorted());
    expect(listed.filter((statement) => !isBeginning(statement)).toSorted()).toEqual(
      (await namesInSource()).toSorted(),
    );
    const parts = Object.entries(STATEMENTS).map(([statement, purpose]) => {
      const prepared = isBeginning(statement) ? '' : ` Prepared as ${statement}.`;
      return `-- ${purpose}${prepared}\n${sent.get(statement)!.trim()};\n`;
    });
    await expectFile(
      'statements.sql',
      [
        '-- Every statement that the service sends, except those of TypeORM when it connects. Made by npm run',
        '-- sql-files. Tests check that they are current, and that their plans use the indexes.\n',
        ...parts,
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
  const sources = files.filter(
    (file) => /(?<!\.spec)\.ts$/.test(file) && !file.startsWith('citus'),
  );
  const names = /new (?:Page)?Statement\(\s*(.*?),/g;
  return sources.flatMap((file) =>
    [...read(join('src', file)).matchAll(names)].map(([, name]) => name!.slice(1, -1)),
  );
}

/** What TypeORM asks when it connects. */
const OF_TYPEORM =
  /^(SELECT version\(\)|SHOW server_version|SELECT \* FROM current_(schema|database)\(\))/i;
