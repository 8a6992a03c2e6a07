import { spawnSync } from 'node:child_process';
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Client } from 'pg';
import { migrations } from '../../migrations/index.js';
import { PROJECT_ROOT } from '../../src/config/project-root.js';
import { EXPIRING_KEYS } from '../../src/auth/api-key-verifier.js';
import { APPLICATION_NAME } from '../../src/database/data-source.js';
import { END_SESSIONS } from '../../src/database/pool.js';
import { ASK_ALL } from '../../src/health/health.service.js';
import { BOOKKEEPING, NEEDED_RIGHTS, OTHER_RIGHTS } from '../../src/schema/schema-state.js';
import { lineOf, partsOf } from '../../src/schema/tables.js';
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
import { operations } from '../support/contract.js';
import { describeWith } from '../support/describe-with.js';
import { Postgres, systemBinaries } from '../support/postgres.js';
import { createDatabase, dropDatabase } from '../support/database.js';
import { SEEMING_CITUS } from '../support/seeming-citus.js';

const binaries = await systemBinaries();

/** The statements of a list, for each set of its filters. */
const pagesOf = (operation: string, list: List) =>
  list.filterSets.map((filters) => {
    const names = filters.map(({ property }) => property).join(' and ');
    const purpose = `${operation}${names && ` with ${names}`}: pages.`;
    return { ...pagesStatement(list, filters), purpose, onCitus: pageOnCitus(list, filters) };
  });

const PAGES = [...pagesOf('listPets', PETS), ...pagesOf('listOrders', ORDERS)];

/** On Citus, by what they are for. */
const ON_CITUS: Readonly<Record<string, string>> = {
  ...Object.fromEntries(PAGES.map(({ purpose, onCitus }) => [purpose, onCitus])),
  'createPet: as many rows as there are new pets.': insertOnCitus(1),
  'createPet: the ids and the JSON of new pets.': CITUS_STATEMENTS.newPets,
  'createPet with an Idempotency-Key: the time 24 hours ago.': CITUS_STATEMENTS.expiryCutoff,
  'createPet with an Idempotency-Key: its record, if it has one.': CITUS_STATEMENTS.findKey,
  'createPet with an Idempotency-Key: its transaction, first.': 'begin',
  'createPet with an Idempotency-Key, in the same transaction, before the insert: its lock.':
    CITUS_STATEMENTS.lockKey,
  'createPet with an Idempotency-Key, in the same transaction, after the insert: how long to wait for the record.':
    CITUS_STATEMENTS.limitWait,
  'createPet with an Idempotency-Key, in the same transaction: its record.':
    CITUS_STATEMENTS.recordKey,
  'createPet with an Idempotency-Key: its end. If another transaction has its lock or its record, rollback.':
    'commit',
  'Readiness: whether each worker with pets can be asked.': ASK_ALL,
  'Deletes Idempotency-Keys older than 24 hours, every ten minutes.':
    CITUS_STATEMENTS.deleteOldKeys,
};

/** With WRITE_SQL_FILES, as `npm run sql-files` sets it, the file is written instead. */
async function expectFile(name: string, text: string): Promise<void> {
  const file = join(PROJECT_ROOT, name);
  if (process.env['WRITE_SQL_FILES']) {
    await writeFile(file, text);
  }
  expect(await readFile(file, 'utf8')).toBe(text);
}

/** The order in which a DBA would make what a table consists of. */
const KINDS = 'table, column, not null, default, identity, check, key, index, foreign key'.split(
  ', ',
);

/** What each migration makes of the tables, and drops of them, in a new database: a line for each. */
async function changesOf(url: string, ...before: string[]): Promise<string[][]> {
  const client = new Client({ connectionString: url });
  await client.connect();
  const lines = async () => {
    const query = async (sql: string, values?: unknown[]) =>
      (await client.query(sql, values)).rows as any;
    // All tables but that of SEEMING_CITUS: those of a new migration are not in TABLES yet.
    const made = await query(
      `select tablename from pg_tables where schemaname = current_schema() and tablename <> 'distributed'`,
    );
    const names = made.map(({ tablename }: { tablename: string }) => tablename);
    const parts = await partsOf({ query }, 0, names);
    return parts
      .filter(({ kind }) => KINDS.includes(kind))
      .toSorted(
        (a, b) => KINDS.indexOf(a.kind) - KINDS.indexOf(b.kind) || (lineOf(a) < lineOf(b) ? -1 : 1),
      )
      .map(lineOf);
  };
  for (const sql of before) {
    await client.query(sql);
  }
  const changes: string[][] = [];
  let old: string[] = [];
  for (const migration of migrations) {
    if (migration === migrations[0]) {
      await client.query(BOOKKEEPING);
    }
    await client.query('begin');
    await migration.up(client);
    await client.query('commit');
    const now = await lines();
    changes.push([
      ...old.filter((line) => !now.includes(line)).map((line) => `- ${line}`),
      ...now.filter((line) => !old.includes(line)).map((line) => `+ ${line}`),
    ]);
    old = now;
  }
  await client.end();
  return changes;
}

