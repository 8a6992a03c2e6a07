import { Type } from 'class-transformer';
import {
  IsIn,
  IsInt,
  IsOptional,
  IsString,
  Length,
  Matches,
  Max,
  Min,
  ValidateBy,
} from 'class-validator';
import { PET_STATUSES } from '../../contract.js';

export class ListPetsQuery {
  @Type(() => Number)
  @IsInt()
  @Min(1)
  @Max(100)
  limit: number = 20;

  @IsOptional()
  @IsIn(PET_STATUSES)
  status?: string;

  @IsOptional()
  @IsString()
  cursor?: string;
}

const IsInt64 = () =>
  ValidateBy({
    name: 'isInt64',
    validator: {
      validate: (value) => typeof value === 'bigint',
      defaultMessage: () => '$property must be an int64',
    },
  });

export class CreatePetDto {
  @IsString()
  @Length(1, 255)
  @Matches(/\S/)
  name!: string;

  @IsInt64()
  categoryId!: bigint;

  @IsIn(PET_STATUSES)
  status: string = 'available';
}
