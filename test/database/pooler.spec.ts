import { Client } from 'pg';
import { MIGRATION_NAMES } from '../../migrations/index.js';
import { administer } from '../../src/database/database.js';
import { revertMigration, runMigrations } from '../../src/schema/migrations.js';
import { OperatorError } from '../../src/errors/operator-error.js';
import { Project } from '../support/project.js';
import { createDatabase, dropDatabase } from '../support/service.js';
import { hasPgBouncer, PgBouncer } from '../support/pgbouncer.js';

// A developer's machine may have no PgBouncer; in CI, where these tests must run, hasPgBouncer() fails without it.
(hasPgBouncer() ? describe : describe.skip)(
  'migrations through PgBouncer in transaction mode',
  () => {
    const REFUSAL =
      'Nothing was changed: migrations do not run through a pooler. ' +
      "Set DATABASE_URL to PostgreSQL's own address for this command, and DATABASE_POOLER to nothing.";
    let url: string;
    let pooler: PgBouncer;
    let project: Project;
    beforeAll(async () => {
      url = await createDatabase();
      pooler = await PgBouncer.before(url);
      project = await Project.create();
    });
    afterAll(async () => {
      await project.remove();
      await pooler.stop();
      await dropDatabase(url);
    });

    /** What the pooled session was left with, and how many migrations the database has. */
    async function state() {
      const client = new Client({ connectionString: pooler.url });
      await client.connect();
      const { rows } = await client.query(
        `select current_setting('lock_timeout') as "lockTimeout",
                (select count(*)::int from pg_locks
                  where locktype = 'advisory'
                    and database = (select oid from pg_database where datname = current_database())) as locks,
                (select count(*)::int from pg_tables where schemaname = 'public') as tables`,
      );
      await client.end();
      return rows[0];
    }

    const migrate = (args: string[], variables: Record<string, string>) =>
      project.run('migrate', args, variables);

    it('are refused before anything is changed, and leave no lock and no setting behind', async () => {
      for (const refused of [() => runMigrations(pooler.url), () => revertMigration(pooler.url)]) {
        await expect(refused()).rejects.toThrow(new OperatorError(REFUSAL));
      }
      const outcome = await migrate(['run'], { DATABASE_URL: pooler.url });
      expect(outcome).toMatchObject({ code: 1, stdout: '' });
      expect(outcome.stderr).toMatch(/^Database .+\n.+\n$/);
      expect(outcome.stderr).toContain(REFUSAL);
      expect(await state()).toEqual({ lockTimeout: '0', locks: 0, tables: 0 });

      expect(await runMigrations(url)).toEqual(MIGRATION_NAMES);
      const migrated = await state();
      const reverted = await migrate(['revert', '--yes'], { DATABASE_URL: pooler.url });
      expect([reverted.code, reverted.stderr]).toEqual([1, expect.stringContaining(REFUSAL)]);
      expect(await state()).toEqual(migrated);
    });

    it('are refused too if the configuration says that there is a pooler', async () => {
      const direct = { DATABASE_URL: url, DATABASE_POOLER: 'transaction' };
      for (const args of [['run'], ['revert', '--yes']]) {
        const { code, stderr } = await migrate(args, direct);
        expect([code, stderr]).toEqual([1, expect.stringContaining(REFUSAL)]);
      }
      const { code } = await migrate(['run'], { ...direct, DATABASE_POOLER: '' });
      expect(code).toBe(0);
    });

    it('are listed and printed', async () => {
      const through = { DATABASE_URL: pooler.url, DATABASE_POOLER: 'transaction' };
      const shown = await migrate(['show', '--check'], through);
      expect([shown.code, shown.stdout]).toEqual([0, expect.stringContaining(MIGRATION_NAMES[0]!)]);
      const printed = await migrate(['sql', '--revert'], through);
      expect([printed.code, printed.stdout]).toEqual([
        0,
        expect.stringContaining('-- Down migration of '),
      ]);
    });

    it('are not applied by a process that starts, which says how to apply them', async () => {
      while (!(await revertMigration(url))!.startsWith('CreateIdempotencyKeys'));
      const variables = { DATABASE_URL: pooler.url, MIGRATE_ON_START: 'true' };
      const told = await project.run('serve', [], { ...variables, DATABASE_POOLER: 'transaction' });
      expect([told.code, told.stderr]).toEqual([
        1,
        expect.stringMatching(
          /pending migrations: .+\n.* npm run migration:run, without the pooler\.$/m,
        ),
      ]);
      const recognised = await project.run('serve', [], variables);
      expect([recognised.code, recognised.stderr]).toEqual([1, expect.stringContaining(REFUSAL)]);
      const rows = await administer(url, (dataSource) =>
        dataSource.query('select name from migrations'),
      );
      expect(rows).toHaveLength(2);
    });
  },
);
