import { setTimeout as wait } from 'node:timers/promises';
import { Controller, Get, type MiddlewareConsumer, Module, type NestModule } from '@nestjs/common';
import type { Response } from 'express';
import { InjectRepository, TypeOrmModule } from '@nestjs/typeorm';
import { Client } from 'pg';
import { Entity, PrimaryGeneratedColumn, Repository } from 'typeorm';
import type { Request } from '../../src/http/express-classes.js';
import { createMigratedDatabase, dropDatabase } from '../support/database.js';
import { describeWith } from '../support/describe-with.js';
import { pgBouncerBefore, setForSessions } from '../support/pooler.js';
import { exchange, RawConnection, request } from '../support/raw-http.js';
import { startService, type TestService, useRealTimes } from '../support/service.js';
import { until } from '../support/until.js';
import { Wire } from '../support/wire.js';

useRealTimes();

/** Milliseconds from the end of a request to its response, at most (interface, part 8). */
const LIMIT = 5_000;

/** Locks tables, on a session of its own. @returns what unlocks them. */
async function lock(url: string, tables: string): Promise<() => Promise<void>> {
  const locker = new Client({ connectionString: url });
  locker.on('error', () => {});
  await locker.connect();
  await locker.query(`begin; lock table ${tables}`);
  return () => locker.end();
}

let created = 0;
const keyed = (line: string, key: string, headers: string[] = [], body?: string) =>
  request(line, [`Authorization: Bearer ${key}`, ...headers], body);
const list = (key: string) => keyed('GET /v1/pets', key);
const get = (key: string) => keyed('GET /v1/pets/1', key);
const listOrders = (key: string) => keyed('GET /v1/store/orders', key);
const create = (key: string, headers: string[] = [], name = 'Rex') =>
  keyed(
    'POST /v1/pets',
    key,
    ['Content-Type: application/json', ...headers],
    `{"name":"${name}","categoryId":1}`,
  );
const createOnce = (key: string) => create(key, [`Idempotency-Key: ${(created += 1)}`]);

/** Milliseconds from the arrival of each request to its response. */
const times: number[] = [];

/** Notes {@link times}: this process is a client too, so its clients' times would be longer. */
@Module({})
class TimedModule implements NestModule {
  configure(consumer: MiddlewareConsumer): void {
    const note = (request: Request, response: Response, next: () => void) => {
      response.once('finish', () => times.push(performance.now() - request.arrivedAt!));
      next();
    };
    consumer.apply(note).forRoutes('{*path}');
  }
}

/**
 * Each connection sends one request after the other. @returns the statuses, and the {@link times} that were too long: longer
 * than {@link LIMIT} by more than the machine took meanwhile for a request that waits for nothing.
 */
async function load(
  port: number,
  connections: number,
  rounds: number,
  next: (i: number) => string,
) {
  times.length = 0;
  const statuses = new Map<number, number>();
  const open = await Promise.all(
    Array.from({ length: connections }, () => RawConnection.open(port)),
  );
  const run = async (connection: RawConnection, i: number) => {
    for (let round = 0; round < rounds; round += 1) {
      connection.send(next(i));
      const { status } = await connection.answer();
      statuses.set(status, (statuses.get(status) ?? 0) + 1);
    }
    connection.vanish();
  };
  const probe = await RawConnection.open(port);
  let isLoading = true;
  let longest = 0;
  const probing = (async () => {
    while (isLoading) {
      const start = performance.now();
      probe.send(request('GET /health/live'));
      await probe.answer();
      longest = Math.max(longest, performance.now() - start);
      // One after the other, they would take the CPU from the others.
      await wait(10);
    }
    probe.vanish();
  })();
  await Promise.all(open.map(run)).finally(() => (isLoading = false));
  await probing;
  const most = LIMIT + longest;
  return {
    statuses: Object.fromEntries(statuses),
    isComplete: times.length >= connections * rounds,
    late: times.filter((time) => !(time <= most)),
  };
}

