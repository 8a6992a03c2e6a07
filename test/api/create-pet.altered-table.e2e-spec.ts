import { itNotOnCitus } from '../support/citus.js';
import { serviceOfTests } from '../support/service.js';

describe('createPet where a DBA altered the table', () => {
  const service = serviceOfTests();

  const create = async (name: string, key?: string) => {
    const { status, body } = await service.api
      .post('/v1/pets')
      .set(key === undefined ? {} : { 'Idempotency-Key': key })
      .send({ name, categoryId: 1 });
    return [status, body.name];
  };

  it('is answered on open connections after a column has another type', async () => {
    for (const type of ['varchar(300)', 'text', 'varchar(255)']) {
      expect(await create(type)).toEqual([201, type]);
      await service.query(`alter table pets alter name type ${type}`);
      expect(await create(type)).toEqual([201, type]);
    }
  });

  itNotOnCitus(
    'answers with the animal as a trigger changed it, and fails one that a trigger leaves out or refuses, and no other of its batch',
    async () => {
      await service.query(`
      create function meddle() returns trigger language plpgsql as $$ begin
        if new.name = 'refused' then raise exception 'not this one'; end if;
        if new.name = 'left out' then return null; end if;
        if new.name = 'changed' then new.name = 'other'; end if;
        return new;
      end $$;
      create trigger meddle before insert on pets for each row execute function meddle()`);
      for (const [name, ...outcome] of [
        ['changed', 201, 'other'],
        ['left out', 500, undefined],
        ['refused', 500, undefined],
      ] as const) {
        const names = ['a', 'b', 'c', name, 'd', 'e', 'f'];
        for (const prefix of [undefined, name.replace(' ', '-')]) {
          const created = names.map((one, i) => create(one, prefix && `${prefix}-${i}`));
          expect(await Promise.all(created)).toEqual(
            names.map((one) => (one === name ? outcome : [201, one])),
          );
        }
      }
    },
  );
});
