import fc from 'fast-check';
import { ApiError } from '../../src/errors/api-error.js';
import { parseJson } from '../../src/http/body.guard.js';
import { HttpLimits } from '../../src/http/limits.js';

const read = (text: string) => parseJson(Buffer.from(text), new HttpLimits());

/** @returns the code of the ApiError that `parseJson` throws. */
function refusal(text: string): string {
  try {
    read(text);
  } catch (error) {
    expect(error).toBeInstanceOf(ApiError);
    return (error as ApiError).code;
  }
  throw new Error('not refused');
}

/** The value as text, keys in order, without the numbers: JSON.parse rounds them. */
const written = (value: unknown) =>
  JSON.stringify(value, (_key, part) => (/bigint|number/.test(typeof part) ? 0 : part));

it('parseJson reads and refuses any text as JSON.parse does, after one BOM', () => {
  const token = fc.constantFrom(
    ' ',
    ...'{ } [ ] , : " \\ "a" "__proto__" true false null - 0 1 9 . e E +'.split(' '),
    ..."u0041 ud83d n / x ' NaN é 😀 // /* */ undefined".split(' '),
    ...'\t\n\r\v\f\0\u001f\u007f\u00a0\u2028\ufeff',
  );
  const tokens = fc.array(token, { maxLength: 12 }).map((some) => some.join(''));
  const bom = fc.constantFrom('', '\ufeff', '\ufeff\ufeff');
  const property = fc.property(bom, fc.oneof(fc.json(), tokens), (before, after) => {
    const text = before + after;
    let expected: string;
    try {
      expected = written(JSON.parse(text.replace(/^\ufeff/, '')));
    } catch {
      expect(refusal(text)).toBe('invalid_json');
      return;
    }
    expect(written(read(text))).toBe(expected);
  });
  fc.assert(property, { numRuns: 6_000 });
});

it.each([
  ['9007199254740993', 9007199254740993n],
  ['3.0', 3],
  ['-0', -0],
  ['9223372036854775808', 2 ** 63],
  ['1.5', 1.5],
  ['1.00000000000000000001', NaN],
  ['1e400', Infinity],
])('parseJson reads the number %s as %s', (text, value) => expect(read(text)).toBe(value));

it('parseJson reads 32 levels and refuses 33, and 8,000', () => {
  const nested = (levels: number) => '{"a":['.repeat(levels / 2) + ']}'.repeat(levels / 2);
  expect(() => read(nested(32))).not.toThrow();
  expect(refusal(`[${nested(32)}]`)).toBe('invalid_request');
  expect(refusal(nested(8_000))).toBe('invalid_request');
  const replaced = `[${'['.repeat(8_000)}${']'.repeat(8_000)}]`;
  expect(refusal(`{"a":${replaced},"a":0.5}`)).toBe('invalid_request');
});

it('parseJson takes the last of repeated keys, also where it reads numbers exactly', () =>
  expect(read('{"a":1,"b":0.5,"a":{"c":2}}')).toEqual({ a: { c: 2 }, b: 0.5 }));
