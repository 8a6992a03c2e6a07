import { parseQuery } from '../../src/http/request-target.js';

describe('parseQuery', () => {
  it.each([
    ['&&', {}],
    ['a', { a: '' }],
    ['a=1=2', { a: '1=2' }],
    ['a=1;b=2', { a: '1;b=2' }],
    ['%61=+1&%C3%A9=%26', { a: ' 1', é: '&' }],
    ['a=%zz', { a: '%zz' }],
    ['a=%ff', { a: '\ufffd' }],
    ['a]=1', { 'a]': '1' }],
    ['a=1&a[b][c]=1', { a: expect.any(Array) }],
  ])('reads %j', (text, query) => expect({ ...parseQuery(text) }).toEqual(query));

  it('keeps nothing of what is sent with brackets, however much it is', () => {
    const text = Array.from({ length: 4000 }, (_, i) => `a[${i}]=1`).join('&');
    expect({ ...parseQuery(text) }).toEqual({ a: [] });
  });

  it.each(['__proto__=1', '__proto__[a]=1', 'constructor[prototype][a]=1'])(
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
});
