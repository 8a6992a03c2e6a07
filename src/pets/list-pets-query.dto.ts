import { IsIn } from 'class-validator';
import { Cursor } from '../listing/cursors.js';
import { DEFAULT_LIMIT, Limit } from '../listing/list-query.js';
import { MayBeOmitted, RememberedWithout } from '../validation/decorators.js';
import { PET_STATUSES, type PetStatus } from './pet.entity.js';

@RememberedWithout('cursor')
export class ListPetsQuery {
  @Limit()
  limit: number = DEFAULT_LIMIT;

  @MayBeOmitted()
  @IsIn(PET_STATUSES, { message: `$property must be one of ${PET_STATUSES.join(', ')}, sent once` })
  status?: PetStatus;

  @Cursor('pets')
  cursor?: bigint;
}
