import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { migrations } from '../../migrations/index.js';
import { PROJECT_ROOT } from '../../src/config/project-root.js';
import { dataSourceOf } from '../../src/database/data-source.js';
import { administer } from '../../src/database/database.js';
import { revertMigration, runMigrations } from '../../src/database/migrations.js';
import { knownMigrations, pendingMigrations } from '../../src/database/pending-migrations.js';
import { createDatabase, dropDatabase } from '../service.js';
import { catalog } from './catalog.js';

describe('the migrations', () => {
  const names = migrations.map(({ name }) => name);
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
    expect(knownMigrations()).toEqual(names);
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

  it('make the schema that the entities describe', async () => {
    const dataSource = await dataSourceOf(url).initialize();
    const { upQueries } = await dataSource.driver.createSchemaBuilder().log();
    await dataSource.destroy();
    expect(upQueries.map(({ query }) => query)).toEqual([]);
  });
});
