import { Transform } from 'class-transformer';
import { RememberedWithout, WholeNumber } from '../../src/validation/decorators.js';
import { RequestValidationPipe } from '../../src/validation/request-validation.pipe.js';

let validations = 0;

@RememberedWithout('cursor')
class Query {
  @Transform(({ value }) => (validations += 1) && value)
  @WholeNumber(1, 2_000)
  limit = 20;
}

const pipe = new RequestValidationPipe();
const read = (query: object) => pipe.transform(query, { type: 'query', metatype: Query });

it.each([
  ['once', { limit: '7' }, 1],
  ['each time, if it may be unique', { limit: '7', cursor: 'x' }, 2],
  ['each time, if it is long', { limit: '7', other: 'x'.repeat(100) }, 2],
])('a remembered query is validated %s', async (_t, query, times) => {
  validations = 0;
  expect(await read(query)).toStrictEqual(await read({ ...query }));
  expect(validations).toBe(times);
});

it('remembered queries cannot be changed, and are at most a thousand', async () => {
  const first = await read({ limit: '7' });
  expect(Object.isFrozen(first)).toBe(true);
  for (let limit = 8; limit < 1_008; limit += 1) {
    await read({ limit: `${limit}` });
  }
  expect(await read({ limit: '7' })).not.toBe(first);
});
