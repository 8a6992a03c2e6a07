import fc from 'fast-check';
import { INT64_MAX, INT64_MIN, int64FromDecimal, int64FromJson } from '../../src/int64.js';

const NO_NUMBERS = ['', ' 1', '1 ', '1\n', ...'- +1 0x1 1n 1_0 ١ １ NaN Infinity'.split(' ')];

it.each([
  [int64FromDecimal, '-0 00 01 -01 1.0 1e0 1. .1 --1'.split(' ')],
  [int64FromJson, []],
])('%p reads every int64 exactly, and refuses all else', (read, others) => {
  const integer = fc.bigInt({ min: -(2n ** 65n), max: 2n ** 65n });
  const edges = [INT64_MIN - 1n, INT64_MIN, INT64_MAX, INT64_MAX + 1n];
  fc.assert(
    fc.property(integer, (value) => {
      const isInt64 = value >= INT64_MIN && value <= INT64_MAX;
      expect(read(String(value))).toBe(isInt64 ? value : undefined);
    }),
    { examples: edges.map((edge): [bigint] => [edge]), numRuns: 500 },
  );
  expect([...NO_NUMBERS, ...others].filter((text) => read(text) !== undefined)).toEqual([]);
});

it.each([
  ['-0e5', 0n],
  ['0e-99999', 0n],
  ['1E+2', 100n],
  ['0.9223372036854775807e19', INT64_MAX],
  ['-92233720368547758080e-1', INT64_MIN],
  ['9223372036854775807.1', undefined],
  ['1e9007199254740993', undefined],
  [`1e${'9'.repeat(400)}`, undefined],
  [`1e-${'9'.repeat(400)}`, undefined],
])('int64FromJson reads %s as %s', (text, value) => expect(int64FromJson(text)).toBe(value));

it('int64FromJson judges any JSON number by its exact value', () => {
  const digits = fc.string({ unit: fc.constantFrom(...'0123456789'), maxLength: 20 });
  const whole = fc.oneof(fc.constant('0'), fc.bigInt({ min: 1n, max: 10n ** 20n }).map(String));
  const exponents = fc.integer({ min: -25, max: 25 });
  fc.assert(
    fc.property(fc.constantFrom('', '-'), whole, digits, exponents, (sign, int, part, power) => {
      const numerator = BigInt(sign + int + part) * 10n ** 50n;
      const denominator = 10n ** BigInt(50 - power + part.length);
      const value = numerator / denominator;
      const isInt64 = numerator % denominator === 0n && value >= INT64_MIN && value <= INT64_MAX;
      const text = `${sign}${int}${part && `.${part}`}e${power}`;
      expect(int64FromJson(text)).toBe(isInt64 ? value : undefined);
    }),
    { numRuns: 2000 },
  );
});
