import { Client } from 'pg';
import { VALID_KEYS } from '../../src/auth/api-key-verifier.js';
import { administer } from '../../src/database/database.js';
import { INT64_MIN } from '../../src/int64.js';
import { Statement } from '../../src/database/statement.js';
import { ORDER_PAGES } from '../../src/orders/orders.sql.js';
import { Pet } from '../../src/pets/pet.entity.js';
import { PET_PAGES, PET_PAGES_OF_STATUS, petsById } from '../../src/pets/pets.sql.js';
import { createMigratedDatabase, dropDatabase } from '../support/service.js';

/** Of each table. */
const ROWS = 50_000;

interface Node {
  'Node Type': string;
  'Index Name'?: string;
  'Actual Rows': number;
  'Actual Loops': number;
  'Rows Removed by Filter'?: number;
  'Shared Hit Blocks': number;
  'Shared Read Blocks': number;
  Plans?: Node[];
}

/** What the statements cost must not depend on how many rows there are. */
describe.each([
  ['planned for its values', 'force_custom_plan'],
  ['planned once', 'force_generic_plan'],
])('a statement %s', (_title, planCacheMode) => {
  let url: string;
  let client: Client;
  beforeAll(async () => {
    url = await createMigratedDatabase();
    client = new Client({ connectionString: url, options: `-c plan_cache_mode=${planCacheMode}` });
    await client.connect();
    await client.query(
      `insert into pets (name, category_id, status)
       select 'animal ' || n, n % 1000, case when n % 200 = 0 then 'pending' when n % 10 = 0 then 'sold' else 'available' end
         from generate_series(1, ${ROWS}) as n`,
    );
    await client.query(
      `insert into orders (pet_id) select n % 1000 + 1 from generate_series(1, ${ROWS}) as n`,
    );
    await client.query(
      `insert into api_keys (name, hash) select 'key ' || n, sha256(n::text::bytea) from generate_series(1, 5000) as n`,
    );
    await client.query('vacuum analyze');
  });
  afterAll(async () => {
    await client.end();
    await dropDatabase(url);
  });

  /** All nodes of the plan that PostgreSQL followed. */
  async function plan({ name, text }: Statement, ...values: string[]): Promise<Node[]> {
    await client.query(`prepare "${name}" as ${text}`);
    const { rows } = await client.query(
      `explain (analyze, buffers, format json) execute "${name}" (${values.map((value) => `'${value}'`).join(', ')})`,
    );
    await client.query(`deallocate "${name}"`);
    const flatten = (node: Node): Node[] => [node, ...(node.Plans ?? []).flatMap(flatten)];
    return flatten(rows[0]['QUERY PLAN'][0].Plan);
  }

  it.each([
    ['the first page', PET_PAGES, 'pets_pkey', 'available', INT64_MIN],
    ['a page from the middle', PET_PAGES, 'pets_pkey', 'available', 25_000n],
    ['the last page', PET_PAGES, 'pets_pkey', 'available', 49_990n],
    [
      'the first page of a rare status',
      PET_PAGES_OF_STATUS,
      'pets_status_id_idx',
      'pending',
      INT64_MIN,
    ],
    ['a page of a rare status', PET_PAGES_OF_STATUS, 'pets_status_id_idx', 'pending', 25_000n],
    [
      'the last page of a common status',
      PET_PAGES_OF_STATUS,
      'pets_status_id_idx',
      'available',
      49_990n,
    ],
    ['the first page of orders', ORDER_PAGES, 'orders_pkey', null, INT64_MIN],
    ['a page of orders from the middle', ORDER_PAGES, 'orders_pkey', null, 25_000n],
    ['the last page of orders', ORDER_PAGES, 'orders_pkey', null, 49_990n],
  ] as const)(
    'reads no more than the rows of %s',
    async (_page, statement, index, filter, start) => {
      const nodes = await plan(statement, '{one}', `{${filter}}`, `{${start}}`, '{20}');
      const scans = nodes.filter((node) => node['Node Type'].includes('Scan'));
      expect(scans.map((node) => node['Index Name'] ?? node['Node Type'])).toEqual([
        'Function Scan',
        index,
      ]);
      expect(nodes.every((node) => node['Actual Rows'] <= 21)).toBe(true);
      expect(nodes.some((node) => node['Rows Removed by Filter'])).toBe(false);
      expect(nodes[0]!['Shared Hit Blocks'] + nodes[0]!['Shared Read Blocks']).toBeLessThan(50);
    },
  );

  it('finds pets by the primary key', async () => {
    const statement = await administer(
      url,
      async (dataSource) => petsById(dataSource.getRepository(Pet)),
      { entities: [Pet] },
    );
    const nodes = await plan(statement, '{1,25000,50000,999999}');
    expect(nodes.map((node) => node['Node Type'])).not.toContain('Seq Scan');
    expect(nodes.map((node) => node['Index Name'])).toContain('pets_pkey');
    expect(nodes[0]!['Shared Hit Blocks'] + nodes[0]!['Shared Read Blocks']).toBeLessThan(50);
  });

  it('finds the orders of an animal by their index', async () => {
    const ofPet = new Statement('orders-of-pet', 'select id from orders where pet_id = $1');
    const nodes = await plan(ofPet, '500');
    expect(nodes.map((node) => node['Index Name'])).toContain('orders_pet_id_idx');
    expect(nodes.map((node) => node['Node Type'])).not.toContain('Seq Scan');
  });

  it('finds keys by their hash', async () => {
    const nodes = await plan(VALID_KEYS, `{${'ab'.repeat(32)},${'cd'.repeat(32)}}`);
    expect(nodes.map((node) => node['Node Type'])).not.toContain('Seq Scan');
    expect(nodes.map((node) => node['Index Name'])).toContain('api_keys_hash_key');
  });
});
