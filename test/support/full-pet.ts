import { columnsOf } from '../../src/database/columns.js';
import type { NewPet } from '../../src/pets/new-pet.dto.js';
import { Pet } from '../../src/pets/pet.entity.js';

const OPTIONAL = columnsOf(Pet).filter(({ isOptional }) => isOptional);

/** A new pet with a value in every optional field. A statement that leaves one out then fails a test. */
export function fullPet(n: number, fields: Partial<NewPet> = {}): NewPet {
  const optional = OPTIONAL.map(({ property, type }) => [property, sample(type, n)]);
  return {
    name: `Rex "${n}"`,
    categoryId: BigInt(n),
    status: 'pending',
    ...Object.fromEntries(optional),
    ...fields,
  };
}

function sample(type: string, n: number): unknown {
  if (type === 'bigint') {
    return BigInt(n);
  }
  return ['integer', 'smallint'].includes(type) ? n : `text ${n}`;
}
