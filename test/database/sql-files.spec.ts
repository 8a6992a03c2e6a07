import { spawnSync } from 'node:child_process';
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Client } from 'pg';
import { PROJECT_ROOT } from '../../src/config/project-root.js';
import { APPLICATION_NAME, requiredSettings } from '../../src/database/data-source.js';
import { administer } from '../../src/database/database.js';
import { END_SESSIONS } from '../../src/database/pool.js';
import { withoutIndent } from '../../src/schema/migration-script.js';
import { runMigrations } from '../../src/schema/migrations.js';
import { DELETE_OLD_IDEMPOTENCY_KEYS, newPetArguments } from '../../src/pets/pets.sql.js';
import { fullPet } from '../support/full-pet.js';
import { Project } from '../support/project.js';
import { until } from '../support/until.js';
import { Postgres, systemBinaries } from '../support/postgres.js';

const binaries = await systemBinaries();

/** The arguments for a new pet. */
const NEW_PET = newPetArguments([fullPet(1, { name: 'Rex', status: 'available' })])
  .map(([value]) => `'{${value}}'`)
  .join(', ');

/**
 * What each statement is for, by its name or by how it begins, in the order of docs/statements.sql; and the arguments of a
 * call of which the file has the plan. A statement without them has no plan.
 */
const STATEMENTS: readonly (readonly [statement: string, purpose: string, call?: string])[] = [
  [
    'valid-keys',
    'Which of the API keys that requests came with are valid.',
    `array[encode(sha256('500000'), 'hex')]`,
  ],
  ['note-key-use', 'Notes which API keys were used, to the minute.', `'{500000}'`],
  [
    'pet-pages',
    'listPets: the pages that requests wait for.',
    `'{page}', '{null}', '{500000}', '{20}'`,
  ],
  ['pet-pages-of-status', 'listPets with a status.', `'{page}', '{pending}', '{500000}', '{20}'`],
  ['insert-pets', 'createPet.', NEW_PET],
  [
    'insert-pets-once',
    'createPet with an Idempotency-Key.',
    `'{1}', '{new}', array[encode(sha256('body'), 'hex')], ${NEW_PET}`,
  ],
  [
    'delete-old-idempotency-keys',
    'Deletes Idempotency-Keys older than 24 hours, every ten minutes.',
    '',
  ],
  ['pets-by-id', 'getPet.', `'{500000}'`],
  ['order-pages', 'listOrders.', `'{page}', '{null}', '{500000}', '{20}'`],
  [
    'primary-position',
    'With DATABASE_READ_URL, on the primary before each read: how far its log goes.',
    '',
  ],
  [
    'standby-state',
    'With DATABASE_READ_URL, on the standby before each read: whether it is a copy, and has replayed as much.',
    `'0/0', '1', 'identity'`,
  ],
  ['end-sessions', 'Ends sessions that the service closed because they did not respond.'],
  ['show transaction_read_only', 'Readiness: whether the database takes writes.'],
  [
    "select privilege || ' on '",
    'Readiness: which rights the role lacks.',
    `'{pets,pets_id_seq}', '{select,usage}', '2'`,
  ],
  [
    'select name, (to_jsonb(migrations)',
    'Readiness, and a start: which migrations are applied.',
    '',
  ],
  [
    'select quote_ident(nspname) as found',
    'A start: whether the tables are in another schema than the one that the role uses.',
    '',
  ],
  [
    "select current_setting('server_encoding')",
    'A start: whether the database can hold the tables.',
    '',
  ],
  ['set datestyle', 'A command, and a start before it serves: dates that the driver reads.'],
  [
    "select to_regclass('pg_dist_local_group')",
    'A start: whether the database is Citus, for which other statements replace some of these. Then the start also reads the number of the node from that table.',
    '',
  ],
  [
    'select name, setting, quote_ident',
    'A start: whether sessions have their settings.',
    `'{jit,statement_timeout}'`,
  ],
  ['select pg_backend_pid()', 'A start: whether a pooler shares sessions among connections.', ''],
];

