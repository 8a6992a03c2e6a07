import { INT64_MAX } from '../../src/int64.js';
import { Cursors } from '../../src/listing/cursors.js';
import { expectError, nextPage } from '../support/answers.js';
import { startService, type TestService } from '../support/service.js';

describe('listPets 400', () => {
  let service: TestService;
  let cursor: string;
  beforeAll(async () => {
    service = await startService();
    await service.query(`insert into pets (name, category_id) values ('a', 1), ('b', 1)`);
    const next = nextPage(await service.api.get('/v1/pets?limit=1'))!;
    cursor = new URLSearchParams(next.split('?')[1]).get('cursor')!;
  });
  afterAll(() => service.stop());

  const refuses = async (query: string, words: string[]) =>
    expectError(await service.api.get(`/v1/pets?${query}`), 400, 'invalid_request', words);

  it.each([
    ['0'],
    ['00'],
    ['-0'],
    ['-1'],
    ['101'],
    ['1000'],
    ['1e1'],
    ['1e'],
    ['0x10'],
    ['0b1'],
    ['+5'],
    ['%2B5'],
    ['05'],
    ['005'],
    ['5.0'],
    ['5.'],
    ['.5'],
    ['%205'],
    ['5%20'],
    ['5%0A'],
    ['%095'],
    ['5%00'],
    ['1,0'],
    ['1_0'],
    ['5;status=sold'],
    ['%EF%BC%95'],
    ['%D9%A5'],
    ['%FF'],
    ['five'],
    ['null'],
    ['undefined'],
    ['NaN'],
    ['Infinity'],
    ['true'],
    ['18446744073709551617'],
    ['9'.repeat(400)],
    [''],
  ])('refuses limit=%s', (limit) => refuses(`limit=${limit}`, ['limit']));

  it.each([
    ['SOLD'],
    ['Sold'],
    ['sold%20'],
    ['%20sold'],
    ['sold%00'],
    ['sold%0A'],
    ['sold,pending'],
    ['sol'],
    ['null'],
    ['undefined'],
    ['*'],
    ['toString'],
    ["sold'--"],
    [''],
  ])('refuses status=%s', (status) => refuses(`status=${status}`, ['status']));

  it.each([
    ['limit', 'limit=5&limit=5'],
    ['limit', 'limit=5&limit=6'],
    ['limit', 'limit=5&%6Cimit=5'],
    ['limit', 'limit&limit=5'],
    ['limit', 'limit'],
    ['limit', 'limit[]=5'],
    ['limit', 'limit[0]=5'],
    ['limit', 'limit[gt]=5'],
    ['limit', 'limit%5B%5D=5'],
    ['limit', 'limit[=5'],
    ['limit', 'limit=5&limit[]=5'],
    ['limit', 'limit[]=5&limit=5'],
    ['status', 'status=sold&status=sold'],
    ['status', 'status=sold&status=pending'],
    ['status', 'status[]=sold'],
    ['status', 'status[eq]=sold'],
    ['status', 'status[]'],
    ['status', 'status'],
    ['cursor', 'cursor[]=CURSOR'],
    ['cursor', 'cursor=CURSOR&cursor=CURSOR'],
    ['cursor', 'cursor=CURSOR&cursor[]=CURSOR'],
    ['cursor', 'cursor'],
  ])('refuses %s sent twice, empty or with brackets: %s', (parameter, query) =>
    refuses(query.replaceAll('CURSOR', cursor), [parameter]),
  );

  it.each<[string, (cursor: string) => string]>([
    ['an empty one', () => ''],
    ['an id', () => '1'],
    ['an id in base64url', () => Buffer.from('1').toString('base64url')],
    ['8 bytes without a checksum', () => Buffer.alloc(8, 1).toString('base64url')],
    ['12 bytes of zero', () => 'A'.repeat(16)],
    ['arbitrary text', () => 'abcdefghijklmnop'],
    ['one cut short', (cursor) => cursor.slice(0, -1)],
    ['one made longer', (cursor) => `${cursor}A`],
    ['one with padding', (cursor) => `${cursor}=`],
    ['one with a space before it', (cursor) => `%20${cursor}`],
    ['one with a line feed after it', (cursor) => `${cursor}%0A`],
    ['one with a NUL after it', (cursor) => `${cursor}%00`],
    ['one twice', (cursor) => cursor + cursor],
    ['one in upper case', (cursor) => cursor.toUpperCase()],
    ['one for after the greatest id', () => new Cursors('pets').after(INT64_MAX)],
    ['one of orders', () => new Cursors('orders').after(1n)],
    ['one of 8,000 characters', () => 'A'.repeat(8000)],
  ])('refuses a cursor that the service did not issue: %s', (_what, change) =>
    refuses(`cursor=${change(cursor)}`, ['cursor']),
  );

  it('refuses an issued cursor with any one character changed', async () => {
    for (let i = 0; i < cursor.length; i += 1) {
      const other = cursor[i] === 'B' ? 'C' : 'B';
      await refuses(`cursor=${cursor.slice(0, i)}${other}${cursor.slice(i + 1)}`, ['cursor']);
    }
  });

  it('names every fault', () =>
    refuses('limit=0&status=gone&cursor=x', ['limit', 'status', 'cursor']));

  it('names only faults', async () => {
    const answer = await service.api.get('/v1/pets?limit=0&status=sold');
    expect(answer.body.message).not.toMatch(/status|cursor/);
  });
});
