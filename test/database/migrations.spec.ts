import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import type { DataSource } from 'typeorm';
import { migrations } from '../../migrations/index.js';
import { PROJECT_ROOT } from '../../src/config/project-root.js';
import { administrativeDataSource } from '../../src/database/data-source.js';
import {
  knownMigrations,
  pendingMigrations,
  revertMigration,
  runMigrations,
} from '../../src/database/migrations.js';
import { createDatabase, dropDatabase } from '../service.js';
import { catalog } from './catalog.js';

describe('the migrations', () => {
  const names = migrations.map(({ name }) => name);
  let url: string;
  let dataSource: DataSource;
  beforeAll(async () => {
    url = await createDatabase();
    dataSource = await administrativeDataSource(url).initialize();
  });
  afterAll(async () => {
    await dataSource.destroy();
    await dropDatabase(url);
  });

  it('are those of the folder, oldest first', () => {
    const files = readdirSync(join(PROJECT_ROOT, 'migrations'))
      .filter((file) => /^\d/.test(file))
      .toSorted();
    expect(names.map((name) => name.slice(-13))).toEqual(files.map((file) => file.slice(0, 13)));
    expect(knownMigrations(dataSource)).toEqual(names);
  });

  it('lead up, down all the way, and up again to the same schema', async () => {
    const empty = await catalog(dataSource);
    expect(await pendingMigrations(dataSource)).toEqual(names);
    expect(await runMigrations(dataSource)).toEqual(names);
    expect(await pendingMigrations(dataSource)).toEqual([]);
    expect(await runMigrations(dataSource)).toEqual([]);
    const migrated = await catalog(dataSource);
    expect(migrated['columns']!.length).toBeGreaterThan(0);

    for (const name of names.toReversed()) {
      expect(await revertMigration(dataSource)).toBe(name);
    }
    expect(await revertMigration(dataSource)).toBeUndefined();
    expect(await catalog(dataSource)).toEqual(empty);

    expect(await runMigrations(dataSource)).toEqual(names);
    expect(await catalog(dataSource)).toEqual(migrated);
  });

  it('make the schema that the entities describe', async () => {
    const { upQueries } = await dataSource.driver.createSchemaBuilder().log();
    expect(upQueries.map(({ query }) => query)).toEqual([]);
  });
});
