import { IsIn, IsString, Matches } from 'class-validator';
import { AllOf, IsInt64 } from '../validation/decorators.js';
import { NAME_LENGTH, PET_STATUSES, type PetStatus } from './pet.entity.js';

/** The property is the name of a pet. An error says the first of these rules that it breaks. */
const IsName = () =>
  AllOf(
    IsString(),
    Matches(new RegExp(`^.{1,${NAME_LENGTH}}$`, 'su'), {
      message: `$property must be 1 to ${NAME_LENGTH} characters`,
    }),
    Matches(/\P{White_Space}/u, { message: '$property must not be only white space' }),
    // PostgreSQL's text cannot hold them.
    Matches(/^[^\0\p{Surrogate}]+$/u, {
      message: '$property must not have U+0000 or lone surrogates',
    }),
  );

/** NewPet (interface, part 2): the body of createPet. */
export class NewPet {
  @IsName()
  name!: string;

  @IsInt64({ message: '$property must be an integer (int64)' })
  categoryId!: bigint;

  @IsIn(PET_STATUSES, { message: `$property must be ${PET_STATUSES.join(', ')}, or omitted` })
  status: PetStatus = 'available';
}
