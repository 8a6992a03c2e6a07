import fc from 'fast-check';
import { INT64_MAX, INT64_MIN, int64FromDecimal, int64FromJson } from './int64.js';

const list = (text: string) => text.split(' ');

const outside = fc.oneof(
  fc.bigInt({ min: INT64_MAX + 1n, max: 2n ** 80n }),
  fc.bigInt({ min: -(2n ** 80n), max: INT64_MIN - 1n }),
);

describe.each([
  ['int64FromDecimal', int64FromDecimal],
  ['int64FromJson', int64FromJson],
])('%s', (_name, read) => {
  it('reads every int64 exactly, and refuses every integer outside', () => {
    const int64 = fc.bigInt({ min: INT64_MIN, max: INT64_MAX });
    fc.assert(fc.property(int64, (value) => read(String(value)) === value));
    fc.assert(fc.property(outside, (value) => read(String(value)) === undefined));
    const edges = [INT64_MIN - 1n, INT64_MIN, INT64_MAX, INT64_MAX + 1n];
    const expected = [undefined, INT64_MIN, INT64_MAX, undefined];
    expect(edges.map((edge) => read(String(edge)))).toEqual(expected);
  });

  it.each(['', ' 1', '1 ', '1\n', ...list('- +1 0x1 1n 1_0 ١ １ NaN Infinity')])(
    'refuses %j',
    (text) => expect(read(text)).toBeUndefined(),
  );
});

it.each(list('-0 00 01 -01 1.0 1e0 1. .1 --1'))('int64FromDecimal refuses %s', (text) =>
  expect(int64FromDecimal(text)).toBeUndefined(),
);

describe('int64FromJson', () => {
  it.each([
    ['-0', 0n],
    ['-0e5', 0n],
    ['0e-99999', 0n],
    ['1E+2', 100n],
    ['9007199254740993.0', 9007199254740993n],
    ['0.9223372036854775807e19', INT64_MAX],
    ['-92233720368547758080e-1', INT64_MIN],
    ['9223372036854775807.1', undefined],
    ['1e9007199254740993', undefined],
    [`1e${'9'.repeat(400)}`, undefined],
    [`1e-${'9'.repeat(400)}`, undefined],
  ])('reads %s as %s', (text, value) => expect(int64FromJson(text)).toBe(value));

  it('judges any JSON number by its exact value', () => {
    const digits = fc.string({ unit: fc.constantFrom(...'0123456789'), maxLength: 20 });
    const whole = fc.oneof(fc.constant('0'), fc.bigInt({ min: 1n, max: 10n ** 20n }).map(String));
    const exponents = fc.integer({ min: -25, max: 25 });
    fc.assert(
      fc.property(fc.constantFrom('', '-'), whole, digits, exponents, (sign, int, part, power) => {
        const text = `${sign}${int}${part && `.${part}`}e${power}`;
        const numerator = BigInt(sign + int + part) * 10n ** 50n;
        const denominator = 10n ** BigInt(50 - power + part.length);
        const value = numerator / denominator;
        const isInt64 = numerator % denominator === 0n && value >= INT64_MIN && value <= INT64_MAX;
        expect(int64FromJson(text)).toBe(isInt64 ? value : undefined);
      }),
      { numRuns: 2000 },
    );
  });
});
