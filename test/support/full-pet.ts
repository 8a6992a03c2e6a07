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

/** @throws Error for a type that it does not know. */
function sample(type: string, n: number): unknown {
  const samples: Record<string, unknown> = {
    bigint: BigInt(n),
    integer: n,
    smallint: n,
    boolean: n % 2 === 1,
    date: `2020-02-${10 + n}`,
    'timestamp with time zone': `2026-11-21T09:30:00.12345${n}Z`,
    jsonb: ['a,b', 'c', n],
    text: `text ${n}`,
    'character varying': `text ${n}`,
  };
  if (!(type in samples)) {
    throw new Error(`Add a sample for columns of the type ${type}.`);
  }
  return samples[type];
}
