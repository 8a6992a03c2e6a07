import { expectError } from '../support/answers.js';
import { serviceOfTests } from '../support/service.js';
import { RawConnection, request } from '../support/raw-http.js';

describe('under overload', () => {
  const service = serviceOfTests();

  it('a request too many is 503 with its reason in the log, the probes are answered all the same, and the next one is served', async () => {
    service.limits.requests = 0;
    const connection = await RawConnection.open(service.port);
    const list = request('GET /v1/pets', [`Authorization: Bearer ${service.key}`]);
    service.log.length = 0;
    connection.send(list);
    const answer = await connection.answer();
    expectError(answer, 503, 'unavailable', ['overloaded']);
    expect(answer.headers['retry-after']).toBe('1');
    const reason = 'The service is overloaded; try again.';
    expect(JSON.parse(service.log[0]!)).toMatchObject({ level: 'warn', reason });
    for (const path of ['/health/live', '/health/ready']) {
      connection.send(request(`GET ${path}`));
      expect((await connection.answer()).status).toBe(200);
    }
    service.limits.requests = 1;
    connection.send(list);
    expect((await connection.answer()).status).toBe(200);
    connection.vanish();
  });
});
