import { spawnSync } from 'node:child_process';
import { Client } from 'pg';
import { MIGRATION_NAMES, migrations } from '../../migrations/index.js';
import type { Migration } from '../../migrations/migration.js';
import { readEnvironment } from '../../src/config/environment.js';
import { requireMigrated, runMigrations } from '../../src/schema/migrations.js';
import { ask, query } from '../support/ask.js';
import { catalog } from '../support/catalog.js';
import { runHere } from '../support/command.js';
import { describeWith, itWith } from '../support/describe-with.js';
import { Project } from '../support/project.js';
import { CREATE_ORDERS, revertToOrders, UP_TO_ORDERS } from '../support/revert-to-orders.js';
import { onServer, revertLast } from '../support/database.js';
import { until } from '../support/until.js';

const project = Project.ofTests();
const newDatabase = () => project.createDatabase();
const newMigratedDatabase = () => project.createMigratedDatabase();
const nameOf = (url: string) => new URL(url).pathname.slice(1);
const alterDatabase = (url: string, how: string) =>
  onServer(`alter database ${nameOf(url)} ${how}`);
const state = async (url: string) => ({
  schema: await catalog(url),
  rows: await query(url, 'select * from migrations order by id'),
});
const applied = async (url: string) => (await state(url)).rows.map(({ name }) => name);

const add = (category: number) =>
  `insert into pets (name, category_id) values ('Rex', ${category})`;

/** Runs a script. @returns psql's exit code. */
const psql = (url: string, script: string) =>
  spawnSync('psql', ['--no-psqlrc', '--quiet', url], { input: script }).status;

/** Prints the script, while the database takes no writes. */
async function print(DATABASE_URL: string, command = 'migrate sql'): Promise<string> {
  await alterDatabase(DATABASE_URL, 'set default_transaction_read_only = on');
  const outcome = await runHere(command, { DATABASE_URL });
  expect(outcome).toMatchObject({ code: 0, stderr: expect.stringContaining(nameOf(DATABASE_URL)) });
  await alterDatabase(DATABASE_URL, 'reset default_transaction_read_only');
  return outcome.stdout;
}

