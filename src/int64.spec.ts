import fc from 'fast-check';
import { INT64_MAX, INT64_MIN, int64FromDecimal, int64FromJson } from './int64.js';

const int64 = fc.bigInt({ min: INT64_MIN, max: INT64_MAX });
const outside = fc.oneof(
  fc.bigInt({ min: INT64_MAX + 1n, max: 2n ** 80n }),
  fc.bigInt({ min: -(2n ** 80n), max: INT64_MIN - 1n }),
);

describe.each([
  ['int64FromDecimal', int64FromDecimal],
  ['int64FromJson', int64FromJson],
])('%s', (_name, read) => {
  it('reads every int64 exactly', () =>
    fc.assert(fc.property(int64, (value) => read(String(value)) === value)));

  it('refuses every integer outside int64', () =>
    fc.assert(fc.property(outside, (value) => read(String(value)) === undefined)));

  it.each([
    [String(INT64_MIN), INT64_MIN],
    [String(INT64_MAX), INT64_MAX],
    [String(INT64_MIN - 1n), undefined],
    [String(INT64_MAX + 1n), undefined],
  ])('knows the edge of int64 at %s', (text, value) => expect(read(text)).toBe(value));

  it.each(['', '-', '+1', ' 1', '1 ', '1\n', '0x1', '1n', '1_0', '١', '１', 'NaN', 'Infinity'])(
    'refuses %j',
    (text) => expect(read(text)).toBeUndefined(),
  );
});

describe('int64FromDecimal', () => {
  it.each(['-0', '00', '01', '-01', '1.0', '1e0', '1.', '.1', '--1'])('refuses %s', (text) =>
    expect(int64FromDecimal(text)).toBeUndefined(),
  );
});

describe('int64FromJson', () => {
  it.each([
    ['-0', 0n],
    ['0.000', 0n],
    ['-0e5', 0n],
    ['0e-99999', 0n],
    ['3.0', 3n],
    ['1e2', 100n],
    ['1E+2', 100n],
    ['1200e-2', 12n],
    ['-1.5e1', -15n],
    ['0.00001e5', 1n],
    ['9007199254740993.0', 9007199254740993n],
    ['0.9223372036854775807e19', INT64_MAX],
    ['-92233720368547758080e-1', INT64_MIN],
  ])('reads the value of %s', (text, value) => expect(int64FromJson(text)).toBe(value));

  it.each([
    '0.1',
    '-0.5',
    '1.5',
    '1e-1',
    '15e-1',
    '1e19',
    '1e400',
    '9223372036854775807.1',
    '9007199254740992.5',
    '1e9007199254740993',
    `1e${'9'.repeat(400)}`,
    `1e-${'9'.repeat(400)}`,
  ])('refuses %s', (text) => expect(int64FromJson(text)).toBeUndefined());

  it('judges any JSON number by its exact value', () => {
    const digits = fc.string({ unit: fc.constantFrom(...'0123456789'), maxLength: 20 });
    const whole = fc.oneof(fc.constant('0'), fc.bigInt({ min: 1n, max: 10n ** 20n }).map(String));
    fc.assert(
      fc.property(
        fc.constantFrom('', '-'),
        whole,
        digits,
        fc.integer({ min: -25, max: 25 }),
        (sign, whole, fraction, exponent) => {
          const text = `${sign}${whole}${fraction && `.${fraction}`}e${exponent}`;
          const numerator = BigInt(sign + whole + fraction) * 10n ** 50n;
          const denominator = 10n ** BigInt(50 - exponent + fraction.length);
          const value = numerator / denominator;
          const isInt64 =
            numerator % denominator === 0n && value >= INT64_MIN && value <= INT64_MAX;
          expect(int64FromJson(text)).toBe(isInt64 ? value : undefined);
        },
      ),
      { numRuns: 2000 },
    );
  });
});
