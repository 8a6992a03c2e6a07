import type { DataSource } from 'typeorm';
import { Client } from 'pg';
import { administer } from '../../src/database/connect.js';
import { runMigrations } from '../../src/schema/migrations.js';
import { DATABASE_LIMITS } from '../../src/database/limits.js';
import { stateOf } from '../../src/schema/schema-state.js';
import { compareTables } from '../../src/schema/tables.js';
import { MIGRATION_NAMES } from '../../migrations/index.js';
import { query } from '../support/ask.js';
import { catalog } from '../support/catalog.js';
import { runHere } from '../support/command.js';
import {
  createDatabase,
  createMigratedDatabase,
  dropDatabase,
  revertLast,
} from '../support/database.js';
import { createGrantedRole, dropGrantedRole } from '../support/granted-role.js';
import { SEEMING_CITUS } from '../support/seeming-citus.js';
import { startService } from '../support/service.js';
import { until } from '../support/until.js';

/** What was done to the tables, how the finding begins, and how many differences there are. */
type Change = [sql: string, said: string, count?: number];

const BREAKING: Change[] = [
  [
    'alter table pets drop constraint pets_pkey cascade',
    'pets: key PRIMARY KEY (id) is missing',
    3,
  ],
  [
    'alter table api_keys drop constraint api_keys_hash_key',
    'api_keys: key UNIQUE (hash) is missing',
  ],
  [
    'alter table idempotency_keys drop constraint idempotency_keys_pkey',
    'idempotency_keys: key PRIMARY KEY (api_key_id, key) is missing',
  ],
  [
    `update pg_index set indisvalid = false where indexrelid = 'idempotency_keys_pkey'::regclass`,
    'idempotency_keys: key PRIMARY KEY (api_key_id, key) is invalid',
  ],
  [
    `alter table idempotency_keys drop constraint idempotency_keys_pkey,
       add primary key (api_key_id, key) deferrable initially deferred`,
    'idempotency_keys: key PRIMARY KEY (api_key_id, key) is invalid',
  ],
  [
    'alter table idempotency_keys alter column created_at drop default',
    'idempotency_keys.created_at: default now() is missing',
  ],
  [
    `alter table pets drop constraint pets_status_check, alter column status drop default,
       alter column status type bytea using ''`,
    'pets.status: column text is bytea',
    3,
  ],
  [
    'alter table pets alter column id set generated always',
    'pets.id: identity by default is always',
  ],
  [
    'alter table idempotency_keys drop column body_hash',
    'idempotency_keys.body_hash: column bytea is missing',
    2,
  ],
  [
    'create rule noted as on insert to pets do also notify pets',
    'pets: rule noted keeps rows from being added',
  ],
  [
    'create rule kept as on update to idempotency_keys do instead nothing',
    'idempotency_keys: rule kept keeps rows from being added',
  ],
  ['alter table pets add owner text not null', 'pets.owner: required keeps rows from being added'],
  [
    `alter table pets drop column name;
     alter table pets add column name varchar(255) not null generated always as ('x') stored`,
    `pets.name: generated 'x'::character varying keeps rows from being added`,
    2,
  ],
];

