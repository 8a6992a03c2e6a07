import { INT64_MAX } from '../../src/int64.js';
import { Cursors } from '../../src/listing/cursors.js';
import { expectError, nextPage } from '../support/answers.js';
import { startService, type TestService } from '../support/service.js';

describe('listOrders 400', () => {
  let service: TestService;
  let cursor: string;
  let petsCursor: string;
  beforeAll(async () => {
    service = await startService();
    await service.query(`insert into pets (name, category_id) values ('a', 1), ('b', 1)`);
    await service.query(`insert into orders (pet_id) values (1), (1)`);
    cursor = await cursorOf('/v1/store/orders?limit=1');
    petsCursor = await cursorOf('/v1/pets?limit=1');
  });
  afterAll(() => service.stop());

  const cursorOf = async (path: string) => {
    const next = nextPage(await service.api.get(path))!;
    return new URLSearchParams(next.split('?')[1]).get('cursor')!;
  };
  const refuses = async (query: string, words: string[]) =>
    expectError(await service.api.get(`/v1/store/orders?${query}`), 400, 'invalid_request', words);

  it.each([
    '0',
    '-1',
    '101',
    '1e1',
    '0x10',
    '+5',
    '05',
    '5.0',
    '%205',
    'five',
    '9'.repeat(400),
    '',
  ])('refuses limit=%s', (limit) => refuses(`limit=${limit}`, ['limit']));

  it.each([
    ['limit', 'limit=5&limit=5'],
    ['limit', 'limit[]=5'],
    ['limit', 'limit[gt]=5'],
    ['limit', 'limit'],
    ['cursor', 'cursor=CURSOR&cursor=CURSOR'],
    ['cursor', 'cursor[]=CURSOR'],
    ['cursor', 'cursor'],
  ])('refuses %s sent twice, empty or with brackets: %s', (parameter, query) =>
    refuses(query.replaceAll('CURSOR', cursor), [parameter]),
  );

  it.each<[string, (cursor: string) => string]>([
    ['an empty one', () => ''],
    ['an id', () => '1'],
    ['arbitrary text', () => 'abcdefghijklmnop'],
    ['one cut short', (cursor) => cursor.slice(0, -1)],
    ['one made longer', (cursor) => `${cursor}A`],
    ['one in upper case', (cursor) => cursor.toUpperCase()],
    ['one for after the greatest id', () => new Cursors('orders').after(INT64_MAX)],
  ])('refuses a cursor that the service did not issue: %s', (_what, change) =>
    refuses(`cursor=${change(cursor)}`, ['cursor']),
  );

  it('refuses a cursor of pets, as listPets refuses one of orders', async () => {
    await refuses(`cursor=${petsCursor}`, ['cursor']);
    const answer = await service.api.get(`/v1/pets?cursor=${cursor}`);
    expectError(answer, 400, 'invalid_request', ['cursor']);
  });

  it('names every fault', () => refuses('limit=0&cursor=x', ['limit', 'cursor']));
});
