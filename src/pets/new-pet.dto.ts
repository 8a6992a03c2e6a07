import { IsIn, Matches } from 'class-validator';
import { IsInt64 } from '../validation/decorators.js';
import { NAME_LENGTH, PET_STATUSES, type PetStatus } from './pet.entity.js';

/** At least one code point is not white space. PostgreSQL's text cannot hold U+0000 and lone surrogates. */
const NAME = new RegExp(
  `^(?=\\p{White_Space}*\\P{White_Space})[^\\0\\p{Surrogate}]{1,${NAME_LENGTH}}$`,
  'u',
);

/** NewPet (interface, part 2): the body of createPet. */
export class NewPet {
  @Matches(NAME, {
    message: `$property must be a string of 1 to ${NAME_LENGTH} characters, not only white space, without U+0000 and lone surrogates`,
  })
  name!: string;

  @IsInt64({
    message: '$property must be an integer from -9223372036854775808 to 9223372036854775807',
  })
  categoryId!: bigint;

  @IsIn(PET_STATUSES, { message: `$property must be ${PET_STATUSES.join(', ')}, or omitted` })
  status: PetStatus = 'available';
}
