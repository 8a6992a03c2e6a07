import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { Client } from 'pg';
import { MIGRATION_NAMES } from '../../migrations/index.js';
import { PROJECT_ROOT } from '../../src/config/project-root.js';
import { administrativeDataSource } from '../../src/database/data-source.js';
import { administer } from '../../src/database/connect.js';
import { ApiKey } from '../../src/auth/api-key.entity.js';
import { Order } from '../../src/orders/order.entity.js';
import { Pet } from '../../src/pets/pet.entity.js';
import { MIGRATION_LOCK } from '../../src/schema/migration-statements.js';
import { lastMigration, revertMigration, runMigrations } from '../../src/schema/migrations.js';
import { pendingMigrations } from '../../src/schema/schema-state.js';
import { OperatorError } from '../../src/errors/operator-error.js';
import { until } from '../support/until.js';
import { query } from '../support/ask.js';
import { createDatabase, createMigratedDatabase, dropDatabase } from '../support/service.js';
import { catalog } from '../support/catalog.js';
import { revertToOrders, UP_TO_ORDERS } from '../support/revert-to-orders.js';

describe('the migrations', () => {
  const names = MIGRATION_NAMES;
  let url: string;
  beforeAll(async () => {
    url = await createDatabase();
  });
  afterAll(async () => {
    await dropDatabase(url);
  });

  it('wait for those of another process, whatever statement_timeout the role has', async () => {
    const other = new Client({ connectionString: url });
    await other.connect();
    const name = new URL(url).pathname.slice(1);
    await other.query(`alter database ${name} set statement_timeout = '250ms'`);
    await other.query(`begin; select pg_advisory_xact_lock(${MIGRATION_LOCK})`);
    const told = jest.spyOn(console, 'error').mockImplementation(() => {});
    const running = runMigrations(url);
    await until('it waits', () => told.mock.calls.length > 0);
    await other.query('select pg_sleep(0.5)');
    await other.query('commit');
    expect(await running).toEqual(names);
    told.mockRestore();
    await other.query(`alter database ${name} reset statement_timeout`);
    await other.end();
    while ((await revertMigration(url)) !== undefined);
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

  it('make the tables of the entities, to each column, index, constraint and default', async () => {
    const [generated, migrated] = await Promise.all([createDatabase(), createMigratedDatabase()]);
    await query(migrated, 'drop table idempotency_keys');
    const entities = administrativeDataSource(generated, [ApiKey, Order, Pet]);
    await entities.initialize();
    await entities.synchronize();
    await entities.destroy();
    expect(await catalog(generated)).toEqual(await catalog(migrated));
    await Promise.all([generated, migrated].map(dropDatabase));
  });

  it('give up soon where someone holds a table, name who holds it, and change nothing', async () => {
    const told = jest.spyOn(console, 'error').mockImplementation(() => {});
    await revertToOrders(url);
    const holder = new Client({ connectionString: url, application_name: 'report' });
    await holder.connect();
    try {
      await holder.query('begin; select from orders');
      const { rows } = await holder.query('select pg_backend_pid() as pid');
      const error: any = await revertMigration(url).catch((cause: unknown) => cause);
      expect(error).toBeInstanceOf(OperatorError);
      expect(error.cause).toMatchObject({ code: '55P03' });
      expect(error.message).toBe(
        `Nothing was changed in 15 attempts of 300 ms. Waits for pid ${rows[0].pid}, report, idle in transaction.\n` +
          'Wait until these sessions end, or end them with pg_terminate_backend(pid). Then run the command again.',
      );
    } finally {
      await holder.end();
      told.mockRestore();
    }
    expect(await administer(url, pendingMigrations)).toEqual(names.slice(UP_TO_ORDERS.length));
  });

  it('are undone in the order in which they were applied, as far as this code has them', async () => {
    const change = (sql: string) => administer(url, (dataSource) => dataSource.query(sql));
    await change(`update migrations set id = id + 100 where name like 'CreateIdempotencyKeys%'`);
    expect(await revertMigration(url)).toMatch(/^CreateIdempotencyKeys/);
    const orders = await administer(url, lastMigration);
    expect(await revertMigration(url, orders)).toMatch(/^CreateOrders/);
    await expect(revertMigration(url, orders)).rejects.toThrow(/^Nothing was changed: /);
    await change(`insert into migrations (timestamp, name) values (1, 'Later9999999999999')`);
    await expect(revertMigration(url)).rejects.toThrow(OperatorError);
    await change(`delete from migrations where timestamp = 1`);
    expect(await runMigrations(url)).toEqual(names.slice(UP_TO_ORDERS.length - 2));
  });
});
