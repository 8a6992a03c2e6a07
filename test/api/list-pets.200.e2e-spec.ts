import { serviceOfTests } from '../support/service.js';

describe('listPets 200', () => {
  const service = serviceOfTests();
  beforeEach(() => service.query('truncate pets cascade'));

  it('is a bare array of pets, each with exactly the fields of Pet', async () => {
    await service.query(
      `insert into pets (id, name, category_id, status) values
         (2, 'b "', -3, 'sold'), (1, 'a', -9223372036854775808, 'pending')`,
    );
    const { text } = await service.api.get('/v1/pets').expect(200);
    expect(text).toBe(
      '[{"id":1,"name":"a","categoryId":-9223372036854775808,"status":"pending"},' +
        '{"id":2,"name":"b \\"","categoryId":-3,"status":"sold"}]',
    );
  });

  it.each([
    ['available', [3, 6, 9]],
    ['pending', [1, 4, 7]],
    ['sold', []],
  ])('has only animals with status=%s, by id', async (status, expected) => {
    await service.query(
      `insert into pets (id, name, category_id, status)
       select n, 'pet', n, (array['available', 'pending'])[n % 3 + 1]
         from generate_series(1, 9) as n where n % 3 < 2`,
    );
    const { body } = await service.api.get(`/v1/pets?status=${status}`).expect(200);
    expect(body.map((pet: { id: number; status: string }) => [pet.id, pet.status])).toEqual(
      expected.map((id) => [id, status]),
    );
  });
});
