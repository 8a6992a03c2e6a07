import fc from 'fast-check';
import { parseQuery } from '../../src/http/request-target.js';

const list = (text: string) => text.split(' ');

describe('parseQuery', () => {
  it.each([
    ['&&', {}],
    ['a', { a: '' }],
    ['a=1=2', { a: '1=2' }],
    ['a=1;b=2', { a: '1;b=2' }],
    ['a=+1', { a: ' 1' }],
    ['a=%', { a: '%' }],
    ['a=%zz', { a: '%zz' }],
    ['a=%ff', { a: '\ufffd' }],
    ['a]=1', { 'a]': '1' }],
  ])('reads %j', (text, query) => expect({ ...parseQuery(text) }).toEqual(query));

  it.each([
    ...list('a=1&a=1 a=1&a=2&a=3 a=1&%61=1 a&a a[]=1 a[] a[0]=1 a[b]=1 a[b][c]=1 a[=1 a%5B%5D=1'),
    ...list('a=1&a[]=1 a[]=1&a=1 a[b]=1&a[c]=1'),
  ])('makes no string of what is sent twice or with brackets: %s', (text) =>
    expect({ ...parseQuery(text) }).toEqual({ a: expect.any(Array) }),
  );

  it('keeps nothing of what is sent with brackets, however much it is', () => {
    const text = Array.from({ length: 4000 }, (_, i) => `a[${i}]=1`).join('&');
    expect({ ...parseQuery(text) }).toEqual({ a: [] });
  });

  it.each(list('__proto__=1 __proto__[a]=1 constructor[prototype][a]=1 __proto__=1&__proto__=2'))(
    'gives no name a meaning of its own: %s',
    (text) => {
      const query = parseQuery(text);
      expect(Object.getPrototypeOf(query)).toBeNull();
      expect(Object.keys(query)).toHaveLength(1);
      expect(query['a']).toBeUndefined();
      expect({}).not.toHaveProperty('a');
    },
  );

  it('counts a name sent twice also after a thousand others', () => {
    const others = Array.from({ length: 1500 }, (_, i) => `x${i}=1`).join('&');
    expect(parseQuery(`a=1&${others}&a=2`)['a']).toEqual(['1', '2']);
  });

  it('reads back any parameters, each sent once', () => {
    const text = fc.string({ unit: 'binary' });
    const name = fc
      .string({ unit: 'binary', minLength: 1 })
      .filter((characters) => !characters.includes('['));
    fc.assert(
      fc.property(fc.dictionary(name, text), (parameters) => {
        const sent = new URLSearchParams(Object.entries(parameters)).toString();
        expect(Object.entries(parseQuery(sent))).toEqual(Object.entries(parameters));
      }),
    );
  });

  it('reads any text', () =>
    fc.assert(
      fc.property(fc.string({ unit: fc.constantFrom(...'a[]=&%+;2F') }), (text) => {
        for (const value of Object.values(parseQuery(text))) {
          expect(typeof value === 'string' || Array.isArray(value)).toBe(true);
        }
      }),
      { numRuns: 1000 },
    ));
});
