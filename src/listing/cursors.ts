import { Transform } from 'class-transformer';
import { decodeChecked, encodeChecked } from '../checked-text.js';
import { INT64_MAX } from '../int64.js';
import { AllOf, IsInt64, MayBeOmitted } from '../validation/decorators.js';

/** @returns the cursor of the page of a list that follows the item `id`: 16 URL-safe characters. */
export function cursorAfter(list: string, id: bigint): string {
  const bytes = Buffer.alloc(8);
  bytes.writeBigInt64BE(id);
  return encodeChecked(list, bytes);
}

/** @returns the id of a cursor; `undefined` if the text is not a cursor of this list. No id follows the greatest int64. */
export function idBefore(list: string, cursor: string): bigint | undefined {
  const bytes = decodeChecked(list, cursor);
  const id = bytes?.length === 8 ? bytes.readBigInt64BE() : INT64_MAX;
  return id < INT64_MAX ? id : undefined;
}

/** The property is a `cursor` of the list of that name, as the id that it was made of, or omitted. */
export function Cursor(list: string): PropertyDecorator {
  return AllOf(
    // A text that is not a cursor stays a string, which `IsInt64` rejects.
    Transform(({ value }) =>
      typeof value === 'string' ? (idBefore(list, value) ?? value) : value,
    ),
    MayBeOmitted(),
    IsInt64({ message: '$property must be one that this service issued, sent once' }),
  );
}