const HARMLESS: Change[] = [
  ['drop index pets_status_id_idx', 'pets: index btree (status, id) is missing'],
  [
    `update pg_index set indisvalid = false where indexrelid = 'idempotency_keys_pet_id_idx'::regclass`,
    'idempotency_keys: index btree (pet_id) is invalid',
  ],
  [
    `drop index idempotency_keys_created_at_idx;
     create index on idempotency_keys (created_at desc) where pet_id > 0`,
    'idempotency_keys: index btree (created_at) is missing',
  ],
  [
    'alter table pets drop constraint pets_status_check',
    'pets: check CHECK ((status = ANY (ARRAY[',
  ],
  ['alter table pets alter column name drop not null', 'pets.name: not null is missing'],
  [
    `alter table pets alter column name drop not null; do $$ begin
       if current_setting('server_version_num')::int >= 180000 then
         execute 'alter table pets add not null name not valid';
       end if;
     end $$`,
    'pets.name: not null is missing',
  ],
  [
    'alter table pets alter column status drop default',
    `pets.status: default 'available'::text is`,
  ],
  [
    `alter table pets alter column status set default 'sold'`,
    `pets.status: default 'available'::text is 'sold'::text`,
  ],
  [
    'alter table pets alter column category_id type integer',
    'pets.category_id: column bigint is integer',
  ],
  [
    'alter table pets alter column name type varchar(300)',
    'pets.name: column character varying(255) is character varying(300)',
  ],
  [
    'alter table idempotency_keys alter column key type varchar(255) collate "POSIX"',
    'idempotency_keys.key: column character varying(255) is character varying(255) collate "POSIX"',
  ],
  ['alter table orders alter column id drop identity', 'orders.id: identity always is missing'],
  [
    'alter table orders add gate text not null',
    'orders.gate: required keeps rows from being added',
  ],
  [
    'create rule noted as on insert to orders do also notify orders',
    'orders: rule noted keeps rows from being added',
  ],
  [
    `alter table orders drop constraint orders_status_check, alter column status drop default,
       alter column status type bytea using ''`,
    'orders.status: column text is bytea',
    3,
  ],
  [
    'alter table api_keys alter column created_at type timestamp',
    'api_keys.created_at: column timestamp with time zone is timestamp without time zone',
  ],
  [
    'alter table idempotency_keys alter column api_key_id type numeric',
    'idempotency_keys.api_key_id: column bigint is numeric',
  ],
  ['alter table orders drop constraint orders_pkey', 'orders: key PRIMARY KEY (id) is missing'],
  [
    'alter table orders disable trigger all',
    'orders: foreign key FOREIGN KEY (pet_id) REFERENCES p',
  ],
  [
    `alter table orders drop constraint orders_pet_id_fkey, add foreign key (pet_id) references pets`,
    'orders: foreign key FOREIGN KEY (pet_id) REFERENCES pets(id) ON DELETE RESTRICT is missing',
  ],
  [
    `alter table orders drop constraint orders_status_check,
       add check (status in ('placed', 'approved', 'delivered')) not valid`,
    'orders: check CHECK ((status = ANY (ARRAY[',
  ],
  ['alter table idempotency_keys set unlogged', 'idempotency_keys: table logged is unlogged'],
  ['alter table migrations alter timestamp drop not null', 'migrations."timestamp": not null is m'],
];

/** What a careful DBA adds, or replaces in use. */
const ADDITIONS = [
  'create index on pets (category_id) include (name)',
  `alter table pets add chip text default 'none' not null, add owner text, add seen timestamptz default now()`,
  'create publication cdc for all tables',
  'create statistics on status, category_id from pets',
  `comment on table pets is 'ours'; alter table pets set (fillfactor = 90); alter table pets alter name set storage external`,
  'alter table pets alter column status set statistics 1000; alter table pets replica identity full',
  'create view some_pets as select id, name from pets; grant select on pets to public',
  `create unique index pets_new on pets (id);
   alter table pets drop constraint pets_pkey cascade, add constraint pets_new primary key using index pets_new;
   alter table orders add constraint of_pet foreign key (pet_id) references pets on delete restrict;
   alter table idempotency_keys add foreign key (pet_id) references pets on delete cascade`,
  'alter index pets_status_id_idx rename to pets_by_status; cluster pets using pets_by_status',
  'alter table idempotency_keys set (autovacuum_vacuum_scale_factor = 0.05)',
  `set timezone = 'Asia/Kolkata'; alter table orders drop constraint orders_placed_at_check,
     add constraint years check (placed_at >= '0001-01-01T00:00:00Z' and placed_at < '10000-01-01T00:00:00Z')`,
  'alter table pets add constraint named_not_null check (name is not null) not valid',
  `create function noted() returns trigger language plpgsql as $$ begin return new; end $$;
   create trigger audit before insert on pets for each row execute function noted()`,
  // Whoever disabled these has no use for them.
  `create trigger off before insert on pets for each row execute function noted(); alter table pets disable trigger off;
   create rule off as on insert to pets do also notify pets; alter table pets disable rule off`,
  'alter table pets add upper_name text generated always as (upper(name)) stored',
  'create unique index on pets (name) where category_id = 7',
  'alter table pets add exclude (name with =) where (category_id = 8)',
  'create rule noted as on delete to pets do also notify pets',
  'alter table pets add unique (name, id)',
  'alter table api_keys add maker bigint references pets',
  'create table old_pets () inherits (pets)',
];

let url: string;
beforeEach(async () => {
  url = await createMigratedDatabase();
});
afterEach(() => dropDatabase(url));

const findingsOf = async (dataSource: DataSource) => {
  const { applied, findings } = await stateOf(dataSource);
  return [...findings, ...(await compareTables(dataSource, applied)).differences];
};
const differences = async (dataSource: DataSource) =>
  (await findingsOf(dataSource)).filter(({ about }) => about === 'tables');

/** A DataSource with settings that change how PostgreSQL shows times, intervals, bytes and names. */
const onOddSettings = <T>(work: (dataSource: DataSource) => Promise<T>) =>
  administer(
    `${url}?options=-c%20timezone%3DAsia/Kolkata%20-c%20intervalstyle%3Diso_8601%20-c%20bytea_output%3Descape%20-c%20quote_all_identifiers%3Don`,
    work,
  );

