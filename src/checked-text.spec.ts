import fc from 'fast-check';
import { decodeChecked, encodeChecked } from './checked-text.js';

/** Of 3n + 2 bytes. */
const bytes = fc
  .nat(12)
  .chain((n) => fc.uint8Array({ minLength: 3 * n + 2, maxLength: 3 * n + 2 }))
  .map((array) => Buffer.from(array));

describe('checked text', () => {
  it('gives back its bytes', () =>
    fc.assert(
      fc.property(fc.string(), bytes, (purpose, bytes) => {
        expect(decodeChecked(purpose, encodeChecked(purpose, bytes))).toEqual(bytes);
      }),
    ));

  it('is URL-safe without padding', () =>
    fc.assert(fc.property(bytes, (bytes) => /^[A-Za-z0-9_-]+$/.test(encodeChecked('a', bytes)))));

  it('does not decode for another purpose', () =>
    fc.assert(
      fc.property(bytes, (bytes) => {
        const text = encodeChecked('pets', bytes);
        for (const other of ['', 'pet', 'Pets', 'pets ', 'keys']) {
          expect(decodeChecked(other, text)).toBeUndefined();
        }
      }),
    ));

  it('does not decode with one character changed, one left out or one added', () =>
    fc.assert(
      fc.property(bytes, fc.nat(), fc.constantFrom(...'AZaz09-_+/=. \n\0é'), (bytes, at, other) => {
        const text = encodeChecked('pets', bytes);
        const i = at % text.length;
        const [before, after] = [text.slice(0, i), text.slice(i + 1)];
        fc.pre(text[i] !== other);
        expect(decodeChecked('pets', before + other + after)).toBeUndefined();
        expect(decodeChecked('pets', before + after)).toBeUndefined();
        expect(decodeChecked('pets', before + other + text[i] + after)).toBeUndefined();
      }),
      { numRuns: 1000 },
    ));

  it.each(['', 'A', 'AAAA', 'AAAAAA', '=', '====', ' ', '\0', 'not one'])(
    'does not decode %j',
    (text) => expect(decodeChecked('pets', text)).toBeUndefined(),
  );

  it('stays as it was, so that what was written once still decodes', () => {
    expect(encodeChecked('pets', Buffer.from('0000000000000001', 'hex'))).toBe('AAAAAAAAAAE_l5eF');
  });
});