describe('the migrations', () => {
  const shown = (applied: number) =>
    MIGRATION_NAMES.map((name, i) => `[${i < applied ? 'X' : ' '}] ${name}`).join('\n');

  async function migrate(command: string, url: string) {
    const outcome = await runHere(`migrate ${command}`, { DATABASE_URL: url });
    const { host, username } = new URL(url);
    const where = `Database ${nameOf(url)} at ${host}, role ${username}, schema public.\n`;
    expect(outcome.stderr.slice(0, where.length)).toBe(where);
    const stdout = outcome.stdout.trimEnd();
    return { code: outcome.code, stdout, stderr: outcome.stderr.slice(where.length) };
  }

  it('are shown, run and, with --yes only, reverted by the commands, which say where and what, and then what they did', async () => {
    const url = await newDatabase();
    const all = MIGRATION_NAMES.join(', ');
    for (const [command, stdout, stderr] of [
      ['revert', 'Nothing is applied.', ''],
      ['show', shown(0), ''],
      ['run', `Applied ${all}.`, `Pending: ${all}.\n`],
      ['run', 'Nothing is pending.', 'Pending: none.\n'],
      ['show', shown(MIGRATION_NAMES.length), ''],
    ] as const) {
      expect(await migrate(command, url)).toEqual({ code: 0, stdout, stderr });
    }
    await revertToOrders(url);
    await query(
      url,
      `insert into pets (name, category_id) values ('Rex', 1)`,
      'insert into orders (pet_id) values (1), (1)',
    );
    const losses =
      `Reverts ${CREATE_ORDERS}. This permanently deletes:\n` +
      '  the table orders (rows: 2) and the rights granted on it\n' +
      'A running service still serves pets.\n';
    const refusal = `${losses}Nothing was reverted. To revert it, add --yes.\n`;
    expect(await migrate('revert', url)).toEqual({ code: 2, stdout: '', stderr: refusal });
    expect((await migrate('show', url)).stdout).toBe(shown(UP_TO_ORDERS.length));
    const stdout = `Reverted ${CREATE_ORDERS}.`;
    expect(await migrate('revert --yes', url)).toEqual({ code: 0, stdout, stderr: losses });
    expect((await migrate('show', url)).stdout).toBe(shown(UP_TO_ORDERS.length - 1));
  });

  it('are shown, those of later versions too', async () => {
    const url = await newMigratedDatabase();
    const last = MIGRATION_NAMES.at(-1)!;
    await query(url, `update migrations set name = 'Later' where name = '${last}'`);
    const lines = MIGRATION_NAMES.slice(0, -1).map((name) => `[X] ${name}\n`);
    const stdout = `${lines.join('')}[X] Later\tnot of this version\n[ ] ${last}`;
    expect(await migrate('show', url)).toMatchObject({ code: 0, stdout });
    expect((await migrate('show --check', url)).code).toBe(1);
    await query(url, `insert into migrations (timestamp, name) values (1, '${last}')`);
    expect((await migrate('show --check', url)).code).toBe(0);
  });

  it('are not made a second time in another schema, by whatever command', async () => {
    const url = await newMigratedDatabase();
    const role = `${nameOf(url)}_service`;
    await query(
      url,
      `create schema other; grant all on schema other to public; create role ${role} login password 'sekrit';
       grant select on pets to ${role}; alter role ${role} set search_path = other`,
    );
    const DATABASE_URL = Object.assign(new URL(url), { username: role, password: 'sekrit' }).href;
    const notFirst =
      /The tables are in the schema public, which is not first in the search_path of the role/;
    const refused = { code: 1, stdout: '', stderr: expect.stringMatching(notFirst) };
    for (const command of ['run', 'revert', 'sql']) {
      expect(await runHere(`migrate ${command}`, { DATABASE_URL })).toEqual(refused);
    }
    const environment = readEnvironment({ DATABASE_URL, MIGRATE_ON_START: 'true' });
    const start = () => requireMigrated(DATABASE_URL, environment);
    await expect(start()).rejects.toThrow(notFirst);
    const { code, stdout } = await runHere('check', { DATABASE_URL });
    expect([code, stdout]).toEqual([1, expect.not.stringContaining('pending')]);
    expect(stdout).toMatch(/, schema other\n[^]*\nFAIL {2}schema: The tables are in /);
    await query(url, `revoke usage on schema public from public`);
    await expect(start()).rejects.toThrow(`grant usage on schema public to ${role};`);
    const tables = await query(url, `select schemaname from pg_tables where tablename = 'pets'`);
    expect(tables).toEqual([{ schemaname: 'public' }]);
    await query(url, `drop owned by ${role}`, `drop role ${role}`);
  });

  it('are not applied by a process that waits for those of another when a signal stops it, and that logs it', async () => {
    const url = await newDatabase();
    const holder = new Client({ connectionString: url });
    await holder.connect();
    // Other versions of the service take the same one.
    await holder.query('select pg_advisory_lock(7236102511)');
    const waiting = project.spawn('serve', [], { DATABASE_URL: url, MIGRATE_ON_START: 'true' });
    await waiting.says(/^Another process migrates/m, 'stderr');
    const { stdout, ...outcome } = await waiting.end('SIGHUP');
    const stderr = 'Another process migrates this database; this one waits for it.\n';
    expect(outcome).toEqual({ code: 129, stderr });
    expect(JSON.parse(stdout)).toMatchObject({ level: 'info', msg: 'stopped', reason: 'SIGHUP' });
    await holder.end();
    expect((await migrate('show', url)).stdout).toBe(shown(0));
  });

  it('are reverted after what that deletes was told: nothing, or the values of a column', async () => {
    const url = await newMigratedDatabase();
    const nothing = expect.stringContaining(' This deletes no data.\n');
    expect(await migrate('revert', url)).toMatchObject({ code: 2, stderr: nothing });
    const NOTED: Migration = {
      name: 'AddNote1799999999999',
      purpose: 'Adds notes.',
      locks: { up: { pets: 'ACCESS EXCLUSIVE' }, down: { pets: 'ACCESS EXCLUSIVE' } },
      rewrites: { up: ['pets', 'orders'] },
      drops: ['pets.note'],
      up: async (session) => void session.query('alter table pets add note text'),
      down: async (session) => void session.query('alter table pets drop note'),
    };
    (migrations as Migration[]).push(NOTED);
    MIGRATION_NAMES.push(NOTED.name);
    try {
      expect(await print(url)).toContain('\n-- Rewrites all rows of: pets, orders.\n-- A revert');
      expect(await runMigrations(url)).toEqual([NOTED.name]);
      const rows = await query(url, 'select timestamp from migrations order by id');
      expect(rows.at(-1)).toEqual({ timestamp: '1799999999999' });
      await query(url, `insert into pets (name, category_id, note) values ('Rex', 1, 'x')`, add(1));
      const values = expect.stringContaining(
        `This permanently deletes:\n  the column pets.note (values: 1)\nA running service is then not ready, and fails.\n`,
      );
      expect(await migrate('revert', url)).toMatchObject({ code: 2, stderr: values });
    } finally {
      (migrations as Migration[]).pop();
      MIGRATION_NAMES.pop();
    }
  });

  it('stay applied if a later one fails, and both are named', async () => {
    const url = await newDatabase();
    await query(url, 'create table orders ()');
    const stderr = expect.stringContaining(
      `\nApplied ${UP_TO_ORDERS.slice(0, -1).join(', ')}. ${CREATE_ORDERS} failed: relation "orders" already exists\n`,
    );
    expect(await migrate('run', url)).toEqual({ code: 1, stdout: '', stderr });
    expect((await migrate('show', url)).stdout).toBe(shown(UP_TO_ORDERS.length - 1));
  });
});

