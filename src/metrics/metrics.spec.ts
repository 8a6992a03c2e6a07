import { Registry } from 'prom-client';
import { Metrics } from './metrics.js';

it('an operation that is new in the OpenAPI document is counted under its own method and name', async () => {
  const registry = new Registry();
  const accessLog: any = {};
  const operations = [{ operationId: 'deletePet', method: 'DELETE', path: '/pets/{petId}' }];
  const metrics = new Metrics(
    registry,
    accessLog,
    { load: { handled: 0, waiting: 0 } } as any,
    { operations } as any,
    { httpAdapter: { methods: new Set(['DELETE']) } } as any,
    { options: { max: 1 }, totalCount: 0, idleCount: 0, waitingCount: 0 } as any,
    { reads: { primary: 0, standby: 0 }, states: [] } as any,
    { warnings: 0 } as any,
  );
  metrics.onModuleInit();
  accessLog.observe({ route: '/v1/pets/:petId', method: 'DELETE', status: 204, ms: 1 });
  metrics.onModuleDestroy();
  const text = await registry.metrics();
  expect(text).toContain(
    'animal_store_http_requests_total{operation="deletePet",method="DELETE",status="204",code=""} 1\n',
  );
  expect(text).toContain(
    'animal_store_http_request_duration_seconds_bucket{le="0.001",operation="deletePet",method="DELETE"} 1\n',
  );
});
