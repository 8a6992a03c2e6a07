import { Client } from 'pg';
import { expectError } from '../support/answers.js';
import { startService, type TestService } from '../support/service.js';
import { RawConnection, request } from '../support/raw-http.js';
import { setLimits } from '../support/set-limits.js';

describe('under overload', () => {
  let service: TestService;
  let list: string;
  beforeAll(async () => {
    service = await startService();
    list = request('GET /v1/pets', [`Authorization: Bearer ${service.key}`]);
  });
  afterAll(() => service.stop());

  let resetLimits: () => void;
  afterEach(() => resetLimits());

  const mostRequests = (requests: number) => {
    resetLimits = setLimits({ requests });
  };
  const open = () => RawConnection.open(service.port);

  it('clients that send many requests at a time are all served, none at the cost of others', async () => {
    mostRequests(51);
    const eachSends = 20;
    const connections = await Promise.all(Array.from({ length: 50 }, open));
    connections.forEach((connection) => connection.send(list.repeat(eachSends)));
    const last = await open();
    last.send(list);
    const { status } = await last.answer();
    const statusesOf = connections.map(async (connection) => {
      const statuses = new Set<number>();
      for (let i = 0; i < eachSends; i += 1) {
        statuses.add((await connection.answer()).status);
      }
      connection.vanish();
      return [...statuses];
    });
    expect(status).toBe(200);
    expect(new Set((await Promise.all(statusesOf)).flat())).toEqual(new Set([200]));
    last.vanish();
  });

  it('the probes are answered all the same', async () => {
    mostRequests(0);
    for (const path of ['/health/live', '/health/ready']) {
      const connection = await open();
      connection.send(request(`GET ${path}`));
      expect((await connection.answer()).status).toBe(200);
      connection.vanish();
    }
  });

  it('a request too many is 503, and its connection is not read for a moment', async () => {
    mostRequests(0);
    const refused = await open();
    refused.send(list);
    const answer = await refused.answer();
    resetLimits();
    expectError(answer, 503, 'unavailable');
    expect(answer.headers['retry-after']).toBe('1');

    const answered: string[] = [];
    const next = async (name: string, connection: RawConnection) => {
      connection.send(list);
      expect((await connection.answer()).status).toBe(200);
      answered.push(name);
      connection.vanish();
    };
    await Promise.all([next('refused before', refused), next('new', await open())]);
    expect(answered).toEqual(['new', 'refused before']);
  });

  it('a request too many after one that took too long is told that the service is overloaded', async () => {
    const locker = new Client({ connectionString: service.databaseUrl });
    locker.on('error', () => {});
    await locker.connect();
    await locker.query('begin; lock table pets in access exclusive mode');
    resetLimits = setLimits({ responseTimeout: 0 });
    expectError(await service.api.get('/v1/pets'), 503, 'unavailable', ['takes too long']);
    resetLimits();
    mostRequests(0);
    expectError(await service.api.get('/v1/pets'), 503, 'unavailable', ['overloaded']);
    await locker.query('rollback');
    await locker.end();
  });
});