/** A million rows in each table; of the idempotency keys 1,155 are older than 24 hours. */
const MILLION = `
  set session_replication_role = replica;
  insert into pets (name, category_id, status)
  select 'animal ' || n, n % 1000, case when n % 200 = 0 then 'pending' when n % 10 = 0 then 'sold' else 'available' end
    from generate_series(1, 1000000) as n;
  insert into orders (pet_id) select n from generate_series(1, 1000000) as n;
  insert into api_keys (name, hash)
  select 'key ' || n, sha256(n::text::bytea) from generate_series(1, 1000000) as n;
  insert into idempotency_keys (api_key_id, key, body_hash, pet_id, created_at)
  select 1, 'key ' || n, sha256(n::text::bytea), n, now() - n * interval '0.0865 seconds'
    from generate_series(1, 1000000) as n;
  set session_replication_role = default`;

// A developer's machine may have no PostgreSQL of its own; in CI, where these tests must run, systemBinaries() fails then.
(binaries ? describe : describe.skip)('the SQL files of docs', () => {
  let project: Project;
  let server: Postgres;
  beforeAll(async () => {
    project = await Project.create();
    server = await Postgres.start(
      ['log_statement=all', 'log_line_prefix=%a|', 'log_min_error_statement=panic'],
      binaries!,
    );
    await runMigrations(server.url);
  });
  afterAll(async () => {
    await project.remove();
    await server.stop();
  });

  /** With WRITE_SQL_FILES, as `npm run sql-files` sets it, the file is written instead. */
  async function expectFile(name: string, text: string): Promise<void> {
    const file = join(PROJECT_ROOT, 'docs', name);
    if (isWritten) {
      await writeFile(file, text);
    }
    expect(await readFile(file, 'utf8')).toBe(text);
  }

  const isWritten = Boolean(process.env['WRITE_SQL_FILES']);

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
    const listed = STATEMENTS.map(([statement]) => statement);
    expect([...sent.keys()].toSorted()).toEqual(listed.toSorted());
    expect(listed.filter((statement) => !isBeginning(statement)).toSorted()).toEqual(
      (await namesInSource()).toSorted(),
    );
    await writeStatements(sent);
  });

  it('would show a statement that is sent and not listed', async () => {
    const since = server.log.length;
    const client = new Client({ connectionString: server.url, application_name: APPLICATION_NAME });
    await client.connect();
    await client.query('select 1 as unlisted');
    await client.query({ name: 'unlisted', text: 'select\n  $1::int', values: [1] });
    await client.end();
    await until('all is logged', () => server.log.includes('execute unlisted'));
    expect([...statementsIn(server.log.slice(since))]).toEqual([
      ['select 1 as unlisted', 'select 1 as unlisted'],
      ['unlisted', 'select\n  $1::int'],
    ]);
  });

  /** Compares docs/statements.sql, or writes it with new plans. */
  async function writeStatements(sent: ReadonlyMap<string, string>): Promise<void> {
    const file = await readFile(join(PROJECT_ROOT, 'docs/statements.sql'), 'utf8');
    const parts: string[] = [];
    let version = /PostgreSQL \d+\.\d+/.exec(file)?.[0];
    // Without rows first, so that an invalid call fails at once.
    await withSession(server.url, async (session) => {
      for (const [statement, purpose, call] of STATEMENTS) {
        const text = sent.get(statement)!;
        const prepared = isBeginning(statement) ? '' : ` Prepared as ${statement}.`;
        const part = `-- ${purpose}${prepared}\n${withoutIndent(text)};\n`;
        const [, after = ''] = file.split(part);
        const [plan] = /^(--.*\n)*/.exec(after)!;
        if (call !== undefined) {
          await explain(session, statement, text, call);
          expect(isWritten || plan.startsWith(`-- Plan of (${call}):\n--   `)).toBe(true);
        }
        parts.push(part + plan);
      }
    });
    if (isWritten) {
      await administer(server.url, (dataSource) => dataSource.query('create database million'));
      const million = server.url.replace(/postgres$/, 'million');
      await runMigrations(million);
      await withSession(million, async (session) => {
        await session.query(MILLION);
        await session.query('vacuum analyze');
        for (const [i, [statement, , call]] of STATEMENTS.entries()) {
          if (call !== undefined) {
            const plan = await explain(session, statement, sent.get(statement)!, call);
            parts[i] = parts[i]!.replace(/;\n(--.*\n)*$/, () => `;\n${plan}`);
          }
        }
        const { rows } = await session.query('show server_version');
        version = `PostgreSQL ${/^[\d.]+/.exec(rows[0].server_version)![0]}`;
      });
    }
    await expectFile(
      'statements.sql',
      [
        '-- Every statement that the service sends, but for what TypeORM asks PostgreSQL when it connects. Made by npm run',
        '-- sql-files, which also made the plans: by EXPLAIN (ANALYZE, BUFFERS, COSTS OFF, TIMING OFF, SUMMARY OFF) of a call with',
        `-- the arguments in brackets, on ${version} with a million rows in each table, all of them in memory, and with the`,
        "-- settings of the service's sessions. A test checks that the statements are current. It does not make the plans again.\n",
        ...parts,
      ].join('\n'),
    );
  }
});

