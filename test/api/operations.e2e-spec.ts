import { expectError } from '../support/answers.js';
import { ask } from '../support/ask.js';
import { operations } from '../support/contract.js';
import { createGrantedRole, dropGrantedRole } from '../support/granted-role.js';
import {
  createMigratedDatabase,
  dropDatabase,
  startService,
  type TestService,
} from '../support/service.js';

const ORIGIN = 'https://app.example';

/** A request of each operation that succeeds. */
const EXAMPLES: Record<string, { path: string; headers?: Record<string, string>; body?: object }> =
  {
    listPets: { path: '/v1/pets?status=available&limit=1' },
    createPet: {
      path: '/v1/pets',
      headers: { 'Idempotency-Key': 'an-example' },
      body: { name: 'Rex', categoryId: 1, status: 'pending' },
    },
    getPet: { path: '/v1/pets/1' },
    listOrders: { path: '/v1/store/orders?limit=1' },
  };

describe.each(operations())(
  '$operationId of the OpenAPI document',
  ({ operationId, method, success }) => {
    const { path, headers = {}, body } = EXAMPLES[operationId] ?? { path: 'has no example here' };
    let owner: string;
    let service: TestService;
    beforeAll(async () => {
      owner = await createMigratedDatabase();
      service = await startService(
        { CORS_ORIGINS: ORIGIN, METRICS_PORT: '0' },
        await createGrantedRole(owner),
        { owner },
      );
      await service.query(`insert into pets (name, category_id) values ('Max', 1), ('Mia', 2)`);
    });
    afterAll(async () => {
      await service.stop();
      await dropGrantedRole(owner);
      await dropDatabase(owner);
    });

    it('succeeds with the rights of docs/grants.sql, for a page of another origin, and is counted by name', async () => {
      const names = ['authorization', 'content-type', ...Object.keys(headers)];
      const preflight = await service.anonymous
        .options(path.split('?')[0]!)
        .set('Origin', ORIGIN)
        .set('Access-Control-Request-Method', method)
        .set('Access-Control-Request-Headers', names.join())
        .expect(204);
      expect(preflight.headers['access-control-allow-origin']).toBe(ORIGIN);
      const allowed = (name: string) =>
        preflight.headers[`access-control-allow-${name}`]!.toLowerCase().split(/, */);
      expect(allowed('methods')).toContain(method.toLowerCase());
      expect(allowed('headers')).toEqual(
        expect.arrayContaining(names.map((name) => name.toLowerCase())),
      );

      const call = service.api[method.toLowerCase() as 'get'](path).set('Origin', ORIGIN);
      const response = await call.set(headers).send(body).expect(success);
      expect(response.headers['access-control-allow-origin']).toBe(ORIGIN);

      const metrics = await fetch(`http://127.0.0.1:${service.metricsPort()}/metrics`);
      expect(await metrics.text()).toContain(
        `animal_store_http_requests_total{operation="${operationId}",method="${method}",status="${success}",code=""} 1\n`,
      );
    });

    it('tells the cause of a fault of the service only to the log', async () => {
      await ask(
        owner,
        'alter table pets rename to secret_pets',
        'alter table orders rename to secret_orders',
      );
      const call = service.api[method.toLowerCase() as 'get'](path);
      const { status, text, headers: fields } = await call.send(body);
      expectError({ status, text, headers: fields }, 500, 'internal_error');
      expect(JSON.parse(text).message).toBe('The service failed; the fault is ours.');
      expect(service.log.join('')).toMatch(/relation \\"(pets|orders)\\" does not exist/);
    });
  },
);

it('there is an example of each operation, and of no other', () => {
  expect(Object.keys(EXAMPLES).toSorted()).toEqual(
    operations()
      .map(({ operationId }) => operationId)
      .toSorted(),
  );
});
