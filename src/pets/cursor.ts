import { decodeChecked, encodeChecked } from '../checked-text.js';
import { INT64_MAX } from '../http/int64.js';

/** A cursor of another list does not decode as one of this list. */
const PURPOSE = 'pets';

/** @returns the cursor of the page that follows the animal `id`: 16 URL-safe characters. */
export function cursorAfter(id: bigint): string {
  const bytes = Buffer.alloc(8);
  bytes.writeBigInt64BE(id);
  return encodeChecked(PURPOSE, bytes);
}

/**
 * @returns the id that a cursor of {@link cursorAfter} follows, or `undefined` for a text that is none. Nothing
 *   follows the greatest int64, so no cursor has it.
 */
export function idBefore(cursor: string): bigint | undefined {
  const bytes = decodeChecked(PURPOSE, cursor);
  const id = bytes?.length === 8 ? bytes.readBigInt64BE() : INT64_MAX;
  return id < INT64_MAX ? id : undefined;
}
