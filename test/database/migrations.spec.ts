import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { Client } from 'pg';
import { MIGRATION_NAMES } from '../../migrations/index.js';
import { PROJECT_ROOT } from '../../src/config/project-root.js';
import { administer } from '../../src/database/database.js';
import { revertMigration, runMigrations } from '../../src/database/migrations.js';
import { pendingMigrations } from '../../src/database/pending-migrations.js';
import { OperatorError } from '../../src/errors/operator-error.js';
import { createDatabase, dropDatabase } from '../service.js';
import { catalog } from './catalog.js';

describe('the migrations', () => {
  const names = MIGRATION_NAMES;
  let url: string;
  beforeAll(async () => {
    url = await createDatabase();
  });
  afterAll(async () => {
    await dropDatabase(url);
  });

  it('are those of the folder, oldest first', () => {
    const files = readdirSync(join(PROJECT_ROOT, 'migrations'))
      .filter((file) => /^\d/.test(file))
      .toSorted();
    expect(names.map((name) => name.slice(-13))).toEqual(files.map((file) => file.slice(0, 13)));
  });

  it('lead up, down all the way, and up again to the same schema', async () => {
    const empty = await catalog(url);
    expect(await administer(url, pendingMigrations)).toEqual(names);
    expect(await runMigrations(url)).toEqual(names);
    expect(await administer(url, pendingMigrations)).toEqual([]);
    expect(await runMigrations(url)).toEqual([]);
    const migrated = await catalog(url);
    expect(migrated['columns']!.length).toBeGreaterThan(0);

    for (const name of names.toReversed()) {
      expect(await revertMigration(url)).toBe(name);
    }
    expect(await revertMigration(url)).toBeUndefined();
    expect(await catalog(url)).toEqual(empty);

    expect(await runMigrations(url)).toEqual(names);
    expect(await catalog(url)).toEqual(migrated);
  });

  it('give up soon where someone holds a table, and change nothing', async () => {
    const holder = new Client({ connectionString: url });
    await holder.connect();
    try {
      await holder.query('begin; select from orders');
      await expect(revertMigration(url)).rejects.toMatchObject({ code: '55P03' });
    } finally {
      await holder.end();
    }
    expect(await administer(url, pendingMigrations)).toEqual([]);
  });

  it('are undone in the order in which they were applied, as far as this code has them', async () => {
    const change = (sql: string) => administer(url, (dataSource) => dataSource.query(sql));
    await change(`update migrations set id = id + 100 where name like 'CreateIdempotencyKeys%'`);
    expect(await revertMigration(url)).toMatch(/^CreateIdempotencyKeys/);
    expect(await revertMigration(url)).toMatch(/^CreateOrders/);
    await change(`insert into migrations (timestamp, name) values (1, 'Later9999999999999')`);
    await expect(revertMigration(url)).rejects.toThrow(OperatorError);
    await change(`delete from migrations where timestamp = 1`);
    expect(await runMigrations(url)).toHaveLength(2);
  });
});
