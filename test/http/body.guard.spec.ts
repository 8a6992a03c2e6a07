import fc from 'fast-check';
import { ApiError } from '../../src/errors/api-error.js';
import { parseJson as parseWithin } from '../../src/http/body.guard.js';
import { HttpLimits } from '../../src/http/limits.js';

const parseJson = (bytes: Uint8Array) => parseWithin(bytes, new HttpLimits());
const read = (text: string) => parseJson(Buffer.from(text));

/** @returns the code of the ApiError that `parseJson` throws. */
function refusal(bytes: Uint8Array): string {
  try {
    parseJson(bytes);
  } catch (error) {
    expect(error).toBeInstanceOf(ApiError);
    return (error as ApiError).code;
  }
  throw new Error('not refused');
}

const refusalOf = (text: string) => refusal(Buffer.from(text));

/** The value as text, keys in order; each number as `replace` has it. */
const written = (value: unknown, replace: (number: number | bigint) => number) =>
  JSON.stringify(value, (_key, part) =>
    typeof part === 'bigint' || typeof part === 'number' ? replace(part) : part,
  );

describe('parseJson against JSON.parse', () => {
  /** Doubles round, so that only canonical numbers compare. */
  const agrees = (text: string) => {
    const bytes = Buffer.from(text);
    let expected: string;
    try {
      expected = written(JSON.parse(new TextDecoder().decode(bytes)), () => 0);
    } catch {
      expect(refusal(bytes)).toBe('invalid_json');
      return;
    }
    expect(written(parseJson(bytes), () => 0)).toBe(expected);
  };

  it('reads any JSON value as JSON.parse does', () =>
    fc.assert(
      fc.property(fc.json(), (text) => {
        expect(written(read(text), Number)).toBe(written(JSON.parse(text), Number));
      }),
      { numRuns: 1000 },
    ));

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

  it('takes the last of repeated keys at the first one’s place, as JSON.parse does', () => {
    const key = fc.constantFrom('a', 'b', '1', '__proto__', 'constructor', 'toString');
    const members = fc.array(fc.tuple(key, fc.jsonValue({ maxDepth: 1 })));
    fc.assert(
      fc.property(members, (entries) =>
        agrees(`{${entries.map(([name, value]) => `"${name}":${JSON.stringify(value)}`)}}`),
      ),
      { numRuns: 1000 },
    );
  });
});

describe('parseJson', () => {
  it.each([
    ['9007199254740991', 9007199254740991],
    ['9007199254740993', 9007199254740993n],
    ['-9223372036854775808', -(2n ** 63n)],
    ['9223372036854775807', 2n ** 63n - 1n],
    ['123456789012e7', 1234567890120000000n],
    ['3.0', 3],
    ['1e2', 100],
    ['-0', -0],
    ['9223372036854775808', 2 ** 63],
    ['1.5', 1.5],
    ['1.00000000000000000001', NaN],
    ['1e400', Infinity],
  ])('reads the number %s as %s', (text, value) => expect(read(text)).toBe(value));

  it.each([
    ['{"a":1,"\\u0061":2}', { a: 2 }],
    ['{"a":{"b":1},"a":{"c":2}}', { a: { c: 2 } }],
    ['{"a":0.5,"a":0.5}', { a: 0.5 }],
  ])('takes the last value of a repeated key: %s', (text, value) =>
    expect(read(text)).toStrictEqual(value),
  );

  it.each(['{"__proto__":{"x":1}}', '{"__proto__":null}', '{"__proto__":1,"__proto__":{"x":1}}'])(
    'reads __proto__ as a key like any other: %s',
    (text) => {
      const value = read(text) as object;
      expect(Object.getPrototypeOf(value)).toBe(Object.prototype);
      expect(Object.keys(value)).toEqual(['__proto__']);
      expect(value).not.toHaveProperty('x');
      expect({}).not.toHaveProperty('x');
    },
  );

  it('skips one leading BOM of each body, also after a body that is not UTF-8', () => {
    const bom = '\ufeff{"a":1}';
    expect([read(bom), read(bom)]).toEqual([{ a: 1 }, { a: 1 }]);
    expect(refusal(Buffer.from([0xef, 0xbb, 0xbf, 0xff]))).toBe('invalid_json');
    expect(read(bom)).toEqual({ a: 1 });
    expect(read('"\ufeff"')).toBe('\ufeff');
  });

  it.each(['\ufeff\ufeff{}', '{\ufeff}', '{}\ufeff', '\ufeff'])('refuses %j: another BOM', (text) =>
    expect(refusalOf(text)).toBe('invalid_json'),
  );

  it('refuses bytes exactly where they are not UTF-8', () => {
    const latin1 = fc.uint8Array({ maxLength: 6, min: 0x61 }).map((bytes) => [...bytes]);
    const near = fc.constantFrom(
      [0x80],
      [0xc0, 0xaf],
      [0xed, 0xa0, 0x80],
      [0xf4, 0x90, 0x80, 0x80],
    );
    fc.assert(
      fc.property(fc.oneof(latin1, near), (letters) => {
        const bytes = Buffer.from([0x22, ...letters, 0x22]);
        const text = bytes.toString();
        if (Buffer.from(text).equals(bytes)) {
          expect(parseJson(bytes)).toBe(text.slice(1, -1));
        } else {
          expect(refusal(bytes)).toBe('invalid_json');
        }
      }),
      { numRuns: 2000 },
    );
  });

  it.each([
    ['arrays', 1, '[', ']', ''],
    ['objects', 1, '{"a":', '}', '1'],
    ['both', 2, '{"a":[', ']}', ''],
  ])('reads 32 levels of %s and refuses 33', (_what, levels, open, close, inner) => {
    const nested = open.repeat(32 / levels) + inner + close.repeat(32 / levels);
    expect(() => read(nested)).not.toThrow();
    expect(refusalOf(`[${nested}]`)).toBe('invalid_request');
  });

  it('counts levels, not brackets', () => {
    expect(read(`[${'[],'.repeat(1000)}[]]`)).toHaveLength(1001);
    expect(read(JSON.stringify('[{"\\'.repeat(100)))).toBe('[{"\\'.repeat(100));
    const brackets = read(`{${'"[":{},"]":[],'.repeat(100)}"\\"[":1}`);
    expect(brackets).toEqual({ '[': {}, ']': [], '"[': 1 });
  });

  it.each([
    ['arrays', '['.repeat(2000) + ']'.repeat(2000)],
    ['objects', '{"":'.repeat(2000) + '1' + '}'.repeat(2000)],
    ['arrays that are never closed', '['.repeat(16 * 1024)],
    ['arrays after a string', `["\\"${'['.repeat(2000)}",${'['.repeat(2000)}`],
  ])('refuses 2,000 levels in 16 KiB: %s', (_what, text) => {
    expect(text.length).toBeLessThanOrEqual(16 * 1024);
    expect(refusalOf(text)).toBe('invalid_request');
  });

  it.each([']'.repeat(50) + '['.repeat(40), '"'.repeat(3) + '['.repeat(40), '\\"['])(
    'refuses brackets out of order: %s',
    (text) => expect(['invalid_json', 'invalid_request']).toContain(refusalOf(text)),
  );
});
