import { applyDecorators } from '@nestjs/common';
import { Transform } from 'class-transformer';
import { Max, Min } from 'class-validator';
import { IsInt64, MayBeOmitted } from '../validation/decorators.js';
import type { Cursors } from './cursors.js';

/** The parameters that every list has in its query. */
export interface ListQuery {
  /** 1 to 100. */
  limit: number;
  /** The id after which the page begins; `undefined` for the first page. */
  cursor?: bigint;
}

/** The default of `limit` (interface, part 8). */
export const DEFAULT_LIMIT = 20;

/** The property is a `limit`: 1 to 100 in plain decimal. */
export function Limit(): PropertyDecorator {
  const message = '$property must be a whole number from 1 to 100, sent once, in plain digits';
  return applyDecorators(
    // Any other text stays a string, which `Min` and `Max` reject.
    Transform(({ value }) => (/^[1-9][0-9]*$/.test(value) ? Number(value) : value)),
    Min(1, { message }),
    Max(100, { message }),
  );
}

/** The property is a `cursor`, from the `Link` of the page before, or omitted. */
export function Cursor(cursors: Cursors): PropertyDecorator {
  return applyDecorators(
    // A text that is not a cursor stays a string, which `IsInt64` rejects.
    Transform(({ value }) =>
      typeof value === 'string' ? (cursors.idBefore(value) ?? value) : value,
    ),
    MayBeOmitted(),
    IsInt64({ message: '$property must be one that this service issued, sent once' }),
  );
}
