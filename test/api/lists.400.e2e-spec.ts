import { INT64_MAX } from '../../src/int64.js';
import { Cursors } from '../../src/listing/cursors.js';
import { expectError, nextPage } from '../support/answers.js';
import { serviceOfTests } from '../support/service.js';

/** Values that are no limit. */
const LIMITS = [
  '0 00 -0 -1 101 1000 1e1 1e 0x10 0b1 +5 %2B5 05 005 5.0 5. .5 %205 5%20 5%0A %095 5%00 1,0 1_0',
  '5;status=sold %EF%BC%95 %D9%A5 %FF five null undefined NaN Infinity true 18446744073709551617',
].flatMap((values) => values.split(' '));

/** Values that are no status. */
const STATUSES =
  "SOLD Sold sold%20 %20sold sold%00 sold%0A sold,pending sol null undefined * toString sold'--";

/** Ways to send a parameter NAME that are no value. ENCODED is its name with a percent-encoded letter. */
const FORMS = [
  'NAME=VALUE&NAME=VALUE',
  'NAME=VALUE&ENCODED=VALUE',
  'NAME&NAME=VALUE',
  'NAME=VALUE&NAME[]=VALUE',
  'NAME[]=VALUE&NAME=VALUE',
  'NAME=',
  'NAME',
  'NAME[]',
  'NAME[]=VALUE',
  'NAME[0]=VALUE',
  'NAME[gt]=VALUE',
  'NAME%5B%5D=VALUE',
  'NAME[=VALUE',
];

describe.each([
  ['listPets', '/v1/pets', ['limit', 'status', 'cursor']],
  ['listOrders', '/v1/store/orders', ['limit', 'cursor']],
] as const)('%s 400', (_operation, path, parameters) => {
  const service = serviceOfTests();
  let cursor: string;
  let cursorOfOtherList: string;
  beforeAll(async () => {
    await service.query(`insert into pets (name, category_id) values ('a', 1), ('b', 1)`);
    await service.query(`insert into orders (pet_id) values (1), (1)`);
    cursor = await cursorOf(path);
    cursorOfOtherList = await cursorOf(path === '/v1/pets' ? '/v1/store/orders' : '/v1/pets');
  });

  const cursorOf = async (list: string) => {
    const next = nextPage(await service.api.get(`${list}?limit=1`))!;
    return new URLSearchParams(next.split('?')[1]).get('cursor')!;
  };
  const refuses = async (query: string, words: readonly string[]) =>
    expectError(await service.api.get(`${path}?${query}`), 400, 'invalid_request', words);

  it.each([...LIMITS, '9'.repeat(400)])('refuses limit=%s', (limit) =>
    refuses(`limit=${limit}`, ['limit']),
  );

  if (path === '/v1/pets') {
    it.each(STATUSES.split(' '))('refuses status=%s', (status) =>
      refuses(`status=${status}`, ['status']),
    );
  }

  describe.each(parameters)('refuses %s', (name) => {
    it.each(FORMS)('sent twice, empty or with brackets: %s', (form) => {
      const value = { limit: '5', status: 'sold', cursor }[name];
      const encoded = `%${name.charCodeAt(0).toString(16)}${name.slice(1)}`;
      const query = form
        .replaceAll('ENCODED', encoded)
        .replaceAll('NAME', name)
        .replaceAll('VALUE', value);
      return refuses(query, [name]);
    });
  });

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
    ['one of the other list', () => cursorOfOtherList],
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

  it('refuses a cursor for after the greatest id', () => {
    const list = path === '/v1/pets' ? 'pets' : 'orders';
    return refuses(`cursor=${new Cursors(list).after(INT64_MAX)}`, ['cursor']);
  });

  it('names every fault', () => {
    const query = parameters.map((name) => `${name}=x`).join('&');
    return refuses(query, parameters);
  });

  it('names only faults', async () => {
    const answer = await service.api.get(`${path}?limit=0&cursor=${cursor}`);
    expect(answer.body.message).not.toMatch(/status|cursor/);
  });
});