it('migrations/tables.ts is what each migration makes of the tables, with and without Citus', async () => {
  const [url, citus] = await Promise.all([createDatabase(), createDatabase()]);
  const changes = await changesOf(url);
  const onCitus = await changesOf(citus, SEEMING_CITUS);
  await Promise.all([url, citus].map(dropDatabase));
  const blocks = migrations.flatMap(({ name }, i) => {
    const further = onCitus[i]!.filter((line) => !changes[i]!.includes(line));
    return [
      ...(changes[i]!.length === 0 ? [] : [name, ...changes[i]!]),
      ...(further.length === 0 ? [] : [`${name} on citus`, ...further]),
    ];
  });
  const text = blocks.join('\n').replaceAll(/[\\`$]/g, '\\$&');
  const content = read('migrations/tables.ts').replace(/`\n[^]*`;/, () => `\`\n${text}\n\`;`);
  await expectFile('migrations/tables.ts', content);
});

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
      'docs/schema.sql',
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
    await expectFile(
      'docs/grants.sql',
      text.replace(/(^grant .+ to animals;\n)+/m, grants.join('')),
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
    const send = (path: string, init: RequestInit) =>
      fetch(new URL(path, base), { ...init, headers: { ...headers, ...init.headers } });
    await send('/health/ready', {});
    for (const key of [{}, { 'Idempotency-Key': 'k' }] as Record<string, string>[]) {
      expect((await send('/v1/pets', { method: 'POST', body, headers: key })).status).toBe(201);
    }
    for (const { path, method, body: example, success, headers: own } of operations()) {
      const init = { method, headers: own, ...(example && { body: JSON.stringify(example) }) };
      expect((await send(path, init)).status).toBe(success);
    }
    await until('the standby is asked', () => server.log.includes('execute standby-state'));
    await program.end('SIGINT');
    // The last one that it sends.
    await until('all is logged', () => server.log.includes('execute note-key-use'));

    const sent = statementsIn(server.log.slice(since));
    for (const { name, text } of [
      ...PAGES,
      DELETE_OLD_IDEMPOTENCY_KEYS,
      END_SESSIONS,
      EXPIRING_KEYS,
    ]) {
      sent.set(name, text.trim());
    }
    expect([...sent.keys()]).toEqual(expect.arrayContaining(await namesInSource()));
    await expectFile('docs/statements.sql', withStatements(read('docs/statements.sql'), sent));
  });
});

/** The statements that a log shows, by their names, or else by their texts. */
function statementsIn(log: string): Map<string, string> {
  const logged = '(?:statement|execute ([^:]+)): ([^]*?)\\n(?=[^\\t]|$(?![^]))';
  const entries = log.matchAll(new RegExp(`^${APPLICATION_NAME}\\|LOG:  ${logged}`, 'gm'));
  const sent = new Map<string, string>();
  for (const [, name = '<unnamed>', lines] of entries) {
    const text = lines!.replaceAll('\n\t', '\n').trim();
    if (!OF_TYPEORM.test(text)) {
      sent.set(name === '<unnamed>' ? text : name, text);
    }
  }
  return sent;
}

/** The content of statements.sql with the statements of today. What it says of their purposes stays. */
function withStatements(content: string, sent: Map<string, string>): string {
  const blocks = content.trimEnd().split('\n\n');
  const endOfSent = blocks.findIndex((block) => block.startsWith('-- On Citus'));
  const comments = new Map(PAGES.map(({ name, purpose }) => [name, commentOn(name, purpose)]));
  for (const block of blocks.slice(1, endOfSent)) {
    const [comment, ...lines] = block.split('\n');
    const [, name] = / Prepared as (.+)\.$/.exec(comment!) ?? [];
    comments.set(name ?? lines.join('\n').slice(0, -1), comment!);
  }
  const keys = new Set([...comments.keys(), ...sent.keys()]);
  const ofSent = [...keys]
    .filter((key) => sent.has(key))
    .map((key) => `${comments.get(key) ?? commentOn(key, 'Of an operation.')}\n${sent.get(key)};`);
  const onCitus = Object.entries(ON_CITUS).map(([purpose, text]) => `-- ${purpose}\n${text};`);
  return `${[blocks[0], ...ofSent, blocks[endOfSent], ...onCitus].join('\n\n')}\n`;
}

const commentOn = (key: string, purpose: string) =>
  `-- ${purpose}${/\s/.test(key) ? '' : ` Prepared as ${key}.`}`;

/** The names of all statements in src, but for those of Citus. */
async function namesInSource(): Promise<string[]> {
  const files = await readdir(join(PROJECT_ROOT, 'src'), { recursive: true });
  return files
    .filter((file) => file.endsWith('.ts'))
    .flatMap((file) => [...read(join('src', file)).matchAll(/new Statement\(\s*'(.+?)',/g)])
    .map(([, name]) => name!);
}

/** What TypeORM sends when it connects, and around a statement. */
const OF_TYPEORM =
  /^(START TRANSACTION|COMMIT|ROLLBACK|SELECT version\(\)|SHOW server_version|SELECT \* FROM current_(schema|database)\(\))/i;
