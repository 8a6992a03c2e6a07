import { migrations } from '../../migrations/index.js';
import { runMigrations } from '../../src/schema/migrations.js';
import { query } from '../support/ask.js';
import { runHere } from '../support/command.js';
import { Project } from '../support/project.js';
import { onServer } from '../support/service.js';
import { until } from '../support/until.js';

describe('animal-store check', () => {
  const project = Project.ofTests();
  let DATABASE_URL: string;
  beforeAll(async () => {
    DATABASE_URL = await project.createMigratedDatabase();
  });

  /** @returns the report, the names of the checks that pass, and what those say that fail. */
  async function check(variables: Record<string, string>) {
    const { code, stdout, stderr } = await runHere('check --json', variables);
    expect(stderr + stdout).not.toContain('sekrit');
    const { isOk, checks } = JSON.parse(stdout);
    expect(isOk).toBe(code === 0);
    const [ok, failed] = [true, false].map((is) => checks.filter((one: any) => one.isOk === is));
    return {
      checks,
      ok: ok.map(({ name }: any) => name),
      failed: failed.map(({ name, message }: any) => `${name}: ${message}`),
    };
  }

  it('says that all is well, in lines that a person can read, and in JSON', async () => {
    const { pathname, host, username, password } = new URL(DATABASE_URL);
    const { code, stdout } = await runHere('check', { DATABASE_URL });
    const DATABASE = `Database ${pathname.slice(1)} at ${host}, role ${username}, schema public`;
    expect(code).toBe(0);
    expect(stdout).toContain(
      `ok    database: ${DATABASE}\nok    TLS: off: the connection is not encrypted\nok    server version: PostgreSQL `,
    );
    expect(stdout).toContain('ok    migrations: all applied\nok    rights: all that');
    expect(stdout).not.toMatch(/FAIL|warn {2}/);
    expect(stdout).not.toContain(password);
    expect(await check({ DATABASE_URL })).toMatchObject({ failed: [] });
  });

  const AWAY = 'postgres://u:sekrit@127.0.0.1:1/x';
  it.each<[string, RegExp, (url: string) => Record<string, string>]>([
    [
      'each variable that is invalid',
      /^configuration: PORT must be .+\nDATABASE_URL must be /,
      () => ({ PORT: 'sekrit', DATABASE_URL: 'sekrit' }),
    ],
    ['a database out of reach', /^database: .*ECONNREFUSED/, () => ({ DATABASE_URL: AWAY })],
    [
      'a database that is read-only',
      /^writes: the database is read-only$/,
      (url) => ({ DATABASE_URL: `${url}?options=-c%20default_transaction_read_only%3Don` }),
    ],
    [
      'a standby of another database',
      /^standbys: .* is not a standby of /,
      (url) => ({ DATABASE_URL: url, DATABASE_READ_URL: process.env['TEST_DATABASE_URL']! }),
    ],
  ])('names %s, and no secret', async (_what, message, variables) => {
    // On a busy machine, a standby may be out of time.
    let failed: string[] = [];
    const hasFailed = async () =>
      (failed = (await check(variables(DATABASE_URL))).failed).length > 0;
    await until('it fails', hasFailed);
    expect(failed).toEqual([expect.stringMatching(message)]);
  });

  it('names the migrations that are pending', async () => {
    const { ok, failed } = await check({ DATABASE_URL: await project.createDatabase() });
    const before = ['configuration', 'database', 'TLS', 'server version', 'writes'];
    expect(ok).toEqual([...before, 'migrations', 'sessions']);
    const names = migrations.flatMap((it) => (it.isOptional ? [] : it.name)).join(', ');
    expect(failed).toEqual([`migrations: The database has pending migrations: ${names}.`]);
  });

  it('passes while a standby is out of reach, and says why, without its password', async () => {
    const { failed, checks } = await check({
      DATABASE_URL,
      DATABASE_READ_URL: AWAY,
    });
    expect(failed).toEqual([]);
    expect(checks.at(-1).message).toMatch(/^127\.0\.0\.1:1: .*ECONNREFUSED/);
  });

  it('prints the statements that repair sequences which logical replication did not advance', async () => {
    const url = await project.createMigratedDatabase();
    await query(
      url,
      `insert into pets (name, category_id) select 'Rex', 1 from generate_series(1, 5)`,
      `insert into orders (pet_id) values (5)`,
      ...['pets', 'orders', 'migrations'].map((table) => `alter sequence ${table}_id_seq restart`),
    );
    const { code, stdout } = await runHere('check', { DATABASE_URL: url });
    expect(code).toBe(1);
    expect(stdout.match(/^.+ sequences: \w+ is \w+/gm)).toEqual([
      'FAIL  sequences: pets_id_seq is behind',
      'ok    sequences: api_keys_id_seq is past',
      'warn  sequences: orders_id_seq is behind',
      'warn  sequences: migrations_id_seq is behind',
    ]);
    await query(url, ...stdout.match(/select setval.+;$/gm)!);
    expect((await check({ DATABASE_URL: url })).failed).toEqual([]);
    const insert = `insert into pets (name, category_id) values ('Max', 1) returning id`;
    expect(await query(url, insert)).toEqual([{ id: '6' }]);
  });

  it.each([
    ['bounded by a DBA', 'maxvalue 5', 5],
    ['of one id after the other', 'increment 10 maxvalue 14', 5],
    ['of all int64s', 'maxvalue 9223372036854775807', '9223372036854775807'],
  ])('fails if no id is left in a sequence %s', async (_what, options, last) => {
    const url = await project.createMigratedDatabase();
    const sequence = `alter sequence pets_id_seq ${options}`;
    await query(url, sequence, `select setval('pets_id_seq', ${last})`);
    const maximum = /\d+$/.exec(options)![0];
    const { failed } = await check({ DATABASE_URL: url });
    expect(failed).toEqual([
      expect.stringMatching(
        `^sequences: pets_id_seq is at its MAXVALUE, ${maximum}: new rows are rejected`,
      ),
    ]);
    await query(url, `alter sequence pets_id_seq no maxvalue`, `select setval('pets_id_seq', 4)`);
    expect((await check({ DATABASE_URL: url })).failed).toEqual([]);
  });

  it('warns of another version of the collation, and its remedy works', async () => {
    const url = await project.createDatabase(async () => {
      const name = `${new URL(DATABASE_URL).pathname.slice(1)}_icu`;
      const icu = `template template0 locale_provider icu icu_locale 'en' locale 'C'`;
      await onServer(`create database ${name} ${icu}`);
      return Object.assign(new URL(DATABASE_URL), { pathname: name }).href;
    });
    await runMigrations(url);
    const warning = async () =>
      (await check({ DATABASE_URL: url })).checks.find((one: any) => one.isWarning)?.message;
    expect(await warning()).toBeUndefined();
    const record = `update pg_database set datcollversion = '0.1' where datname = current_database()`;
    await query(url, record);
    const old =
      /^indexes on text were built with version 0\.1 .+, run: (reindex .+?;) (alter .+;)$/;
    const [, ...remedy] = old.exec(await warning())!;
    await query(url, ...remedy);
    expect(await warning()).toBeUndefined();
  });
});