describeWith('psql')('the script of migrate sql, run by psql', () => {
  it('says what each migration does, leaves out those that are applied, and changes nothing once others are or a table is locked', async () => {
    const url = await newMigratedDatabase();
    await revertToOrders(url);
    await revertLast(url);
    const script = await print(url);
    expect(script).not.toContain('create table pets');
    const head = [
      `-- 1 of ${migrations.length - 3}: CreateOrders1795222800000`,
      "-- Purpose: Creates orders, which the store's own systems write.",
      '-- Locks until the end: SHARE ROW EXCLUSIVE on pets.',
      '-- A revert drops, with all data and grants: orders.\nbegin ',
    ];
    expect(script).toContain(head.join('\n'));
    const before = await state(url);
    const holder = new Client({ connectionString: url });
    await holder.connect();
    await holder.query('begin; lock table pets in access share mode; lock table pets');
    expect(psql(url, script)).toBe(3);
    await holder.end();
    await query(
      url,
      `insert into migrations (timestamp, name) values (1, '${MIGRATION_NAMES[3]}')`,
    );
    expect(psql(url, script)).toBe(3);
    await query(url, 'delete from migrations where timestamp = 1');
    expect(await state(url)).toEqual(before);
  });

  it('says of each revert which locks it takes and what it drops', async () => {
    const url = await newMigratedDatabase();
    const told: string[] = [];
    for (const name of MIGRATION_NAMES.toReversed()) {
      const script = await print(url, 'migrate sql --revert');
      const [, head] = script.split(`-- Down migration of ${name}\n`);
      told.push(/^(?:-- .+\n)+/.exec(head!)![0].replace(/^-- Purpose: .+\n/, ''));
      await revertLast(url);
    }
    expect(told.slice(-UP_TO_ORDERS.length)).toEqual(
      [
        ['ACCESS EXCLUSIVE on orders, ACCESS EXCLUSIVE on pets', 'orders'],
        [
          'ACCESS EXCLUSIVE on idempotency_keys, ACCESS EXCLUSIVE on api_keys, ACCESS EXCLUSIVE on pets',
          'idempotency_keys',
        ],
        ['ACCESS EXCLUSIVE on api_keys', 'api_keys'],
        ['ACCESS EXCLUSIVE on pets', 'pets'],
      ].map(
        ([locks, dropped]) =>
          `-- Locks until the end: ${locks}.\n-- Drops, with all data and grants: ${dropped}.\n`,
      ),
    );
    expect(told.slice(0, -UP_TO_ORDERS.length).join('')).toContain(
      'until the end: SHARE ROW EXCLUSIVE on idempotency_keys, SHARE ROW EXCLUSIVE on api_keys.\n',
    );
    const distribution = MIGRATION_NAMES.findIndex((name) => name.startsWith('DistributeTables'));
    const none = 'ocks until the end: none on tables that exist.\n';
    expect(told.toReversed()[distribution]).toBe(
      `-- L${none}-- On Citus, l${none}-- Drops, with all data and grants: nothing.\n`,
    );
  });

  it('changes nothing if another role runs it than the owner of the tables, or in another schema', async () => {
    const url = await newDatabase();
    const owner = `${nameOf(url)}_owner`;
    await query(
      url,
      `create role ${owner} login password 'x'; grant create on schema public to ${owner}`,
    );
    const asOwner = Object.assign(new URL(url), { username: owner, password: 'x' }).href;
    const owners = async () => {
      const tables = `select tableowner from pg_tables where schemaname = 'public'`;
      return [...new Set((await query(url, tables)).map(({ tableowner }) => tableowner))];
    };
    // Without tables, of the one that printed it.
    const first = (await runHere('migrate sql', { DATABASE_URL: asOwner })).stdout;
    expect([psql(url, first), await owners()]).toEqual([3, []]);
    expect([psql(asOwner, first), await owners()]).toEqual([0, [owner]]);
    await revertLast(asOwner);
    const next = await print(url);
    expect(next).toContain(`Run this script as the role ${owner}, with the schema public.`);
    expect(psql(url, next)).toBe(3);
    expect(psql(url, `create schema elsewhere; set search_path = elsewhere; ${next}`)).toBe(3);
    // An owner that cannot log in.
    const member = `${owner}_member`;
    await query(url, `alter role ${owner} nologin`);
    expect(await print(url)).toContain(`the role ${owner}, with the schema public.'`);
    await query(url, `create role ${member} login password 'x' in role ${owner}`);
    const last = await print(url);
    expect(last).toContain(
      `schema public. Log in as ${member}, and first run: set role ${owner};'`,
    );
    const asMember = Object.assign(new URL(url), { username: member, password: 'x' }).href;
    expect(psql(asMember, last)).toBe(3);
    expect(psql(asMember, `set role ${owner};\n${last}`)).toBe(0);
    expect(await owners()).toEqual([owner]);
    await query(url, `drop owned by ${owner}`, `drop role ${owner}, ${member}`);
  });
});

