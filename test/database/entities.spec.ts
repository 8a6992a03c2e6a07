import type { DataSource } from 'typeorm';
import { administrativeDataSource } from '../../src/database/data-source.js';
import { ENTITIES } from '../../src/entities.js';
import { runMigrations } from '../../src/schema/migrations.js';
import { createDatabase, dropDatabase } from '../support/service.js';
import { catalog } from '../support/catalog.js';

describe('the entities', () => {
  let migrated: string;
  let generated: string;
  let dataSource: DataSource;
  beforeEach(async () => {
    [migrated, generated] = await Promise.all([createDatabase(), createDatabase()]);
    await runMigrations(migrated);
    dataSource = await administrativeDataSource(migrated, { entities: ENTITIES }).initialize();
  });
  afterEach(async () => {
    await dataSource.destroy();
    await Promise.all([dropDatabase(migrated), dropDatabase(generated)]);
  });

  const changes = async () => {
    const { upQueries } = await dataSource.driver.createSchemaBuilder().log();
    return upQueries.map(({ query }) => query);
  };

  it('leave nothing to change in the migrated schema', async () => {
    expect(await changes()).toEqual([]);
  });

  it.each([
    ['column', 'alter table pets alter column name type character varying(254)', /"name"/],
    ['index', 'drop index orders_pet_id_idx', /orders_pet_id_idx/],
    ['constraint', 'alter table orders drop constraint orders_status_check', /orders_status_check/],
    ['column too many', 'alter table api_keys add column owner text', /"owner"/],
  ])('would show a schema that differs by a %s', async (_what, sql, change) => {
    await dataSource.query(sql);
    expect((await changes()).join('\n')).toMatch(change);
  });

  it('make the same schema as the migrations, to each constraint and default', async () => {
    const fresh = await administrativeDataSource(generated, { entities: ENTITIES }).initialize();
    try {
      await fresh.synchronize();
    } finally {
      await fresh.destroy();
    }
    expect(await catalog(generated)).toEqual(await catalog(migrated));
  });
});
