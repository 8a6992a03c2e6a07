import { send } from '../support/send.js';
import { serviceOfTests } from '../support/service.js';
import { LISTS } from '../support/lists.js';

const MIN = '-9223372036854775808';
const MAX = '9223372036854775807';

describe.each(LISTS)('$operation 200', ({ path, insert }) => {
  const service = serviceOfTests();
  beforeEach(() => service.query('truncate pets, orders restart identity cascade'));

  const upTo = (count: number) => Array.from({ length: count }, (_, i) => i + 1);
  const ids = async (query: string): Promise<number[]> => {
    const { body } = await service.api.get(`${path}?${query}`).expect(200);
    return body.map(({ id }: { id: number }) => id);
  };

  it('is an empty array without a Link if there are no items', async () => {
    const { text, headers } = await service.api.get(path).expect(200);
    expect(text).toBe('[]');
    expect(headers).not.toHaveProperty('link');
  });

  it('has at most limit items, and 20 without a limit', async () => {
    await insert(service, upTo(101));
    expect(await ids('')).toEqual(upTo(20));
    for (const limit of [1, 2, 19, 21, 99, 100]) {
      expect(await ids(`limit=${limit}`)).toEqual(upTo(limit));
    }
  });

  it('is in ascending order of ids over the whole range of int64, with every digit', async () => {
    const inOrder = [MIN, '-9007199254740993', '-1', '0', '1', '9007199254740993', MAX];
    await insert(service, inOrder);
    const { text, headers } = await service.api.get(path).expect(200);
    expect([...text.matchAll(/"id":(-?\d+)/g)].map(([, id]) => id)).toEqual(inOrder);
    expect(headers).not.toHaveProperty('link');
  });

  it.each([
    ...'page=2 offset=1 after=1 Limit=1 LIMIT=1 Status=sold id=1&id=2 sort[]=name limit]=1'.split(
      ' ',
    ),
    ...'access_token=x __proto__=1 __proto__[limit]=1 constructor=1 toString[a]=1 =1 % &&'.split(
      ' ',
    ),
  ])('ignores the unknown parameter %s', async (query) => {
    await insert(service, upTo(3));
    expect(await ids(query)).toEqual([1, 2, 3]);
  });

  it.each(['%6Cimit=2', 'l%69mit=%32', `${'x&'.repeat(1100)}limit=2`])(
    'reads %.20s… as limit=2',
    async (query) => {
      await insert(service, upTo(3));
      expect(await ids(query)).toEqual([1, 2]);
    },
  );

  it.each([
    ['If-None-Match', '*'],
    ['If-Modified-Since', 'Fri, 31 Dec 2100 00:00:00 GMT'],
  ])('is sent in full whatever %s says', async (name, value) => {
    await service.api.get(path).set(name, value).expect(200, []);
  });

  it.each([
    ['JSON', { 'Content-Type': 'application/json' }, '{"limit":1}'],
    ['broken JSON', { 'Content-Type': 'application/json' }, '{'],
    ['an unknown type', { 'Content-Type': 'text/plain' }, 'x'],
    ['a coding', { 'Content-Type': 'application/json', 'Content-Encoding': 'gzip' }, 'x'],
    ['16 KiB and a byte', { 'Content-Type': 'application/json' }, ' '.repeat(16 * 1024 + 1)],
    ['chunks', { 'Transfer-Encoding': 'chunked' }, 'some words in two chunks'],
  ])('ignores a body of %s', async (_what, headers, body) => {
    await insert(service, upTo(2));
    const { status, text } = await send(service, { method: 'GET', path, headers, body });
    expect([status, JSON.parse(text).length]).toEqual([200, 2]);
  });
});