/** After the project's own: one that builds an index concurrently, one in a transaction, and one that drops an index. */
const LATER: Migration[] = [
  {
    name: 'IndexCategories1799999999998',
    purpose: 'Makes sure of one animal a category.',
    locks: { up: {}, down: {} },
    drops: [],
    transaction: false,
    up: async (session) => {
      // For others to see.
      const limits = `'limits ' || current_setting('lock_timeout') || ' ' || current_setting('statement_timeout')`;
      await session.query(`select set_config('application_name', ${limits}, false)`);
      await session.query('create unique index concurrently one_pet on pets (category_id)');
    },
    down: async (session) => void session.query('drop index concurrently if exists one_pet'),
  },
  {
    name: 'CreateToys1799999999999',
    purpose: 'Creates toys.',
    locks: { up: {}, down: { toys: 'ACCESS EXCLUSIVE' } },
    drops: ['toys'],
    up: async (session) =>
      void session.query(
        `create table toys as
           select current_setting('transaction_isolation') as isolation, current_setting('lock_timeout') as lock,
                  current_setting('statement_timeout') as statement`,
      ),
    down: async (session) => void session.query('drop table toys'),
  },
  {
    name: 'DropIndex1800000000000',
    purpose: 'Drops an index that no statement uses.',
    locks: { up: {}, down: {} },
    drops: [],
    transaction: false,
    up: async (session) => void session.query('drop index concurrently if exists one_pet'),
    down: async (session) =>
      void session.query('create unique index concurrently one_pet on pets (category_id)'),
  },
];
const NAMES = LATER.map(({ name }) => name);
const [INDEX, TABLE] = NAMES as [string, string];
/** Those of the one in a transaction. */
const SETTINGS = { isolation: 'read committed', lock: '300ms', statement: '0' };

