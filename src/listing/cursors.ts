import { decodeChecked, encodeChecked } from '../checked-text.js';
import { INT64_MAX } from '../int64.js';

export class Cursors {
  /** @param list the name of the list. A cursor of a list with another name is not valid here. */
  constructor(private readonly list: string) {}

  /** @returns the cursor of the page that follows the item `id`: 16 URL-safe characters. */
  after(id: bigint): string {
    const bytes = Buffer.alloc(8);
    bytes.writeBigInt64BE(id);
    return encodeChecked(this.list, bytes);
  }

  /** @returns the id of a cursor; `undefined` if the text is not a cursor of this list. No id follows the greatest int64. */
  idBefore(cursor: string): bigint | undefined {
    const bytes = decodeChecked(this.list, cursor);
    const id = bytes?.length === 8 ? bytes.readBigInt64BE() : INT64_MAX;
    return id < INT64_MAX ? id : undefined;
  }
}