it('each difference from what the migrations make is an error if it breaks an operation, and its remedy repairs it', () =>
  onOddSettings(async (dataSource) => {
    expect(await findingsOf(dataSource)).toEqual([]);
    const before = await catalog(url);
    for (const [changes, isError] of [
      [BREAKING, true],
      [HARMLESS, false],
    ] as const) {
      for (const [sql, said, count = 1] of changes) {
        await query(url, sql);
        const found = await differences(dataSource);
        const one = expect.objectContaining({ isError, message: expect.stringContaining(said) });
        expect([sql, found]).toEqual([sql, expect.arrayContaining([one])]);
        expect([sql, found.length, found.some((each) => each.isError)]).toEqual([
          sql,
          count,
          isError,
        ]);
        const remedies = found.map(
          ({ message }) => / As the owner, run: (.+;)$/.exec(message)![1]!,
        );
        // Writes go on meanwhile.
        const indexes = remedies.join(' ').match(/create (unique )?index (?!concurrently)/);
        expect([sql, indexes]).toEqual([sql, null]);
        await query(url, ...remedies);
        expect([sql, await findingsOf(dataSource)]).toEqual([sql, []]);
      }
    }
    // With the names that the migrations gave: later ones need them.
    const names = (all: typeof before) =>
      [...all['constraints']!, ...all['indexes']!].map((one: any) => one.conname ?? one.indexname);
    const made = names(await catalog(url));
    expect(made).toEqual(expect.arrayContaining(names(before)));
  }));

it('what a DBA adds is no difference, and check names what may make writes fail', async () => {
  await query(url, ...ADDITIONS);
  await onOddSettings(async (dataSource) => {
    expect(await findingsOf(dataSource)).toEqual([]);
    expect((await compareTables(dataSource, MIGRATION_NAMES)).additions.toSorted()).toEqual([
      'api_keys: foreign key FOREIGN KEY (maker) REFERENCES pets(id)',
      'pets.upper_name: generated upper((name)::text)',
      'pets: check CHECK ((name IS NOT NULL))',
      'pets: exclusion EXCLUDE USING btree (name WITH =) WHERE ((category_id = 8))',
      'pets: inherited by old_pets',
      'pets: key UNIQUE (name, id)',
      'pets: rule noted',
      'pets: trigger audit',
      'pets: unique index btree (name) WHERE (category_id = 7)',
    ]);
  });
  const { code, stdout } = await runHere('check', { DATABASE_URL: url });
  expect([code, stdout]).toEqual([0, expect.not.stringMatching(/^(FAIL|warn)/m)]);
  expect(stdout).toMatch(/^ok {4}additions: .*pets: trigger audit/m);
});

it('an index that is being built concurrently is no difference; one whose build has failed is', () =>
  administer(url, async (dataSource) => {
    await query(url, 'drop index pets_status_id_idx');
    const other = new Client({ connectionString: url });
    await other.connect();
    await other.query('begin; insert into pets (name, category_id) values ($$x$$, 1)');
    const sql = 'create index concurrently pets_status_id_idx on pets (status, id)';
    const building = query(url, sql).catch(({ code }) => code);
    await until('it waits', async () => {
      const waiting = `select from pg_stat_activity
        where query = $$${sql}$$ and wait_event_type = 'Lock' and datname = current_database()`;
      return (await query(url, waiting)).length === 1;
    });
    expect(await differences(dataSource)).toEqual([]);
    // The databases of other tests are on the same server.
    const cancel = `select pg_cancel_backend(pid) from pg_stat_progress_create_index where datname = current_database()`;
    await query(url, cancel);
    expect(await building).toBe('57014');
    await other.query('rollback');
    await other.end();
    const message = expect.stringContaining('run: reindex index concurrently pets_status_id_idx;');
    expect(await differences(dataSource)).toEqual([{ about: 'tables', isError: false, message }]);
  }));

it('tables are compared with the applied migrations; with a later one, differences are warnings', () =>
  administer(url, async (dataSource) => {
    const about = async () => (await findingsOf(dataSource)).map((one) => [one.about, one.isError]);
    for (const _ of MIGRATION_NAMES) {
      const last = await revertLast(url);
      expect((await about()).filter(([what]) => what === 'tables')).toEqual([]);
      if (last.startsWith('CreateOrders')) {
        await query(url, 'alter table pets drop constraint pets_pkey cascade');
        expect(await about()).toContainEqual(['tables', true]);
        await query(
          url,
          `insert into migrations (timestamp, name) values (9, 'Later9999999999999')`,
        );
        expect(await about()).toContainEqual(['tables', false]);
        expect(await about()).not.toContainEqual(['tables', true]);
        await query(
          url,
          `delete from migrations where timestamp = 9`,
          'alter table pets add primary key (id)',
          'alter table idempotency_keys add constraint idempotency_keys_pet_id_fkey foreign key (pet_id) references pets on delete cascade',
        );
      }
    }
  }));

