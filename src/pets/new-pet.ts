import { IsIn } from 'class-validator';
import { Satisfies } from '../http/request-shape.js';
import { PET_STATUSES, type PetStatus } from './pet.entity.js';

/** The most code points that a name has. */
export const NAME_LENGTH = 255;

/** NewPet (interface, part 2): the body of createPet. */
export class NewPet {
  /** 1 to 255 code points, one of them not white space, and none that PostgreSQL's text cannot hold. */
  @Satisfies(
    isPetName,
    `name must be a string of 1 to ${NAME_LENGTH} characters, not only white space, without U+0000 and lone surrogates`,
  )
  name!: string;

  @Satisfies(
    (value) => typeof value === 'bigint',
    'categoryId must be an integer from -9223372036854775808 to 9223372036854775807',
  )
  categoryId!: bigint;

  @IsIn(PET_STATUSES, { message: `status must be one of ${PET_STATUSES.join(', ')}` })
  status: PetStatus = 'available';
}

function isPetName(value: unknown): boolean {
  return (
    typeof value === 'string' &&
    value.isWellFormed() &&
    !value.includes('\0') &&
    /\P{White_Space}/u.test(value) &&
    (value.length <= NAME_LENGTH || [...value].length <= NAME_LENGTH)
  );
}
