import { query as ask } from '../support/ask.js';
import { runHere } from '../support/command.js';
import { PET_STATUSES } from '../../src/pets/pet.entity.js';
import { createMigratedDatabase, dropDatabase } from '../support/service.js';

describe('animal-store seed', () => {
  let DATABASE_URL: string;
  beforeEach(async () => {
    DATABASE_URL = await createMigratedDatabase();
  });
  afterEach(() => dropDatabase(DATABASE_URL));

  const seed = (args: string, variables = {}) =>
    runHere(`seed ${args}`.trim(), { DATABASE_URL, ...variables });

  const query = (...statements: string[]) => ask(DATABASE_URL, ...statements);

  const stored = async () => (await query('select from pets')).length;

  it('creates as many pets as it is told, all of them valid and of every kind, without a time limit', async () => {
    const { pathname, host, username } = new URL(DATABASE_URL);
    await query(
      `create function require_time() returns trigger language plpgsql as $$
         begin
           if current_setting('statement_timeout') <> '0' then raise 'bound'; end if;
           return null;
         end $$`,
      'create trigger pets_time before insert on pets execute function require_time()',
      `alter database ${pathname.slice(1)} set statement_timeout = '1min'`,
    );
    expect(await seed('1001')).toEqual({
      code: 0,
      stdout: 'Created 1001 pets.\n',
      stderr: `Database ${pathname.slice(1)} at ${host}, role ${username}, schema public.\n`,
    });
    const [created] = await query(
      `select count(*)::int as pets, count(distinct name) > 300 as "areMany", count(distinct category_id)::int as categories,
              array_agg(distinct status order by status) as statuses,
              bool_and(name ~ '\\S' and name !~ '^\\s|\\s$') as "haveNames"
         from pets`,
    );
    const numbers = { pets: 1001, areMany: true, categories: 500 };
    expect(created).toEqual({ ...numbers, statuses: [...PET_STATUSES], haveNames: true });
  });

  it('refuses other than a whole number in its range, with the usage', async () => {
    for (const args of ['', '0', '-1', '1.5', '1e3', '100000001', 'many', '1 2']) {
      const { code, stdout, stderr } = await seed(args);
      expect([args, code, stdout]).toEqual([args, 1, '']);
      expect(stderr).toContain('Usage: animal-store seed');
    }
    expect(await stored()).toBe(0);
  });

  it('does nothing in production unless it is told twice', async () => {
    const NODE_ENV = 'production';
    const stderr = expect.stringMatching(/^Database .+\nNODE_ENV is production.+--yes/);
    expect(await seed('1', { NODE_ENV })).toEqual({ code: 1, stdout: '', stderr });
    expect(await stored()).toBe(0);
    expect(await seed('1 --yes', { NODE_ENV })).toMatchObject({ code: 0 });
    expect(await stored()).toBe(1);
  });
});
