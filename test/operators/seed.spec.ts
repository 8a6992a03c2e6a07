import { query as ask } from '../support/ask.js';
import { PET_STATUSES } from '../../src/pets/pet.entity.js';
import { Wire } from '../support/wire.js';
import { createMigratedDatabase, dropDatabase } from '../support/service.js';
import { Project } from '../support/project.js';
import { until } from '../support/until.js';

describe('animal-store seed', () => {
  const project = Project.ofTests();
  let DATABASE_URL: string;
  beforeEach(async () => {
    DATABASE_URL = await createMigratedDatabase();
  });
  afterEach(() => dropDatabase(DATABASE_URL));

  const seed = (args: string[], variables = {}) =>
    project.run('seed', args, { DATABASE_URL, ...variables });

  const query = (...statements: string[]) => ask(DATABASE_URL, ...statements);

  async function stored(): Promise<number> {
    return Number((await query('select count(*) from pets'))[0].count);
  }

  it('creates as many animals as it is told, all of them valid and of every kind', async () => {
    const { pathname, host, username } = new URL(DATABASE_URL);
    expect(await seed(['1001'])).toEqual({
      code: 0,
      stdout: 'Created 1001 animals.\n',
      stderr: `Database ${pathname.slice(1)} at ${host}, role ${username}, schema public.\n`,
    });
    const [created] = await query(
      `select count(*)::int as pets, count(distinct name) > 300 as "areMany", count(distinct category_id)::int as categories,
              array_agg(distinct status order by status) as statuses,
              bool_and(name ~ '\\S' and name !~ '^\\s|\\s$') as "haveNames"
         from pets`,
    );
    const [areMany, haveNames] = [true, true];
    expect(created).toEqual({
      pets: 1001,
      areMany,
      categories: 500,
      statuses: [...PET_STATUSES],
      haveNames,
    });
  });

  it('shows its progress on a terminal', async () => {
    const program = project.onTerminal(['seed', '2500'], { DATABASE_URL });
    const { code, stdout } = await program.outcome;
    expect(code).toBe(0);
    expect(stdout).toMatch(
      /\r\[#{16}\.{24}\] 1000 of 2500\r.+\r\[#{40}\] 2500 of 2500\r\nCreated 2500 animals\.\r\n$/,
    );
  });

  it('refuses other than a whole number in its range, with the usage', async () => {
    const wrong = [[], ['0'], ['-1'], ['1.5'], ['1e3'], ['100000001'], ['many'], ['1', '2']];
    for (const args of wrong) {
      const { code, stdout, stderr } = await seed(args);
      expect([args, code, stdout]).toEqual([args, 1, '']);
      expect(stderr).toContain('Usage: animal-store seed');
    }
    expect(await stored()).toBe(0);
  });

  it('does nothing in production unless it is told twice', async () => {
    const NODE_ENV = 'production';
    const { code, stdout, stderr } = await seed(['1'], { NODE_ENV });
    expect([code, stdout]).toEqual([1, '']);
    expect(stderr).toMatch(/^Database .+\nNODE_ENV is production.+--yes/);
    expect(await stored()).toBe(0);
    expect(await seed(['1', '--yes'], { NODE_ENV })).toMatchObject({ code: 0 });
    expect(await stored()).toBe(1);
  });

  it('is not bound by the time that its role may take for a statement', async () => {
    await query(`
      create function require_time() returns trigger language plpgsql as $$
        begin
          if current_setting('statement_timeout') <> '0' then raise 'bound'; end if;
          return null;
        end $$;
      create trigger pets_time before insert on pets execute function require_time()`);
    await query(
      `alter database ${new URL(DATABASE_URL).pathname.slice(1)} set statement_timeout = '1min'`,
    );
    expect(await seed(['1'])).toMatchObject({ code: 0 });
  });

  describe('while it creates', () => {
    const isCopying = async () => {
      const rows = await query(
        'select from pg_stat_progress_copy where datname = current_database() and tuples_processed > 0',
      );
      return rows.length > 0;
    };

    it.each(['SIGINT', 'SIGTERM'] as const)('stops at %s, and has created none', async (signal) => {
      const program = project.spawn('seed', ['100000000'], { DATABASE_URL });
      await until('it copies', isCopying);
      const { code, stdout, stderr } = await program.end(signal);
      expect([code, stdout]).toEqual([1, '']);
      expect(stderr).toMatch(/^Database .+\nStopped\. No animal was created\.\n$/);
      expect(await stored()).toBe(0);
    });

    it('says that the database is gone, and has created none', async () => {
      const wire = await Wire.to(DATABASE_URL);
      const program = project.spawn('seed', ['100000000'], { DATABASE_URL: wire.url });
      await until('it copies', isCopying);
      wire.cut();
      const { code, stdout, stderr } = await program.outcome;
      expect([code, stdout]).toEqual([1, '']);
      expect(stderr).toMatch(/^Database .+\nThe connection to the database was lost: .+\n$/);
      expect(await stored()).toBe(0);
    });
  });
});
