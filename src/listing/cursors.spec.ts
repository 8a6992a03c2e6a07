import fc from 'fast-check';
import { encodeChecked } from '../checked-text.js';
import { INT64_MAX, INT64_MIN } from '../int64.js';
import { Cursors } from './cursors.js';

/** Every id that another id can follow. */
const id = fc.bigInt({ min: INT64_MIN, max: INT64_MAX - 1n });
const cursors = new Cursors('pets');
const URL_SAFE = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_';

describe('a cursor', () => {
  it('gives back the id it was made of', () =>
    fc.assert(fc.property(id, (id) => cursors.idBefore(cursors.after(id)) === id)));

  it.each([INT64_MIN, -1n, 0n, 1n, INT64_MAX - 1n])('gives back %s', (id) =>
    expect(cursors.idBefore(cursors.after(id))).toBe(id),
  );

  it('is 16 URL-safe characters', () =>
    fc.assert(fc.property(id, (id) => /^[A-Za-z0-9_-]{16}$/.test(cursors.after(id)))));

  it('is refused with any one character changed', () =>
    fc.assert(
      fc.property(id, fc.nat(15), fc.constantFrom(...URL_SAFE), (id, at, other) => {
        const cursor = cursors.after(id);
        fc.pre(cursor[at] !== other);
        expect(
          cursors.idBefore(cursor.slice(0, at) + other + cursor.slice(at + 1)),
        ).toBeUndefined();
      }),
      { numRuns: 1000 },
    ));

  it('is refused cut short or made longer', () =>
    fc.assert(
      fc.property(id, fc.nat(15), fc.string({ minLength: 1 }), (id, length, more) => {
        const cursor = cursors.after(id);
        expect(cursors.idBefore(cursor.slice(0, length))).toBeUndefined();
        expect(cursors.idBefore(cursor + more)).toBeUndefined();
        expect(cursors.idBefore(more + cursor)).toBeUndefined();
      }),
    ));

  it('is no other text', () =>
    fc.assert(fc.property(fc.string(), (text) => cursors.idBefore(text) === undefined)));

  it.each([
    ['another purpose', encodeChecked('orders', Buffer.alloc(8))],
    ['5 bytes', encodeChecked('pets', Buffer.alloc(5))],
    ['11 bytes', encodeChecked('pets', Buffer.alloc(11))],
  ])('is no checked text of %s', (_what, text) => expect(cursors.idBefore(text)).toBeUndefined());

  it('is refused by another list', () =>
    fc.assert(
      fc.property(id, (id) => new Cursors('orders').idBefore(cursors.after(id)) === undefined),
    ));

  it('stays the one that clients may hold', () => {
    expect(cursors.after(-9_007_199_254_740_993n)).toBe('_9_________DS576');
    expect(cursors.after(20n)).toBe('AAAAAAAAABRSSnNu');
  });
});
