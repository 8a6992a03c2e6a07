import { serviceOfTests } from '../support/service.js';

describe('createPet where a DBA altered the table', () => {
  const service = serviceOfTests();

  const create = async (name: string) => {
    const { status, body } = await service.api.post('/v1/pets').send({ name, categoryId: 1 });
    return [status, body.name];
  };

  it('is answered on open connections after a column has another type', async () => {
    for (const type of ['varchar(300)', 'text', 'varchar(255)']) {
      expect(await create(type)).toEqual([201, type]);
      await service.query(`alter table pets alter name type ${type}`);
      expect(await create(type)).toEqual([201, type]);
    }
  });
});
