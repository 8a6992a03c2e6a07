import { Client } from 'pg';
import { getMetadataArgsStorage } from 'typeorm';
import { KEYS_BY_HASH } from '../../src/auth/api-key-verifier.js';
import { INT64_MIN } from '../../src/int64.js';
import { columnsOf } from '../../src/database/columns.js';
import { Statement } from '../../src/database/statement.js';
import type { List, PageQuery } from '../../src/listing/list.js';
import { pagesStatement } from '../../src/listing/postgres-page-reader.js';
import { ORDERS } from '../../src/orders/orders.service.js';
import type { ListPetsQuery } from '../../src/pets/list-pets-query.dto.js';
import { PETS } from '../../src/pets/pets.service.js';
import { DELETE_OLD_IDEMPOTENCY_KEYS, FIND_PETS } from '../../src/pets/postgres-pet-store.js';
import { query } from '../support/ask.js';
import { createMigratedDatabase, dropDatabase } from '../support/database.js';

/** Of each table. */
const ROWS = 50_000;

/** A rare value and a common one of each filter. */
const VALUES: Record<Exclude<keyof ListPetsQuery, keyof PageQuery>, [unknown, unknown]> = {
  status: ['pending', 'available'],
};

/** The statement for each set of a list's filters, with rare values and with common ones, by column. */
const pagesOf = (list: List) =>
  list.filterSets.flatMap((filters) =>
    (filters.length === 0 ? [0] : [0, 1]).map((i) => ({
      table: list.table,
      statement: pagesStatement(list, filters),
      values: Object.fromEntries(
        filters.map(({ name, property }) => [name, VALUES[property as keyof typeof VALUES][i]]),
      ),
    })),
  );

/**
 * The index that serves a list with filters by these columns.
 *
 * @throws Error if its entity has none.
 */
function indexOf(table: string, names: string[]): string {
  if (names.length === 0) {
    return `${table}_pkey`;
  }
  const { tables, indices } = getMetadataArgsStorage();
  const entity = tables.find(({ name }) => name === table)!.target as Function;
  const all = columnsOf(entity);
  const wanted = [...names, 'id'].map((name) => all.find((one) => one.name === name)!.property);
  const index = indices.find(
    ({ target, columns }) => target === entity && `${columns as string[]}` === `${wanted}`,
  );
  if (index === undefined) {
    const columns = wanted.map((one) => `'${one}'`).join(', ');
    throw new Error(
      `${entity.name} needs @Index('${[table, ...names].join('_')}_id_idx', [${columns}]), and a migration for it.`,
    );
  }
  return index.name!;
}

/** A node of a plan, as PostgreSQL explains it. */
type Node = Record<string, any>;

let url: string;
beforeAll(async () => {
  url = await createMigratedDatabase();
  await query(
    url,
    `insert into pets (name, category_id, status)
     select 'animal ' || n, n % 1000, case when n % 200 = 0 then 'pending' when n % 10 = 0 then 'sold' else 'available' end
       from generate_series(1, ${ROWS}) as n`,
    `insert into orders (pet_id) select n % 1000 + 1 from generate_series(1, ${ROWS}) as n`,
    `insert into api_keys (name, hash) select 'key ' || n, sha256(n::text::bytea) from generate_series(1, 5000) as n`,
    `insert into idempotency_keys (api_key_id, key, body_hash, pet_id, created_at)
     select n % 5000, n, '', n, now() - n * interval '1.73 s' from generate_series(1, ${ROWS}) as n`,
    'vacuum analyze',
  );
});
afterAll(() => dropDatabase(url));

/** What the statements cost must not depend on how many rows there are. */
describe.each([
  ['planned for its values', 'force_custom_plan'],
  ['planned once', 'force_generic_plan'],
])('a statement %s', (_title, planCacheMode) => {
  let client: Client;
  beforeAll(async () => {
    client = new Client({ connectionString: url, options: `-c plan_cache_mode=${planCacheMode}` });
    await client.connect();
  });
  afterAll(() => client.end());

  /** All nodes of the plan that PostgreSQL followed. */
  async function plan({ name, text }: Statement, ...values: string[]): Promise<Node[]> {
    await client.query(`prepare "${name}" as ${text}`);
    const list = values.map((value) => `'${value}'`).join(', ');
    const { rows } = await client.query(
      `explain (analyze, buffers, format json) execute "${name}" ${list && `(${list})`}`,
    );
    await client.query(`deallocate "${name}"`);
    const flatten = (node: Node): Node[] => [node, ...(node.Plans ?? []).flatMap(flatten)];
    return flatten(rows[0]['QUERY PLAN'][0].Plan);
  }

  const indexesIn = (nodes: Node[]) =>
    nodes
      .filter((node) => node['Node Type'].includes('Scan'))
      .map((node) => node['Index Name'] ?? node['Node Type']);

  const blocksOf = ([root]: Node[]) => root!['Shared Hit Blocks'] + root!['Shared Read Blocks'];

  it.each([...pagesOf(PETS), ...pagesOf(ORDERS)])(
    'reads no more than the rows of a page of $table with $values, wherever it begins',
    async ({ table, statement, values }) => {
      const index = indexOf(table, Object.keys(values));
      const arrays = Object.values(values).map((value) => `{${value}}`);
      for (const start of [INT64_MIN, 25_000n, 49_990n]) {
        const nodes = await plan(statement, `{${start}}`, '{21}', ...arrays);
        expect(indexesIn(nodes)).toEqual(['Function Scan', index]);
        expect(nodes.every((node) => node['Actual Rows'] <= 21)).toBe(true);
        expect(nodes.some((node) => node['Rows Removed by Filter'])).toBe(false);
        expect(blocksOf(nodes)).toBeLessThan(50);
      }
    },
  );

  it('finds pets by the primary key, orders and records of keys by their pet, and keys by their hash', async () => {
    const ofPet = new Statement('orders-of-pet', 'select id from orders where pet_id = $1');
    // As PostgreSQL does when a pet is deleted.
    const recordOfPet = new Statement(
      'record-of-pet',
      'select key from idempotency_keys where pet_id = $1',
    );
    const ofKey = new Statement(
      'record-of-key',
      'select pet_id from idempotency_keys where api_key_id = $1 and key = $2',
    );
    const hashes = `{${'ab'.repeat(32)},${'cd'.repeat(32)}}`;
    for (const [statement, index, argument, blocks] of [
      [FIND_PETS, 'pets_pkey', '{1,25000,50000,999999}', 50],
      [ofPet, 'orders_pet_id_idx', '500', 100],
      [recordOfPet, 'idempotency_keys_pet_id_idx', '500', 50],
      [ofKey, 'idempotency_keys_pkey', ['500', '500'], 50],
      [KEYS_BY_HASH, 'api_keys_hash_key', hashes, 50],
    ] as const) {
      const nodes = await plan(statement, ...[argument].flat());
      expect(indexesIn(nodes)).toContain(index);
      expect(indexesIn(nodes)).not.toContain('Seq Scan');
      expect(blocksOf(nodes)).toBeLessThan(blocks);
    }
  });

  it('finds old records of keys by their age', async () => {
    await client.query('begin; set local enable_seqscan = off');
    const nodes = await plan(DELETE_OLD_IDEMPOTENCY_KEYS);
    await client.query('rollback');
    expect(indexesIn(nodes)).toContain('idempotency_keys_created_at_idx');
    expect(indexesIn(nodes)).not.toContain('Seq Scan');
    expect(nodes.every((node) => node['Actual Rows'] <= 100)).toBe(true);
    expect(nodes.some((node) => node['Rows Removed by Filter'])).toBe(false);
  });
});
