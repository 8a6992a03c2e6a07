import { itNotOnCitus } from '../support/citus.js';
import { serviceOfTests } from '../support/service.js';

describe('createPet where a DBA altered the table', () => {
  const service = serviceOfTests();

  const create = async (name: string, key?: string) => {
    const { status } = await service.api
      .post('/v1/pets')
      .set(key === undefined ? {} : { 'Idempotency-Key': key })
      .send({ name, categoryId: 1 });
    return [name, status];
  };

  it('is answered on open connections after a column has another type', async () => {
    for (const type of ['varchar(300)', 'text', 'varchar(255)']) {
      expect(await create(type)).toEqual([type, 201]);
      await service.query(`alter table pets alter name type ${type}`);
      expect(await create(type)).toEqual([type, 201]);
    }
  });

  itNotOnCitus(
    'fails an animal that a trigger changes, leaves out or refuses, and no other of its batch',
    async () => {
      await service.query(`
      create function meddle() returns trigger language plpgsql as $$ begin
        if new.name = 'refused' then raise exception 'not this one'; end if;
        if new.name = 'left out' then return null; end if;
        if new.name = 'changed' then new.name = 'other'; end if;
        return new;
      end $$;
      create trigger meddle before insert on pets for each row execute function meddle()`);
      for (const name of ['changed', 'left out', 'refused']) {
        const names = ['a', 'b', 'c', name, 'd', 'e', 'f'];
        for (const key of [
          () => undefined,
          (one: string) => `${one}-of-${name}`.replaceAll(' ', '-'),
        ]) {
          expect(await Promise.all(names.map((one) => create(one, key(one))))).toEqual(
            names.map((one) => [one, one === name ? 500 : 201]),
          );
        }
      }
    },
  );
});
