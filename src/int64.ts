export const INT64_MIN = -(2n ** 63n);
export const INT64_MAX = 2n ** 63n - 1n;

/** The int64 that `text` writes in plain decimal, if it does: no sign but `-`, no leading zero, no `-0`. */
export const int64FromDecimal = (text: string): bigint | undefined =>
  /^(?:0|-?[1-9][0-9]{0,18})$/.test(text) ? inRange(BigInt(text)) : undefined;

/** The int64 that is the exact value of a JSON number, if it is one (RFC 8259, section 6): `3.0` and `1e2` are 3 and 100. */
export function int64FromJson(text: string): bigint | undefined {
  const [, sign, whole = '', fraction = '', exponent = '0'] =
    /^(-?)([0-9]+)(?:\.([0-9]+))?(?:[eE]([+-]?[0-9]+))?$/.exec(text) ?? [];
  const digits = (whole + fraction).replace(/^0+/, '');
  // Not a regular expression, because its time would be quadratic in the length of a run of zeros.
  const significant = digits.slice(0, [...digits].findLastIndex((digit) => digit !== '0') + 1);
  if (significant === '') {
    return whole === '' ? undefined : 0n;
  }
  const power = Number(exponent) - fraction.length + (digits.length - significant.length);
  if (power < 0 || significant.length + power > 19) {
    return undefined;
  }
  return inRange(BigInt(sign + significant + '0'.repeat(power)));
}

/** A bigint if it is an int64 that a JavaScript number might round, NaN if it is a fraction that would become an integer. */
export function numberFromJson(text: string): number | bigint {
  const exact = int64FromJson(text);
  const rounded = Number(text);
  if (Number.isSafeInteger(rounded)) {
    return exact === undefined ? NaN : rounded;
  }
  return exact ?? rounded;
}

const inRange = (value: bigint) => (value >= INT64_MIN && value <= INT64_MAX ? value : undefined);
