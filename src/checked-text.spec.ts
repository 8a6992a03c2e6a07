import fc from 'fast-check';
import { decodeChecked, encodeChecked } from './checked-text.js';

/** Of 3n + 2 bytes. */
const bytes = fc
  .nat(12)
  .chain((n) => fc.uint8Array({ minLength: 3 * n + 2, maxLength: 3 * n + 2 }))
  .map((array) => Buffer.from(array));

describe('checked text', () => {
  it('is URL-safe without padding, and gives back its bytes for its purpose alone', () =>
    fc.assert(
      fc.property(fc.string(), bytes, (purpose, bytes) => {
        const text = encodeChecked(purpose, bytes);
        expect(text).toMatch(/^[A-Za-z0-9_-]+$/);
        expect(decodeChecked(purpose, text)).toEqual(bytes);
        expect(decodeChecked(`${purpose} `, text)).toBeUndefined();
        expect(decodeChecked('keys', encodeChecked('pets', bytes))).toBeUndefined();
      }),
    ));

  it('does not decode with one character changed, one left out or one added', () =>
    fc.assert(
      fc.property(bytes, fc.nat(), fc.constantFrom(...'AZaz09-_+/=. \n\0é'), (bytes, at, other) => {
        const text = encodeChecked('pets', bytes);
        const i = at % text.length;
        const [before, after] = [text.slice(0, i), text.slice(i + 1)];
        fc.pre(text[i] !== other);
        for (const instead of [other, '', other + text[i]]) {
          expect(decodeChecked('pets', before + instead + after)).toBeUndefined();
        }
      }),
      { numRuns: 1000 },
    ));

  it.each(['', 'A', 'AAAA', 'AAAAAA', '=', '====', ' ', '\0'])('does not decode %j', (text) =>
    expect(decodeChecked('pets', text)).toBeUndefined(),
  );

  it('stays as it was, so that what was written once still decodes', () => {
    expect(encodeChecked('pets', Buffer.from('0000000000000001', 'hex'))).toBe('AAAAAAAAAAE_l5eF');
  });
});
