import { IsIn } from 'class-validator';
import { Cursors } from '../listing/cursors.js';
import { Cursor, DEFAULT_LIMIT, Limit, type ListQuery } from '../listing/list-query.js';
import { MayBeOmitted } from '../validation/decorators.js';
import { PET_STATUSES, type PetStatus } from './pet.entity.js';

export const PET_CURSORS = new Cursors('pets');

/** The query of listPets (interface, part 4.1). */
export class ListPetsQuery implements ListQuery {
  @Limit()
  limit = DEFAULT_LIMIT;

  @MayBeOmitted()
  @IsIn(PET_STATUSES, { message: `$property must be one of ${PET_STATUSES.join(', ')}, sent once` })
  status?: PetStatus;

  @Cursor(PET_CURSORS)
  cursor?: bigint;
}
