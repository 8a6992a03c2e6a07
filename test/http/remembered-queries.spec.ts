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

it('a remembered query is validated once, unless it may be unique or is long', async () => {
  const once = { limit: '7' };
  for (const query of [once, { ...once, cursor: 'x' }, { ...once, other: 'x'.repeat(100) }]) {
    validations = 0;
    expect(await read(query)).toStrictEqual(await read({ ...query }));
    expect(validations).toBe(query === once ? 1 : 2);
  }
});

it('remembered queries cannot be changed, and are at most a thousand', async () => {
  const first = await read({ limit: '7' });
  expect(Object.isFrozen(first)).toBe(true);
  for (let limit = 8; limit < 1_008; limit += 1) {
    await read({ limit: `${limit}` });
  }
  expect(await read({ limit: '7' })).not.toBe(first);
});
