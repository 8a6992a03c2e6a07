import { operations } from '../support/contract.js';
import { createGrantedRole, dropGrantedRole } from '../support/granted-role.js';
import {
  createMigratedDatabase,
  dropDatabase,
  startService,
  type TestService,
} from '../support/service.js';

const ORIGIN = 'https://app.example';

describe('an operation of the OpenAPI document', () => {
  let owner: string;
  let service: TestService;
  beforeAll(async () => {
    owner = await createMigratedDatabase();
    const variables = { CORS_ORIGINS: ORIGIN, METRICS_PORT: '0' };
    service = await startService(variables, await createGrantedRole(owner), { owner });
    await service.query(`insert into pets (name, category_id) values ('Max', 1), ('Mia', 2)`);
  });
  afterAll(async () => {
    await service.stop();
    await dropGrantedRole(owner);
    await dropDatabase(owner);
  });

  it.each(operations())(
    'succeeds with the rights of docs/grants.sql, for a page of another origin, and is counted by name: $operationId',
    async ({ operationId, method, success, path, headers, body }) => {
      const names = ['authorization', 'content-type', ...Object.keys(headers)];
      const preflight = await service.anonymous
        .options(path)
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
      const counter = new RegExp(
        `^animal_store_http_requests_total\\{operation="(.+)",method="${method}",status="${success}",code=""\\} 1$`,
        'gm',
      );
      // A route whose parameter has another name than in the document is counted by its path.
      const counted = Array.from((await metrics.text()).matchAll(counter), ([, name]) => name);
      expect(counted).toContain(operationId);
    },
  );
});
