import { expectError } from '../support/answers.js';
import { serviceOfTests } from '../support/service.js';
import { RawConnection, request } from '../support/raw-http.js';

describe('under overload', () => {
  const service = serviceOfTests();
  let list: string;
  beforeAll(async () => {
    list = request('GET /v1/pets', [`Authorization: Bearer ${service.key}`]);
  });

  const mostRequests = (requests: number) => {
    service.limits.requests = requests;
  };
  const open = () => RawConnection.open(service.port);

  it('the probes are answered all the same', async () => {
    mostRequests(0);
    for (const path of ['/health/live', '/health/ready']) {
      const connection = await open();
      connection.send(request(`GET ${path}`));
      expect((await connection.answer()).status).toBe(200);
      connection.vanish();
    }
  });

  it('a request too many is 503, and the next one is served', async () => {
    mostRequests(0);
    const connection = await open();
    connection.send(list);
    const answer = await connection.answer();
    expectError(answer, 503, 'unavailable', ['overloaded']);
    expect(answer.headers['retry-after']).toBe('1');
    expect(
      service.log.map((line) => JSON.parse(line)).filter(({ level }) => level === 'warn'),
    ).toEqual([
      {
        level: 'warn',
        time: expect.any(String),
        request: answer.headers['x-request-id'],
        reason: 'The service is overloaded; try again.',
        msg: 'A request was rejected with 503',
      },
    ]);
    mostRequests(1);
    connection.send(list);
    expect((await connection.answer()).status).toBe(200);
    connection.vanish();
  });
});
