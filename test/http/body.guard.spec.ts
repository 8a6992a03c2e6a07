import fc from 'fast-check';
import { ApiError } from '../../src/errors/api-error.js';
import { parseJson } from '../../src/http/body.guard.js';
import { HttpLimits } from '../../src/http/limits.js';

const read = (body: string | Uint8Array) =>
  parseJson(typeof body === 'string' ? Buffer.from(body) : body, new HttpLimits());

/** @returns the code of the ApiError that `parseJson` throws. */
function refusal(body: string | Uint8Array): string {
  try {
    read(body);
  } catch (error) {
    expect(error).toBeInstanceOf(ApiError);
    return (error as ApiError).code;
  }
  throw new Error('not refused');
}

/** The value as text, keys in order, without the numbers: JSON.parse rounds them. */
const written = (value: unknown) =>
  JSON.stringify(value, (_key, part) => (/bigint|number/.test(typeof part) ? 0 : part));

describe('parseJson against JSON.parse', () => {
  function agrees(text: string): void {
    let expected: string;
    try {
      expected = written(JSON.parse(new TextDecoder().decode(Buffer.from(text))));
    } catch {
      expect(refusal(text)).toBe('invalid_json');
      return;
    }
    expect(written(read(text))).toBe(expected);
  }

  it('reads any JSON value as JSON.parse does', () =>
    fc.assert(fc.property(fc.json(), agrees), { numRuns: 1000 }));

  it('accepts and refuses any sequence of tokens as JSON.parse does', () => {
    const token = fc.constantFrom(
      ' ',
      ...'{ } [ ] , : " \\ "a" "__proto__" true false null - 0 1 9 . e E +'.split(' '),
      ..."u0041 ud83d n / x ' NaN é 😀 // /* */ undefined".split(' '),
      ...'\t\n\r\v\f\0\u001f\u007f\u00a0\u2028\ufeff',
    );
    fc.assert(
      fc.property(fc.array(token, { maxLength: 12 }), (tokens) => agrees(tokens.join(''))),
      { numRuns: 5000 },
    );
  });
});

describe('parseJson', () => {
  it.each([
    ['9007199254740993', 9007199254740993n],
    ['9223372036854775807', 2n ** 63n - 1n],
    ['123456789012e7', 1234567890120000000n],
    ['3.0', 3],
    ['-0', -0],
    ['9223372036854775808', 2 ** 63],
    ['1.5', 1.5],
    ['1.00000000000000000001', NaN],
    ['1e400', Infinity],
  ])('reads the number %s as %s', (text, value) => expect(read(text)).toBe(value));

  it('skips one leading BOM of each body, and no other, also after a body that is not UTF-8', () => {
    for (const body of ['\ufeff\ufeff{}', '{\ufeff}', '{}\ufeff', '\ufeff', '\ufeff"\ud800']) {
      expect(refusal(body)).toBe('invalid_json');
      expect(read('\ufeff{"a":"\ufeff"}')).toEqual({ a: '\ufeff' });
    }
  });

  it.each(['ff', '80', 'c0af', 'eda080', 'f4908080', 'c3', 'e28028'])(
    'refuses the bytes %s, which are not UTF-8',
    (hex) => expect(refusal(Buffer.from(`22${hex}22`, 'hex'))).toBe('invalid_json'),
  );

  it.each([
    ['arrays', 1, '[', ']', ''],
    ['objects', 1, '{"a":', '}', '1'],
    ['both', 2, '{"a":[', ']}', ''],
  ])('reads 32 levels of %s and refuses 33, and 8,000', (_what, levels, open, close, inner) => {
    const nested = (count: number) =>
      open.repeat(count / levels) + inner + close.repeat(count / levels);
    expect(() => read(nested(32))).not.toThrow();
    expect(refusal(`[${nested(32)}]`)).toBe('invalid_request');
    expect(refusal(nested(8_000))).toBe('invalid_request');
  });

  it('takes the last of repeated keys', () =>
    expect(read('{"a":1,"b":0.5,"a":{"c":2}}')).toEqual({ a: { c: 2 }, b: 0.5 }));
});