it('on Citus, the foreign keys that distribution drops are no difference', async () => {
  const citus = await createDatabase();
  await query(citus, SEEMING_CITUS);
  await runMigrations(citus);
  expect(await query(citus, `select from pg_constraint where contype = 'f'`)).toEqual([]);
  expect(await administer(citus, differences)).toEqual([]);
  await dropDatabase(citus);
});

it.each([
  ['orders', false],
  ['idempotency_keys', true],
])(
  'a table that is missing, or a view in its place, is told once: %s, an error if pets need it: %j',
  (table, isError) =>
    administer(url, async (dataSource) => {
      await query(url, `drop table ${table}`);
      const message = `${table}: table logged is missing. As the owner, run: restore ${table} from a backup;`;
      expect(await differences(dataSource)).toEqual([{ about: 'tables', isError, message }]);
      await query(url, `create view ${table} as select 1 as id`);
      expect(await differences(dataSource)).toEqual([{ about: 'tables', isError, message }]);
    }),
);

it('while somebody locks a table, readiness is what it was, looks again afterwards, and no session keeps the limit of its wait', async () => {
  const database = new URL(url).pathname.slice(1);
  // The comparison at the start does not depend on it.
  await query(url, `alter database ${database} set datestyle = 'German, DMY'`);
  const service = await startService({}, url);
  expect(service.log.filter((line) => line.includes('The database lacks'))).toEqual([]);
  const locker = new Client({ connectionString: url });
  await locker.connect();
  await locker.query('begin; lock table pets in access exclusive mode');
  const real = performance.now.bind(performance);
  jest.spyOn(performance, 'now').mockImplementation(() => real() + DATABASE_LIMITS.comparison);
  const ready = async () => (await service.anonymous.get('/health/ready')).status;
  const whileLocked = await ready();
  await locker.query('alter table api_keys drop constraint api_keys_hash_key; commit');
  await locker.end();
  expect([whileLocked, await ready()]).toEqual([200, 503]);
  const limits = Array.from({ length: 10 }, () => service.query('show lock_timeout'));
  expect(
    new Set((await Promise.all(limits)).flat().map(({ lock_timeout }) => lock_timeout)),
  ).toEqual(new Set(['0']));
  await service.stop();
  jest.restoreAllMocks();
});

it('while a key is missing, readiness is 503 with a fixed sentence, at the start and later, and the log and check have the remedy', async () => {
  const DATABASE_URL = await createGrantedRole(url);
  const remedy = 'alter table idempotency_keys add PRIMARY KEY (api_key_id, key);';
  const said = `idempotency_keys: key PRIMARY KEY (api_key_id, key) is missing. As the owner, run: ${remedy}`;
  const drop = 'alter table idempotency_keys drop constraint idempotency_keys_pkey';
  for (const changes of [[drop], []]) {
    await query(url, ...changes);
    const service = await startService({}, DATABASE_URL, { owner: url });
    const ready = async () => (await service.anonymous.get('/health/ready')).status;
    if (changes.length === 0) {
      expect(await ready()).toBe(200);
      await query(url, drop);
      const real = performance.now.bind(performance);
      jest.spyOn(performance, 'now').mockImplementation(() => real() + DATABASE_LIMITS.comparison);
    }
    const { status, body } = await service.anonymous.get('/health/ready');
    const message = 'The tables are not what their migrations make.';
    expect([status, body.message]).toEqual([503, message]);
    // Readiness finds it again, and the log has it once.
    expect(await ready()).toBe(503);
    const reasons = service.log.filter((line) =>
      line.includes(`"reason":"${said}","msg":"The database lacks`),
    );
    const msg = 'The database lacks something that operations on pets need';
    expect(reasons.map((line) => JSON.parse(line))).toMatchObject([{ level: 'error', msg }]);
    const { code, stdout } = await runHere('check', { DATABASE_URL });
    expect([code, stdout]).toEqual([1, expect.stringContaining(`FAIL  tables: ${said}\n`)]);
    await query(url, remedy);
    expect(await ready()).toBe(200);
    await service.stop();
  }
  jest.restoreAllMocks();
  await dropGrantedRole(url);
});
