import { RememberedWithout, WholeNumber } from '../../src/validation/decorators.js';
import { RequestValidationPipe } from '../../src/validation/request-validation.pipe.js';

@RememberedWithout('cursor')
class Query {
  @WholeNumber(1, 2_000)
  limit = 20;
}

const pipe = new RequestValidationPipe();
const read = (query: object) => pipe.transform(query, { type: 'query', metatype: Query });

it('a query is remembered, unless it may be unique or is long', async () => {
  for (const other of [{}, { cursor: 'x' }, { other: 'x'.repeat(100) }]) {
    const query = { limit: '7', ...other };
    const first = await read(query);
    expect(first).toMatchObject({ limit: 7 });
    expect((await read(query)) === first).toBe(Object.keys(other).length === 0);
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
