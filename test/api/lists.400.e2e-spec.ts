import { INT64_MAX } from '../../src/int64.js';
import { Cursors } from '../../src/listing/cursors.js';
import { expectError, nextPage } from '../support/answers.js';
import { DOCUMENT, resolved } from '../support/contract.js';
import { LISTS } from '../support/lists.js';
import { serviceOfTests } from '../support/service.js';

/** Values that are no limit. */
const LIMITS = [
  '0 00 -0 -1 101 1000 1e1 1e 0x10 0b1 +5 %2B5 05 005 5.0 5. .5 %205 5%20 5%0A %095 5%00 1,0 1_0',
  '% %zz 2% 5;status=sold %EF%BC%95 %D9%A5 %FF five null undefined NaN Infinity true 18446744073709551617',
].flatMap((values) => values.split(' '));

/** Values that are no status. */
const STATUSES =
  "% sold% SOLD Sold sold%20 %20sold sold%00 sold%0A sold,pending sol null undefined * toString sold'--";

/** Ways to send a parameter NAME that are no value. ENCODED is its name with a percent-encoded letter. */
const FORMS = [
  'NAME=VALUE&ENCODED=VALUE',
  `NAME=VALUE&${'x=1&'.repeat(1500)}NAME=VALUE`,
  'NAME=VALUE&NAME[]=VALUE',
  'NAME[]=VALUE&NAME=VALUE',
  'NAME=',
  'NAME',
  'NAME[gt]=VALUE',
  'NAME%5B%5D=VALUE',
];

describe.each(LISTS)('$operation 400', ({ path, parameters }) => {
  const service = serviceOfTests();
  let cursor: string;
  let cursorOfOtherList: string;
  beforeAll(async () => {
    for (const { insert } of LISTS) {
      await insert(service, [1, 2]);
    }
    const others = LISTS.filter((list) => list.path !== path);
    cursor = await cursorOf(path);
    cursorOfOtherList = await cursorOf(others[0]!.path);
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

  it('has the parameters of the OpenAPI document', () => {
    const { get } = DOCUMENT.paths[path.slice('/v1'.length)];
    const documented = get.parameters.map(resolved).filter((one: any) => one.in === 'query');
    expect(documented.map((one: any) => one.name).toSorted()).toEqual(parameters.toSorted());
  });

  describe.each(parameters)('refuses %s', (name) => {
    it.each(FORMS)('sent twice, empty or with brackets: %.60s', (form) => {
      const value =
        new Map(Object.entries({ limit: '5', status: 'sold', cursor })).get(name) ?? '1';
      const encoded = `%${name.charCodeAt(0).toString(16)}${name.slice(1)}`;
      const query = form
        .replaceAll('ENCODED', encoded)
        .replaceAll('NAME', name)
        .replaceAll('VALUE', value);
      return refuses(query, [name]);
    });
  });

  // src/listing/cursors.spec.ts has more.
  it.each<[string, (cursor: string) => string]>([
    ['an empty one', () => ''],
    ['an id', () => '1'],
    ['one with padding', (cursor) => `${cursor}=`],
    ['one with a line feed after it', (cursor) => `${cursor}%0A`],
    ['one of the other list', () => cursorOfOtherList],
    ['one of 8,000 characters', () => 'A'.repeat(8000)],
    [
      'one for after the greatest id',
      () => new Cursors(path === '/v1/pets' ? 'pets' : 'orders').after(INT64_MAX),
    ],
  ])('refuses a cursor that the service did not issue: %s', (_what, change) =>
    refuses(`cursor=${change(cursor)}`, ['cursor']),
  );

  it('names every error, and nothing else', async () => {
    await refuses(parameters.map((name) => `${name}=x`).join('&'), parameters);
    const answer = await service.api.get(`${path}?limit=0&cursor=${cursor}`);
    expect(answer.body.message).not.toMatch(/status|cursor/);
  });
});
