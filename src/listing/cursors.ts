import { decodeChecked, encodeChecked } from '../checked-text.js';
import { INT64_MAX } from '../int64.js';

/** The cursors of one list. */
export class Cursors {
  /** @param list its name, which no other list has: a cursor of another list does not decode as one of this. */
  constructor(private readonly list: string) {}

  /** @returns the cursor of the page that follows the item `id`: 16 URL-safe characters. */
  after(id: bigint): string {
    const bytes = Buffer.alloc(8);
    bytes.writeBigInt64BE(id);
    return encodeChecked(this.list, bytes);
  }

  /**
   * @returns the id that a cursor of {@link after} follows, or `undefined` for a text that is none. Nothing follows the
   *   greatest int64, so no cursor has it.
   */
  idBefore(cursor: string): bigint | undefined {
    const bytes = decodeChecked(this.list, cursor);
    const id = bytes?.length === 8 ? bytes.readBigInt64BE() : INT64_MAX;
    return id < INT64_MAX ? id : undefined;
  }
}