/** The entries of {@link STATEMENTS} that a log shows, with their texts. One that is not listed has its own name. */
function statementsIn(log: string): Map<string, string> {
  const entries = log.matchAll(
    new RegExp(
      `^${APPLICATION_NAME}\\|LOG:  (?:statement|execute ([^:]+)): ([^]*?)\\n(?=[^\\t]|$(?![^]))`,
      'gm',
    ),
  );
  const sent = new Map<string, string>();
  for (const [, name = '<unnamed>', logged] of entries) {
    const text = logged!.replaceAll('\n\t', '\n');
    const begins = ([statement]: (typeof STATEMENTS)[number]) =>
      isBeginning(statement) && text.startsWith(statement);
    if (name !== '<unnamed>') {
      sent.set(name, text);
    } else if (!ofTypeOrm(text)) {
      sent.set(STATEMENTS.find(begins)?.[0] ?? text, text);
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
  const texts = await Promise.all(
    sources.map((file) => readFile(join(PROJECT_ROOT, 'src', file), 'utf8')),
  );
  return texts.flatMap((text) =>
    [...text.matchAll(/new (?:Page)?Statement\(\s*(.*?),/g)].map(([, name]) => name!.slice(1, -1)),
  );
}

/** Calls `work` with a session like the service's, but without its time-out. */
async function withSession(url: string, work: (session: Client) => Promise<void>): Promise<void> {
  const session = new Client({ connectionString: url });
  await session.connect();
  try {
    for (const [name, value] of Object.entries({ ...requiredSettings(), statement_timeout: '0' })) {
      await session.query(`set ${name} = '${value}'`);
    }
    await work(session);
  } finally {
    await session.end();
  }
}

/** @returns the plan of a call, as comments. The second of two calls finds its pages in memory. Both are undone. */
async function explain(
  session: Client,
  statement: string,
  text: string,
  call: string,
): Promise<string> {
  const explained = `explain (analyze, buffers, costs off, timing off, summary off) execute call ${call && `(${call})`}`;
  let lines: string[] = [];
  try {
    await session.query(`prepare call as ${text}`);
    for (let time = 1; time <= 2; time += 1) {
      await session.query('begin');
      const { rows } = await session.query({ text: explained, rowMode: 'array' });
      await session.query('rollback');
      lines = rows.map(([line]) => line);
    }
    await session.query('deallocate call');
  } catch (error) {
    throw new Error(`${statement} (${call}): ${(error as Error).message}`, { cause: error });
  }
  const planning = lines.indexOf('Planning:');
  const plan = planning === -1 ? lines : lines.toSpliced(planning, 2);
  return [`Plan of (${call}):`, ...plan.map((line) => `  ${line}`)]
    .map((line) => `-- ${line}\n`)
    .join('');
}

/** What TypeORM asks when it connects. */
function ofTypeOrm(statement: string): boolean {
  return /^(SELECT version\(\)|SHOW server_version|SELECT \* FROM current_(schema|database)\(\))/i.test(
    statement,
  );
}