describe('a migration that builds or drops an index concurrently', () => {
  const own = [...MIGRATION_NAMES];
  beforeAll(() => {
    (migrations as Migration[]).push(...LATER);
    MIGRATION_NAMES.push(...NAMES);
  });
  afterAll(() => {
    (migrations as Migration[]).splice(-NAMES.length);
    MIGRATION_NAMES.splice(-NAMES.length);
  });

  itWith('psql')(
    'does by the script of migrate sql, as all others do, what it does by migrate run and migrate revert, up, down and up again, whatever the settings of the database',
    async () => {
      const [byScript, byCommand] = [await newDatabase(), await newDatabase()];
      const empty = await catalog(byCommand);
      for (const url of [byScript, byCommand]) {
        await alterDatabase(url, `set statement_timeout = '1min'`);
        await alterDatabase(url, `set default_transaction_isolation = 'serializable'`);
      }
      const script = await print(byScript);
      const [, between] = script.split(`: ${INDEX}\n`);
      expect(between!.split(`: ${TABLE}\n`)[0]).not.toContain('\nbegin ');
      expect(psql(byScript, script)).toBe(0);
      expect(await runMigrations(byCommand)).toEqual(MIGRATION_NAMES);
      const migrated = await state(byCommand);
      expect(migrated.schema['columns']!.length).toBeGreaterThan(10);
      expect(await state(byScript)).toEqual(migrated);
      for (const url of [byScript, byCommand]) {
        expect(await query(url, 'select * from toys')).toEqual([SETTINGS]);
      }
      expect(await print(byScript)).toBe('-- No migration is pending.\n');
      for (const name of MIGRATION_NAMES.toReversed()) {
        const revert = await print(byScript, 'migrate sql --revert');
        expect(revert).toContain(`Down migration of ${name}`);
        expect(psql(byScript, revert)).toBe(0);
        expect(await revertLast(byCommand)).toBe(name);
        expect(await state(byScript)).toEqual(await state(byCommand));
      }
      expect(await print(byScript, 'migrate sql --revert')).toBe('-- No migration is applied.\n');
      expect(await catalog(byCommand)).toEqual(empty);
      await runMigrations(byCommand);
      expect(await catalog(byCommand)).toEqual(migrated.schema);
    },
  );

  const isValid = async (url: string) => {
    const sql = `select indisvalid from pg_index where indexrelid = to_regclass('one_pet')`;
    return (await ask(url, sql))?.indisvalid;
  };

  it('waits for transactions and blocks no writes; two commands at once run it once, beside others, whatever the settings of the database', async () => {
    const url = await newMigratedDatabase();
    // Too short for an index.
    await alterDatabase(url, `set statement_timeout = '300ms'`);
    await alterDatabase(url, `set default_transaction_isolation = 'serializable'`);
    const holder = new Client({ connectionString: url, application_name: 'report' });
    await holder.connect();
    const told = jest.spyOn(console, 'error').mockImplementation(() => {});
    const tells = (pattern: RegExp) =>
      until(`it says ${pattern}`, () => told.mock.calls.some(([text]) => pattern.test(text)));
    await holder.query(`set statement_timeout = 0; begin; ${add(1)}`);
    const runs = [runMigrations(url), runMigrations(url)];
    await tells(/^Waits for pid \d+, report, idle in transaction/);
    await tells(/^Another process migrates this database/);
    await query(url, add(2));
    const limits = `select application_name as limits from pg_stat_activity
      where wait_event_type = 'Lock' and datname = current_database()`;
    expect(await query(url, limits)).toEqual([{ limits: 'limits 10min 0' }]);
    await holder.query('commit');
    // Each may apply some of them.
    expect((await Promise.all(runs)).flat().toSorted()).toEqual(NAMES.toSorted());
    told.mockRestore();
    await holder.end();
    expect([await applied(url), await isValid(url)]).toEqual([[...own, ...NAMES], undefined]);
    expect(await query(url, 'select * from toys')).toEqual([SETTINGS]);
  });

  it('is not recorded if its rows violate it; the next run drops what was left, and builds it again', async () => {
    const url = await newMigratedDatabase();
    await query(url, add(1), add(1));
    await expect(runMigrations(url)).rejects.toThrow('could not create unique index');
    expect([await applied(url), await isValid(url)]).toEqual([own, false]);
    await query(url, 'update pets set category_id = id');
    expect(await runMigrations(url)).toEqual(NAMES);
    expect(await isValid(url)).toBe(undefined);
    // Its down migration builds the index again, also if an earlier attempt has failed.
    await query(url, 'update pets set category_id = 1');
    await expect(revertLast(url)).rejects.toThrow('could not create unique index');
    expect(await isValid(url)).toBe(false);
    await query(url, 'update pets set category_id = id');
    expect(await revertLast(url)).toBe(NAMES.at(-1));
    expect(await isValid(url)).toBe(true);
  });

  it('shows on a terminal which phase the build is in, and how far', async () => {
    const url = await newMigratedDatabase();
    const hold = 'pg_advisory_xact_lock(0, 0)';
    await query(
      url,
      `create function held(id bigint) returns bigint immutable language plpgsql as
         $$ begin if id = 500 then perform ${hold}; end if; return id; end $$`,
      `insert into pets (name, category_id) select repeat('x', 255), n from generate_series(1, 1000) as n`,
    );
    const HELD: Migration = {
      ...LATER[0]!,
      name: 'IndexHeld1800000000001',
      up: async (session) =>
        void session.query('create index concurrently held on pets (held(id))'),
    };
    (migrations as Migration[]).push(HELD);
    Object.defineProperty(process.stderr, 'isTTY', { value: true, configurable: true });
    let shown = '';
    const write = jest.spyOn(process.stderr, 'write').mockImplementation((text) => {
      shown += String(text);
      return true;
    });
    const told = jest.spyOn(console, 'error').mockImplementation(() => {});
    const holder = new Client({ connectionString: url });
    await holder.connect();
    try {
      await holder.query(`begin; select ${hold}`);
      const running = runMigrations(url);
      const { phase, done, total } = await until('the build is held', () =>
        ask(
          url,
          `select phase, blocks_done as done, blocks_total as total
             from pg_stat_progress_create_index join pg_locks using (pid)
            where locktype = 'advisory' and not granted and datname = current_database()`,
        ),
      );
      expect(Number(done)).toBeGreaterThan(1);
      expect(Number(done)).toBeLessThan(Number(total) - 1);
      const line = new RegExp(`${phase} [=-]+ \\d+ % \\| ${done} of ${total} \\| \\d+/s \\| `);
      await until(`it says ${line}`, () => line.test(shown));
      await holder.query('commit');
      expect(await running).toEqual([...NAMES, HELD.name]);
    } finally {
      Reflect.deleteProperty(process.stderr, 'isTTY');
      [write, told].forEach((spy) => spy.mockRestore());
      (migrations as Migration[]).pop();
      await holder.end();
    }
  });
});
