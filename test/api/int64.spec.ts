import fc from 'fast-check';
import { INT64_MAX, INT64_MIN, int64FromJson } from '../../src/int64.js';

// get-pet.e2e-spec.ts has int64s in plain decimal.
it.each([
  ['-9223372036854775808', INT64_MIN],
  ['9223372036854775807', INT64_MAX],
  ['-9223372036854775809', undefined],
  ['9223372036854775808', undefined],
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
