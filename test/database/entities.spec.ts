import { administrativeDataSource } from '../../src/database/data-source.js';
import { ENTITIES } from '../../src/entities.js';
import { catalog } from '../support/catalog.js';
import { createDatabase, createMigratedDatabase, dropDatabase } from '../support/service.js';

it('the entities make the same schema as the migrations, to each column, index, constraint and default', async () => {
  const [migrated, generated] = await Promise.all([createMigratedDatabase(), createDatabase()]);
  const dataSource = await administrativeDataSource(generated, { entities: ENTITIES }).initialize();
  await dataSource.synchronize();
  await dataSource.destroy();
  expect(await catalog(generated)).toEqual(await catalog(migrated));
  await Promise.all([migrated, generated].map(dropDatabase));
});
