import { ListPetsQuery } from '../../src/pets/list-pets-query.dto.js';
import { RememberedWithout, WholeNumber } from '../../src/validation/decorators.js';
import { RequestValidationPipe } from '../../src/validation/request-validation.pipe.js';

@RememberedWithout('cursor')
class Query {
  @WholeNumber(1, 2_000)
  limit = 20;

  cursor?: string;
}

const pipe = new RequestValidationPipe();
const read = (query: object, metatype: new () => object = Query) =>
  pipe.transform(query, { type: 'query', metatype });

it('a query is remembered by its declared parameters, unless it may be unique', async () => {
  const first = await read({ limit: '7' });
  expect(first).toMatchObject({ limit: 7 });
  expect(Object.isFrozen(first)).toBe(true);
  expect(await read({ limit: '7', other: 'x' })).toBe(first);
  expect(await read({ limit: '7', cursor: 'x' })).not.toBe(first);
});

it('a client cannot make the service forget those of others, nor remember without end', async () => {
  const known = await read({ limit: '9' }, ListPetsQuery);
  for (let spelling = 0; spelling < 2_000; spelling += 1) {
    await read({ limit: '9', [`x${spelling}`]: 'x', status: 'sold' }, ListPetsQuery);
    await read({ limit: '9', cursor: undefined, x: `${spelling}` }, ListPetsQuery);
  }
  expect(await read({ limit: '9' }, ListPetsQuery)).toBe(known);
  for (let limit = 1; limit <= 1_500; limit += 1) {
    await read({ limit: `${limit}` });
  }
  expect(await read({ limit: '7' })).toBe(await read({ limit: '7' }));
  expect(await read({ limit: '1500' })).not.toBe(await read({ limit: '1500' }));
});
