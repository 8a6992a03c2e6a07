import fc from 'fast-check';
import { encodeChecked } from '../../src/checked-text.js';
import { INT64_MAX, INT64_MIN } from '../../src/int64.js';
import { cursorAfter, idBefore } from '../../src/listing/cursors.js';

// That a cursor leads to the page after any id is in lists.e2e-spec.ts.
describe('a cursor', () => {
  it('is rejected with any part changed, of another length, and by another list', () => {
    const id = fc.bigInt({ min: INT64_MIN, max: INT64_MAX - 1n });
    fc.assert(
      fc.property(id, fc.nat(15), fc.nat(16), fc.string(), (id, from, to, text) => {
        const cursor = cursorAfter('pets', id);
        const changed = cursor.slice(0, from) + text + cursor.slice(to);
        fc.pre(changed !== cursor);
        expect(idBefore('pets', changed)).toBeUndefined();
        expect(idBefore('orders', cursor)).toBeUndefined();
      }),
      { numRuns: 1000 },
    );
    const others = [0, 7, 9].map((bytes) => encodeChecked('pets', Buffer.alloc(bytes)));
    expect(others.map((cursor) => idBefore('pets', cursor))).toEqual(others.map(() => undefined));
  });

  it('stays the one that clients may hold', () => {
    expect(cursorAfter('pets', -9_007_199_254_740_993n)).toBe('_9_________DS576');
    expect(cursorAfter('pets', 20n)).toBe('AAAAAAAAABRSSnNu');
  });
});
