import { expectError } from '../support/answers.js';
import { RawConnection, request } from '../support/raw-http.js';
import { serviceOfTests } from '../support/service.js';

describe('a batch', () => {
  const service = serviceOfTests();
  beforeAll(() =>
    service.query(
      `alter table pets add constraint refused check (name not like 'refused%') not valid`,
    ),
  );

  it.each<[string, number[], (i: number) => string[]]>([
    ['creates', [], () => []],
    ['creates of which PostgreSQL refuses some', [0, 1, 7, 19], () => []],
    ['creates with Idempotency-Keys', [], (i) => [`Idempotency-Key: ${i}`]],
    [
      'creates with Idempotency-Keys of which it refuses some',
      [0, 1, 7, 19],
      (i) => [`Idempotency-Key: of-${i}`],
    ],
  ])(
    'fails only requests whose values are refused, and stores each other pet once: %s',
    async (what, refused, key) => {
      const names = Array.from({ length: 20 }, (_, i) =>
        refused.includes(i) ? `refused ${i}` : `${what} ${i}`,
      );
      const headers = [`Authorization: Bearer ${service.key}`, 'Content-Type: application/json'];
      const creates = names.map((name, i) =>
        request('POST /v1/pets', [...headers, ...key(i)], `{"name":"${name}","categoryId":${i}}`),
      );
      const connection = await RawConnection.open(service.port);
      connection.send(creates.join(''));
      for (const [i, name] of names.entries()) {
        const answer = await connection.answer();
        if (name.startsWith('refused')) {
          expectError(answer, 500, 'internal_error');
        } else {
          expect(answer.status).toBe(201);
          expect(JSON.parse(answer.text)).toMatchObject({ name, categoryId: i });
        }
      }
      connection.vanish();
      const stored = await service.query(`select name from pets where name ~ '^${what} [0-9]+$'`);
      const expected = names.filter((name) => !name.startsWith('refused'));
      expect(stored.map(({ name }) => name).toSorted()).toEqual(expected.toSorted());
    },
  );
});
