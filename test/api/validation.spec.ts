import { Transform } from 'class-transformer';
import { IsString } from 'class-validator';
import { ListOrdersQuery } from '../../src/orders/list-orders-query.dto.js';
import { ListPetsQuery } from '../../src/pets/list-pets-query.dto.js';
import { RequestValidationPipe } from '../../src/validation/request-validation.pipe.js';

class Named {
  @IsString()
  name!: string;

  // Without a validator.
  note?: string;
}

// Each name takes class-transformer microseconds, and a body of 16 KiB has room for thousands.
it.each([0, 1, 5_000])(
  'of a body that also has %d names that its DTO lacks, the DTO gets what it declares',
  async (unknown) => {
    const others = Array.from({ length: unknown }, (_, n) => [`x${n}`, n]);
    const body = { name: 'Rex', note: 'x', ...Object.fromEntries(others) };
    const pipe = new RequestValidationPipe();
    const dto = await pipe.transform(body, { type: 'body', metatype: Named });
    expect(dto).toBeInstanceOf(Named);
    expect({ ...dto }).toEqual({ name: 'Rex', note: 'x' });
  },
);

// class-transformer takes microseconds for each of its values, too.
it.each([
  [10, 10],
  [5_000, 0],
])(
  'of an object of %d values where a text is declared, class-transformer gets %d, and the client its error',
  async (count, expected) => {
    const given: object[] = [];
    class Labelled {
      @Transform(({ value }) => (given.push(value), value))
      @IsString()
      label!: string;
    }
    const label = Object.fromEntries(Array.from({ length: count }, (_, n) => [`x${n}`, n]));
    const pipe = new RequestValidationPipe();
    for (const one of [label, { label }, [[label]]]) {
      const body = { label: one };
      const read = pipe.transform(body, { type: 'body', metatype: Labelled });
      await expect(read).rejects.toMatchObject({
        response: { message: ['label: must be a string'] },
      });
    }
    expect(given.map((one) => JSON.stringify(one).match(/x/g)?.length ?? 0)).toEqual(
      Array(3).fill(expected),
    );
  },
);

it.each([ListPetsQuery, ListOrdersQuery])(
  'an object of many values is cut where the limit of %p is declared, which has a type for that',
  (query) => {
    expect(Reflect.getMetadata('design:type', query.prototype, 'limit')).toBe(Number);
  },
);