describe('each of many requests has a response within 5 seconds', () => {
  let wire: Wire;
  let url: string;
  let directUrl: string;
  let service: TestService;
  beforeAll(async () => {
    wire = await Wire.to(process.env['TEST_DATABASE_URL']!);
    url = await createMigratedDatabase(wire.url);
    directUrl = Object.assign(new URL(url), {
      host: new URL(process.env['TEST_DATABASE_URL']!).host,
    }).href;
    service = await startService({}, url, { modules: [TimedModule] });
    await service.api.post('/v1/pets').send({ name: 'Rex', categoryId: 1 }).expect(201);
  });
  afterAll(async () => {
    await service.stop();
    wire.cut();
    await dropDatabase(directUrl);
  });
  afterEach(() =>
    until('it recovers', async () => (await service.api.get('/v1/pets')).status === 200),
  );

  const pets = [list, get, create, createOnce];
  type Ways = [what: string, hang: () => Promise<() => unknown>, requests: (typeof list)[]];
  const locked = (tables: string) => () => lock(directUrl, tables);
  const WAYS: Ways[] = [
    ['lists while pets are locked', locked('pets'), [list]],
    ['all operations while pets are locked', locked('pets'), pets],
    ['creates while Idempotency-Keys are locked', locked('idempotency_keys'), [createOnce]],
    ['all operations while the database is silent', async () => wire.stall(), pets],
  ];

  /** Expects that nothing is late; 503 is a response. */
  const expectInTime = (found: Awaited<ReturnType<typeof load>>) =>
    expect(found).toMatchObject({
      late: [],
      isComplete: true,
      statuses: { 503: expect.any(Number) },
    });

  it.each(WAYS)(
    'that come at once: %s',
    async (_what, hang, requests) => {
      const mend = await hang();
      try {
        const next = (i: number) => requests[i % requests.length]!(service.key);
        expectInTime(await load(service.port, 600, 1, next));
      } finally {
        await mend();
      }
    },
    60_000,
  );

  it('that keep coming: all operations while pets are locked', async () => {
    const unlock = await lock(directUrl, 'pets');
    try {
      const next = (i: number) => pets[i % pets.length]!(service.key);
      expectInTime(await load(service.port, 400, 3, next));
    } finally {
      await unlock();
    }
  }, 90_000);

  it('that come at once: with a key that is looked up while the keys are locked', async () => {
    const { key } = await service.keys.issue('new');
    const unlock = await lock(directUrl, 'api_keys');
    try {
      expectInTime(await load(service.port, 600, 1, () => list(key)));
    } finally {
      await unlock();
    }
  }, 60_000);
});

describeWith('pgbouncer')(
  'behind PgBouncer, each of many requests has a response within 5 seconds',
  () => {
    const what = [list, get, listOrders, create, createOnce];

    it.each([
      ['with a session for each of the service', 'pets', 20],
      ['with fewer', 'pets, orders', 3],
    ])('%s, while %s are locked', async (_which, tables, sessions) => {
      const url = await createMigratedDatabase();
      await setForSessions(url, { jit: 'off', statement_timeout: '1500ms' });
      const pooler = await pgBouncerBefore(url, sessions);
      const variables = { DATABASE_POOLER: 'transaction' };
      const service = await startService(variables, pooler.url, { modules: [TimedModule] });
      const { key } = service;
      await exchange(service.port, create(key));
      const unlock = await lock(url, tables);
      try {
        const found = await load(service.port, 300, 2, (i) => what[i % what.length]!(key));
        expect(found).toMatchObject({ late: [], isComplete: true });
        expect(found.statuses[503]).toBeGreaterThan(300);
      } finally {
        await unlock();
      }
      await until('it recovers', async () => (await service.api.get('/v1/pets')).status === 200);
      await service.stop();
      await pooler.stop();
      await dropDatabase(url);
    });
  },
);

@Entity('crates')
class Crate {
  @PrimaryGeneratedColumn('identity', { type: 'bigint' })
  id!: string;
}

/** As a NestJS engineer writes it, without knowledge of this service. */
@Controller('crates')
class CratesController {
  constructor(@InjectRepository(Crate) private readonly crates: Repository<Crate>) {}

  @Get()
  list() {
    return this.crates.find();
  }
}

@Module({ imports: [TypeOrmModule.forFeature([Crate])], controllers: [CratesController] })
class CratesModule {}

it('readiness is 200, and a key is looked up, while the tables of all modules are locked and many requests wait for them', async () => {
  const service = await startService({}, undefined, { modules: [CratesModule, TimedModule] });
  await service.query('create table crates (id bigint primary key)');
  // None is known to the service yet. They are issued on sessions of TypeORM. A query that is wrong needs no table.
  const keys = (await Promise.all(Array.from({ length: 50 }, () => service.keys.issue('new')))).map(
    ({ key }) => key,
  );
  const listCrates = (key: string) => keyed('GET /crates', key);
  const all = [list, listOrders, get, create, createOnce, listCrates];
  expect((await exchange(service.port, listCrates(service.key))).status).toBe(200);
  const unlock = await lock(service.databaseUrl, 'pets, orders, crates');
  let isLoading = true;
  const loading = load(service.port, 120, 1, (i) => all[i % all.length]!(service.key)).finally(
    () => (isLoading = false),
  );
  try {
    const statuses = new Set<number>();
    while (isLoading && !statuses.has(503)) {
      statuses.add((await service.anonymous.get('/health/ready')).status);
      const key = keys.pop() ?? service.key;
      statuses.add((await exchange(service.port, keyed('GET /v1/pets?limit=0', key))).status);
    }
    expect(statuses).toEqual(new Set([200, 400]));
  } finally {
    await unlock();
    await loading;
    await service.stop();
  }
});
