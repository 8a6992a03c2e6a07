import { IsIn, IsOptional } from 'class-validator';
import { Cursors } from '../listing/cursors.js';
import { Cursor, DEFAULT_LIMIT, Limit, type ListQuery } from '../listing/list-query.js';
import { PET_STATUSES, type PetStatus } from './pet.entity.js';

export const PET_CURSORS = new Cursors('pets');

/** The query of listPets (interface, part 4.1), each value as sent. */
export class ListPetsQuery implements ListQuery {
  @Limit()
  limit: string = DEFAULT_LIMIT;

  @IsOptional()
  @IsIn(PET_STATUSES, { message: `status must be one of ${PET_STATUSES.join(', ')}, sent once` })
  status?: PetStatus;

  @Cursor(PET_CURSORS)
  cursor?: string;
}
