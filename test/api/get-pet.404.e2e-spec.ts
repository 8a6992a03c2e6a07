import { expectError } from '../support/answers.js';
import { send } from '../support/send.js';
import { serviceOfTests } from '../support/service.js';

describe('getPet 404', () => {
  const service = serviceOfTests();
  beforeAll(async () => {
    await service.query(
      `insert into pets (id, name, category_id)
       select id, 'pet', 1 from unnest(array[0, 1, 5, 16, -1, 9223372036854775807]) as id`,
    );
  });

  const refuses = async (petId: string) =>
    expectError(
      await send(service, { method: 'GET', path: `/v1/pets/${petId}` }),
      404,
      'pet_not_found',
    );

  it.each(['2', '-2', '9007199254740993', '9223372036854775806', '-9223372036854775808'])(
    'answers that there is no animal %s',
    refuses,
  );

  it.each([
    '9'.repeat(1000),
    ...'9223372036854775808 -9223372036854775809 18446744073709551617 01 00 -0 +1 %2B1 --1'.split(
      ' ',
    ),
    ...'- 1.0 1e0 0x10 1n 1_6 1,5 %201 1%20 1%0A 1%00 1%2F5 1;5 %EF%BC%91 null NaN'.split(' '),
    ...":petId * % %zz %ff 1% %E0%A4%A 1'-- __proto__".split(' '),
  ])('answers that %s, no int64 in plain decimal, identifies no animal', refuses);
});
