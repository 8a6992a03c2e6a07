import { Client } from 'pg';
import { MIGRATION_NAMES } from '../../migrations/index.js';
import { administer } from '../../src/database/database.js';
import { revertMigration, runMigrations } from '../../src/database/migrations.js';
import { createDatabase, dropDatabase } from '../service.js';
import { hasPgBouncer, PgBouncer } from './pgbouncer.js';

// A developer's machine may have no PgBouncer; in CI, where these tests must run, hasPgBouncer() fails without it.
(hasPgBouncer() ? describe : describe.skip)(
  'migrations through PgBouncer in transaction mode',
  () => {
    let url: string;
    let pooler: PgBouncer;
    beforeAll(async () => {
      url = await createDatabase();
      pooler = await PgBouncer.before(url);
    });
    afterAll(async () => {
      await pooler.stop();
      await dropDatabase(url);
    });

    /** What the pooled session was left with. */
    async function leftBehind() {
      const client = new Client({ connectionString: pooler.url });
      await client.connect();
      const { rows } = await client.query(
        `select current_setting('lock_timeout') as "lockTimeout",
              (select count(*)::int from pg_locks
                where locktype = 'advisory'
                  and database = (select oid from pg_database where datname = current_database())) as locks`,
      );
      await client.end();
      return rows[0];
    }

    it('leave no lock and no setting on the pooled session, and the next run does not wait', async () => {
      expect(await runMigrations(pooler.url)).toEqual(MIGRATION_NAMES);
      expect(await leftBehind()).toEqual({ lockTimeout: '0', locks: 0 });
      expect(await revertMigration(pooler.url)).toBe(MIGRATION_NAMES.at(-1));
      expect(await leftBehind()).toEqual({ lockTimeout: '0', locks: 0 });
      expect(await runMigrations(url)).toEqual(MIGRATION_NAMES.slice(-1));
    });

    it('leave none after one failed, and nothing of what it did', async () => {
      const change = (sql: string) => administer(url, (dataSource) => dataSource.query(sql));
      await revertMigration(url);
      await change('create table orders ()');
      await expect(runMigrations(pooler.url)).rejects.toMatchObject({ code: '42P07' });
      expect(await leftBehind()).toEqual({ lockTimeout: '0', locks: 0 });
      await change('drop table orders');
      expect(await runMigrations(pooler.url)).toEqual(MIGRATION_NAMES.slice(-1));
    });
  },
);
