import { Field, oneOf } from '../fields.js';
import { PET_STATUSES, type PetStatus } from './pet-status.js';

/** The most code points that a name has. */
export const NAME_LENGTH = 255;

/** NewPet (interface, part 2): the body of createPet. */
export class NewPet {
  /** 1 to 255 code points, one of them not white space, and none that PostgreSQL's text cannot hold. */
  @Field(
    readName,
    `must be a string of 1 to ${NAME_LENGTH} characters, not only white space, without U+0000 and lone surrogates`,
  )
  name!: string;

  @Field(
    (sent) => (typeof sent === 'bigint' ? sent : undefined),
    'must be an integer from -9223372036854775808 to 9223372036854775807',
  )
  categoryId!: bigint;

  @Field(oneOf(PET_STATUSES), `must be one of ${PET_STATUSES.join(', ')}`)
  status: PetStatus = 'available';
}

function readName(sent: unknown): string | undefined {
  const isName =
    typeof sent === 'string' &&
    sent.isWellFormed() &&
    !sent.includes('\0') &&
    /\P{White_Space}/u.test(sent) &&
    (sent.length <= NAME_LENGTH || [...sent].length <= NAME_LENGTH);
  return isName ? sent : undefined;
}
