import { runMigrations } from '../../src/schema/migrations.js';
import { query } from '../support/ask.js';
import { runHere } from '../support/command.js';
import { createMigratedDatabase, dropDatabase, onServer } from '../support/service.js';

describe('animal-store check', () => {
  const urls: string[] = [];
  const migrated = async (create = createMigratedDatabase) => {
    urls.push(await create());
    return urls.at(-1)!;
  };
  let DATABASE_URL: string;
  beforeAll(async () => {
    DATABASE_URL = await migrated();
  });
  afterAll(() => Promise.all(urls.map(dropDatabase)));

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
  ])('names %s, and no secret', async (_what, message, variables) => {
    expect((await check(variables(DATABASE_URL))).failed).toEqual([expect.stringMatching(message)]);
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
    const url = await migrated();
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
    ['of one id after the other', 'increment 10 maxvalue 14', 5],
    ['of all int64s', 'maxvalue 9223372036854775807', '9223372036854775807'],
  ])('fails if no id is left in a sequence %s', async (_what, options, last) => {
    const url = await migrated();
    await query(
      url,
      `alter sequence pets_id_seq ${options}`,
      `select setval('pets_id_seq', ${last})`,
    );
    const why = `sequences: pets_id_seq is at its MAXVALUE, ${/\d+$/.exec(options)![0]}: new rows are rejected`;
    expect((await check({ DATABASE_URL: url })).failed).toEqual([expect.stringContaining(why)]);
  });

  it('warns of another version of the collation, and its remedy works', async () => {
    const url = await migrated(async () => {
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
