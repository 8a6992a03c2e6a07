import fc from 'fast-check';
import { encodeChecked } from '../../src/checked-text.js';
import { INT64_MAX, INT64_MIN } from '../../src/http/int64.js';
import { cursorAfter, idBefore } from '../../src/pets/cursor.js';

/** Every id that another id can follow. */
const id = fc.bigInt({ min: INT64_MIN, max: INT64_MAX - 1n });
const URL_SAFE = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_';

describe('cursor', () => {
  it('gives back the id it was made of', () =>
    fc.assert(fc.property(id, (id) => idBefore(cursorAfter(id)) === id)));

  it.each([INT64_MIN, -1n, 0n, 1n, INT64_MAX - 1n])('gives back %s', (id) =>
    expect(idBefore(cursorAfter(id))).toBe(id),
  );

  it('is 16 URL-safe characters', () =>
    fc.assert(fc.property(id, (id) => /^[A-Za-z0-9_-]{16}$/.test(cursorAfter(id)))));

  it('is refused with any one character changed', () =>
    fc.assert(
      fc.property(id, fc.nat(15), fc.constantFrom(...URL_SAFE), (id, at, other) => {
        const cursor = cursorAfter(id);
        fc.pre(cursor[at] !== other);
        expect(idBefore(cursor.slice(0, at) + other + cursor.slice(at + 1))).toBeUndefined();
      }),
      { numRuns: 1000 },
    ));

  it('is refused cut short or made longer', () =>
    fc.assert(
      fc.property(id, fc.nat(15), fc.string({ minLength: 1 }), (id, length, more) => {
        const cursor = cursorAfter(id);
        expect(idBefore(cursor.slice(0, length))).toBeUndefined();
        expect(idBefore(cursor + more)).toBeUndefined();
        expect(idBefore(more + cursor)).toBeUndefined();
      }),
    ));

  it('is no other text', () =>
    fc.assert(fc.property(fc.string(), (text) => idBefore(text) === undefined)));

  it.each([
    ['another purpose', encodeChecked('orders', Buffer.alloc(8))],
    ['5 bytes', encodeChecked('pets', Buffer.alloc(5))],
    ['11 bytes', encodeChecked('pets', Buffer.alloc(11))],
  ])('is no checked text of %s', (_what, text) => expect(idBefore(text)).toBeUndefined());
});
