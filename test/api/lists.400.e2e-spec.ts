import { INT64_MAX } from '../../src/int64.js';
import { Cursors } from '../../src/listing/cursors.js';
import { expectError, nextPage } from '../support/answers.js';
import { startService, type TestService } from '../support/service.js';

const LIMITS =
  '0 00 -0 -1 101 1000 1e1 1e 0x10 0b1 +5 %2B5 05 005 5.0 5. .5 %205 5%20 5%0A %095 5%00 1,0 1_0 5;status=sold ' +
  '%EF%BC%95 %D9%A5 %FF five null undefined NaN Infinity true 18446744073709551617';
const STATUSES =
  "SOLD Sold sold%20 %20sold sold%00 sold%0A sold,pending sol null undefined * toString sold'--";

const VALUES = [
  ...[...LIMITS.split(' '), '9'.repeat(400)].map((value) => ['limit', value] as const),
  ...STATUSES.split(' ').map((value) => ['status', value] as const),
];

/** Of a parameter that has the value A, and B where it is sent again. */
const FORMS = [
  'NAME=A&NAME=A',
  'NAME=A&NAME=B',
  'NAME=A&%ENCODED=A',
  'NAME&NAME=A',
  'NAME',
  'NAME=',
  'NAME[]=A',
  'NAME[]',
  'NAME[0]=A',
  'NAME[gt]=A',
  'NAME%5B%5D=A',
  'NAME[=A',
  'NAME=A&NAME[]=A',
  'NAME[]=A&NAME=A',
];

const CHANGES: [string, (cursor: string) => string][] = [
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
  ['one of 8,000 characters', () => 'A'.repeat(8000)],
];

describe.each([
  ['listPets', '/v1/pets', 'pets', 'orders', ['limit', 'status', 'cursor']],
  ['listOrders', '/v1/store/orders', 'orders', 'pets', ['limit', 'cursor']],
])('%s 400', (_operation, path, list, otherList, parameters) => {
  let service: TestService;
  let cursor: string;
  beforeAll(async () => {
    service = await startService();
    await service.query(`insert into pets (name, category_id) values ('a', 1), ('b', 1)`);
    await service.query(`insert into orders (pet_id) values (1), (1)`);
    const next = nextPage(await service.api.get(`${path}?limit=1`))!;
    cursor = new URLSearchParams(next.split('?')[1]).get('cursor')!;
  });
  afterAll(() => service.stop());

  const refuses = async (query: string, ...words: string[]) =>
    expectError(await service.api.get(`${path}?${query}`), 400, 'invalid_request', words);

  it.each(VALUES.filter(([name]) => parameters.includes(name)))('refuses %s=%s', (name, value) =>
    refuses(`${name}=${value}`, name),
  );

  it.each(parameters.flatMap((name) => FORMS.map((form) => [name, form])))(
    'refuses %s sent twice, empty or with brackets: %s',
    async (name, form) => {
      const [a, b] = { limit: ['5', '6'], status: ['sold', 'pending'], cursor: [cursor, cursor] }[
        name
      ] as [string, string];
      const encoded = `${name.charCodeAt(0).toString(16)}${name.slice(1)}`;
      const query = form.replaceAll('=A', `=${a}`).replaceAll('=B', `=${b}`);
      await refuses(query.replaceAll('NAME', name).replaceAll('ENCODED', encoded), name);
    },
  );

  it.each(CHANGES)('refuses a cursor that the service did not issue: %s', (_what, change) =>
    refuses(`cursor=${change(cursor)}`, 'cursor'),
  );

  it('refuses the cursor of another list, and one for after the greatest id', async () => {
    await refuses(`cursor=${new Cursors(otherList).after(1n)}`, 'cursor');
    await refuses(`cursor=${new Cursors(list).after(INT64_MAX)}`, 'cursor');
  });

  it('refuses an issued cursor with any one character changed', async () => {
    for (let i = 0; i < cursor.length; i += 1) {
      const other = cursor[i] === 'B' ? 'C' : 'B';
      await refuses(`cursor=${cursor.slice(0, i)}${other}${cursor.slice(i + 1)}`, 'cursor');
    }
  });

  it('names every fault', () => refuses('limit=0&status=gone&cursor=x', ...parameters));

  it('names only faults', async () => {
    const answer = await service.api.get(`${path}?limit=0&status=sold`);
    expect(answer.body.message).not.toMatch(/status|cursor/);
  });
});
