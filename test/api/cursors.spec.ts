import fc from 'fast-check';
import { encodeChecked } from '../../src/checked-text.js';
import { INT64_MAX, INT64_MIN } from '../../src/int64.js';
import { Cursors } from '../../src/listing/cursors.js';

/** Every id that another id can follow. */
const id = fc.bigInt({ min: INT64_MIN, max: INT64_MAX - 1n });
const cursors = new Cursors('pets');

describe('a cursor', () => {
  it('is 16 URL-safe characters, and gives back the id that it was made of', () =>
    fc.assert(
      fc.property(id, (id) => {
        expect(cursors.after(id)).toMatch(/^[\w-]{16}$/);
        expect(cursors.idBefore(cursors.after(id))).toBe(id);
      }),
      { examples: [[INT64_MIN], [-1n], [0n], [INT64_MAX - 1n]] },
    ));

  it('is rejected with any part changed, and by another list', () =>
    fc.assert(
      fc.property(id, fc.nat(15), fc.nat(16), fc.string(), (id, from, to, text) => {
        const cursor = cursors.after(id);
        const changed = cursor.slice(0, from) + text + cursor.slice(to);
        fc.pre(changed !== cursor);
        expect(cursors.idBefore(changed)).toBeUndefined();
        expect(new Cursors('orders').idBefore(cursor)).toBeUndefined();
      }),
      { numRuns: 1000 },
    ));

  it.each([0, 5, 7, 9, 11])('is no checked text of %s bytes', (bytes) =>
    expect(cursors.idBefore(encodeChecked('pets', Buffer.alloc(bytes)))).toBeUndefined(),
  );

  it('stays the one that clients may hold', () => {
    expect(cursors.after(-9_007_199_254_740_993n)).toBe('_9_________DS576');
    expect(cursors.after(20n)).toBe('AAAAAAAAABRSSnNu');
  });
});
