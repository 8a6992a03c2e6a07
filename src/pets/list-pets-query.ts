import { Expose } from 'class-transformer';
import { IsIn, IsOptional, Matches } from 'class-validator';
import { Satisfies } from '../http/request-shape.js';
import { idBefore } from './cursor.js';
import { PET_STATUSES, type PetStatus } from './pet.entity.js';

/** The query of listPets (interface, part 4.1), each value as sent. */
export class ListPetsQuery {
  /** 1 to 100 in plain decimal. */
  @Expose()
  @Matches(/^(?:[1-9][0-9]?|100)$/, {
    message: 'limit must be a whole number from 1 to 100, sent once, in plain digits',
  })
  limit: string = '20';

  @Expose()
  @IsOptional()
  @IsIn(PET_STATUSES, { message: `status must be one of ${PET_STATUSES.join(', ')}, sent once` })
  status?: PetStatus;

  /** From the `Link` of the page before. */
  @Expose()
  @IsOptional()
  @Satisfies(
    (value) => typeof value === 'string' && idBefore(value) !== undefined,
    'cursor must be one that this service issued, sent once',
  )
  cursor?: string;
}
