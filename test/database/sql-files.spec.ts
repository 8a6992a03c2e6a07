import { spawnSync } from 'node:child_process';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { PROJECT_ROOT } from '../../src/config/project-root.js';
import { APPLICATION_NAME } from '../../src/database/data-source.js';
import { withoutIndent } from '../../src/database/migration-script.js';
import { runMigrations } from '../../src/database/migrations.js';
import { DELETE_OLD_IDEMPOTENCY_KEYS } from '../../src/pets/idempotent-creation.sql.js';
import { Project } from '../process/project.js';
import { until } from '../process/until.js';
import { systemBinaries, SystemPostgres } from './system-postgres.js';

const binaries = await systemBinaries();

/** What each statement is for, by its name or by how it begins, in the order of docs/statements.sql. */
const PURPOSES: readonly (readonly [statement: string, purpose: string])[] = [
  ['valid-keys', 'Which of the API keys that requests came with are valid.'],
  ['note-key-use', 'Notes which API keys were used, to the minute.'],
  ['pet-pages', 'listPets: the pages that requests wait for.'],
  ['pet-pages-of-status', 'listPets with a status.'],
  ['insert-pets', 'createPet.'],
  ['insert-pets-once', 'createPet with an Idempotency-Key.'],
  ['pets-by-idempotency-key', 'createPet with an Idempotency-Key that stands for an animal.'],
  [
    'delete-old-idempotency-keys',
    'Deletes Idempotency-Keys older than 24 hours, every ten minutes.',
  ],
  ['SELECT "pet"."id"', 'getPet.'],
  ['order-pages', 'listOrders.'],
  ['show transaction_read_only', 'Readiness: whether the database takes writes.'],
  ["select privilege || ' on '", 'Readiness: which rights the role lacks.'],
  ['select name from migrations', 'Readiness, and a start: which migrations are applied.'],
  [
    "select current_setting('server_encoding')",
    'A start: whether the database can hold the tables.',
  ],
  ['set datestyle', 'A command, and a start before it serves: dates that the driver reads.'],
  ['select name, setting, quote_ident', 'A start: whether sessions have their settings.'],
];

// A developer's machine may have no PostgreSQL of its own; in CI, where these tests must run, systemBinaries() fails then.
(binaries ? describe : describe.skip)('the SQL files of docs', () => {
  let project: Project;
  let server: SystemPostgres;
  beforeAll(async () => {
    project = await Project.create();
    server = await SystemPostgres.start(binaries!, [
      'log_statement=all',
      'log_line_prefix=%a|',
      'log_min_error_statement=panic',
    ]);
    await runMigrations(server.url);
  });
  afterAll(async () => {
    await project.remove();
    await server.stop();
  });

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

  it('statements.sql has every statement that the service sends', async () => {
    const DATABASE_URL = server.url;
    const created = await project.run('keys', ['create', '--name', 'x'], { DATABASE_URL });
    const headers = {
      Authorization: `Bearer ${created.stdout.trim()}`,
      'Content-Type': 'application/json',
    };
    const since = server.log.length;
    const { base, program } = await project.serve({ DATABASE_URL });
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
      const answer = await fetch(new URL(path, base), { headers, ...init });
      expect([path, answer.status]).toEqual([path, init === undefined ? 200 : 201]);
    }
    await program.end('SIGINT');
    // The last one that it sends.
    await until('all is logged', () => server.log.includes('execute note-key-use'));

    const sent = new Map<string, string>([
      [DELETE_OLD_IDEMPOTENCY_KEYS.name, DELETE_OLD_IDEMPOTENCY_KEYS.text],
    ]);
    const entries = server.log
      .slice(since)
      .matchAll(
        new RegExp(
          `^${APPLICATION_NAME}\\|LOG:  (?:statement|execute ([^:]+)): ([^]*?)\\n(?=[^\\t]|$(?![^]))`,
          'gm',
        ),
      );
    for (const [, name = '<unnamed>', logged] of entries) {
      const text = logged!.replaceAll('\n\t', '\n');
      sent.set(name === '<unnamed>' ? text : name, text);
    }
    const of = (statement: string) =>
      [...sent].filter(([name]) =>
        /[ "]/.test(statement) ? name.startsWith(statement) : name === statement,
      );
    const known = PURPOSES.flatMap(([statement]) => of(statement).map(([name]) => name));
    const own = [...sent.keys()].filter((name) => !ofTypeOrm(name));
    expect(own.toSorted()).toEqual(known.toSorted());
    const parts = PURPOSES.map(([statement, purpose]) => {
      const [[, text]] = of(statement) as [[string, string]];
      const name = statement.includes(' ') ? '' : ` Prepared as ${statement}.`;
      return `-- ${purpose}${name}\n${withoutIndent(text)};\n`;
    });
    await expectFile(
      'statements.sql',
      [
        '-- Every statement that the service sends, but for what TypeORM asks PostgreSQL when it connects.',
        '-- Made by npm run sql-files.\n',
        ...parts,
      ].join('\n'),
    );
  });
});

/** What TypeORM asks when it connects. */
function ofTypeOrm(statement: string): boolean {
  return /^(SELECT version\(\)|SHOW server_version|SELECT \* FROM current_(schema|database)\(\))/i.test(
    statement,
  );
}
