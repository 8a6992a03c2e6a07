import { spawnSync } from 'node:child_process';
import { statementsOf } from '../../src/schema/migration-statements.js';
import { expectError } from '../support/answers.js';
import { ask, query } from '../support/ask.js';
import { canStopNodes, createExtension, startNode, stopNode, workersOf } from '../support/citus.js';
import { runHere } from '../support/command.js';
import {
  createDatabase,
  createLocalDatabase,
  createMigratedDatabase,
  dropDatabase,
} from '../support/database.js';
import { read } from '../support/documents.js';
import { createGrantedRole, dropGrantedRole, roleOf } from '../support/granted-role.js';
import { startService, type TestService, useRealTimes } from '../support/service.js';
import { until } from '../support/until.js';
import { Project } from '../support/project.js';

useRealTimes();

const REX = { name: 'Rex', categoryId: 1 };
const FIRST = process.env['CITUS_URL']!;

const create = ({ api }: TestService, key?: string) => {
  const request = api.post('/v1/pets').send(REX);
  return key === undefined ? request : request.set('Idempotency-Key', key);
};

const isReady = async ({ anonymous }: TestService) =>
  (await anonymous.get('/health/ready')).status === 200;

/** The SQL of a procedure of docs/citus.md. */
const sqlOf = (heading: string) =>
  new RegExp(`^## ${heading}$.*?^ *\`\`\`sql$(.+?)^ *\`\`\`$`, 'ms').exec(
    read('docs/citus.md'),
  )![1]!;

describe('a database whose migrations were applied before the extension', () => {
  it('is distributed while processes serve that started after the extension, without copies or new grants', async () => {
    const owner = await createLocalDatabase();
    const url = await createGrantedRole(owner);
    // As docs/citus.md says, each node has the roles.
    const workers = await workersOf(owner);
    for (const worker of workers) {
      await query(worker, `create role ${roleOf(owner)} login password 'sekrit'`);
    }
    const before = await startService({}, url, { owner });
    const { id } = (await create(before, 'a').expect(201)).body;
    await createExtension(owner);
    await before.anonymous.get('/health/ready').expect(200);
    await create(before).expect(201);
    const after = await startService({}, url, { owner });
    const undistributed = await runHere('check', { DATABASE_URL: url });
    expect([undistributed.code, undistributed.stdout]).toEqual([0, expect.any(String)]);
    expect(undistributed.stdout).toContain('warn  Citus: the tables are not distributed');

    let isDone = false;
    const statuses: number[] = [];
    const clients = [undefined, 'keyed'].map(async (prefix) => {
      for (let n = 0; !isDone; n += 1) {
        statuses.push((await create(after, prefix && `${prefix}-${n}`)).status);
        statuses.push((await after.api.get('/v1/pets')).status);
      }
    });
    await query(owner, sqlOf('Distribute the tables of a running service'));
    isDone = true;
    await Promise.all(clients);
    // While rows are moved, the tables are locked.
    expect(statuses.filter((status) => ![200, 201, 503].includes(status))).toEqual([]);
    await create(after, 'later').expect(201);
    const again = create(after, 'a').set('Authorization', `Bearer ${before.key}`);
    expect((await again.expect(201)).body.id).toBe(id);
    const { count } = await ask(owner, 'select count(*)::int from pets');
    expect(count).toBe(statuses.filter((status) => status === 201).length + 3);

    const answer = await before.anonymous.get('/health/ready');
    expectError(answer, 503, 'unavailable', ['restart it']);
    expect(before.log.some((line) => line.includes('restart it'))).toBe(true);
    const { code, stdout } = await runHere('check', { DATABASE_URL: url });
    expect({ code, stdout }).toMatchObject({ code: 0 });
    expect(stdout).toContain('ok    Citus: the tables are distributed. Restart each process');
    const reverted = await runHere('migrate revert --yes', { DATABASE_URL: owner });
    expect(reverted.code).toBe(0);
    const refused = await runHere('migrate revert --yes', { DATABASE_URL: owner });
    expect(refused).toMatchObject({ code: 1 });
    expect(refused.stderr).toContain('cannot be made local');
    await create(after, 'again').expect(201);
    await before.close();
    await after.stop();
    await dropGrantedRole(owner);
    await dropDatabase(owner);
    for (const server of await workersOf(FIRST)) {
      await query(server, `drop role if exists ${roleOf(owner)}`);
    }
  });
});

describe('a worker', () => {
  const project = Project.ofTests();

  it('is refused by every command, and gets no tables', async () => {
    const url = await createDatabase();
    await createExtension(url);
    const [worker] = await workersOf(url);
    const variables = { DATABASE_URL: worker! };
    for (const command of ['migrate run', 'migrate sql', 'check', 'keys list', 'seed 1', 'serve']) {
      const isServe = command === 'serve';
      const outcome = isServe ? project.run('serve', [], variables) : runHere(command, variables);
      const { code, stdout, stderr } = await outcome;
      expect([command, code]).toEqual([command, 1]);
      expect(`${stdout}${stderr}`).toContain('is a worker of Citus');
    }
    expect(await query(worker!, `select from pg_tables where schemaname = 'public'`)).toEqual([]);
    await dropDatabase(url);
  });
});

describe('a migration', () => {
  it('waits no longer for a lock on a worker than for one on the coordinator', async () => {
    const url = await createMigratedDatabase();
    const { shard, port } = await ask(
      url,
      `select shard_name as shard, nodeport as port from citus_shards where table_name = 'pets'::regclass limit 1`,
    );
    const worker = Object.assign(new URL(url), { port: String(port) }).href;
    const statements = await statementsOf(
      {
        name: 'AddColumn9999999999999',
        purpose: '',
        locks: { up: {}, down: {} },
        drops: [],
        up: async (session) => void (await session.query('alter table pets add column a text')),
        down: async () => {},
      },
      'up',
    );
    const holding = query(
      worker,
      'set citus.enable_manual_changes_to_shards = on',
      `begin; lock table ${shard}`,
      'select pg_sleep(600)',
    );
    const [sleeper] = await until(
      'it holds the lock',
      () => query(worker, `select pid from pg_stat_activity where query = 'select pg_sleep(600)'`),
      { holds: ({ length }) => length > 0 },
    );
    await expect(query(url, ...statements)).rejects.toMatchObject({ code: '55P03' });
    await query(worker, `select pg_terminate_backend(${sleeper.pid})`);
    await expect(holding).rejects.toThrow();
    await dropDatabase(url);
  });
});

describe('twins', () => {
  it('at two processes create one pet', async () => {
    const one = await startService();
    const two = await startService({}, one.databaseUrl);
    const { key } = one;
    const ids: string[] = [];
    for (let n = 0; n < 40; n += 1) {
      const both = [one, two].map(({ anonymous }) =>
        anonymous
          .post('/v1/pets')
          .set('Authorization', `Bearer ${key}`)
          .set('Idempotency-Key', `twin-${n}`)
          .send(REX),
      );
      const answers = await Promise.all(both);
      const created = answers.filter(({ status }) => status === 201);
      const others = answers.filter(({ status }) => status !== 201);
      expect(created.length).toBeGreaterThan(0);
      others.forEach((answer) => expectError(answer, 409, 'idempotency_key_in_use'));
      const [id, ...rest] = new Set(created.map(({ body }) => body.id));
      expect(rest).toEqual([]);
      ids.push(id);
    }
    const found = await query(one.databaseUrl, 'select id::int from pets order by id');
    expect(found.map(({ id }) => id)).toEqual(ids.toSorted((a, b) => Number(a) - Number(b)));
    await two.stop();
    await one.stop();
  });
});

describe('a dump', () => {
  it('that was restored with its schema is not distributed, which check says', async () => {
    const from = await createMigratedDatabase();
    await query(from, `insert into pets (name, category_id) values ('Rex', 1)`);
    const to = await createDatabase();
    await createExtension(to);
    const shell = `pg_dump -d "$FROM" -e plpgsql -Fc | pg_restore -d "$TO" --single-transaction --no-owner`;
    const env = { ...process.env, FROM: from, TO: to };
    const { status, stderr } = spawnSync('bash', ['-euo', 'pipefail', '-c', shell], {
      env,
      encoding: 'utf8',
    });
    expect({ status, stderr }).toMatchObject({ status: 0 });
    expect(await query(to, 'select name from pets')).toEqual([{ name: 'Rex' }]);
    const { stdout } = await runHere('check', { DATABASE_URL: to });
    expect(stdout).toContain('warn  Citus: the tables are not distributed');
    await Promise.all([from, to].map(dropDatabase));
  });
});

// Skipped unless CITUS_STOP and CITUS_START name the commands: a cluster on other machines cannot be stopped from here.
(canStopNodes ? describe : describe.skip)('while a node is away', () => {
  let service: TestService;
  let workers: string[];
  beforeAll(async () => {
    service = await startService();
    workers = await workersOf(service.databaseUrl);
  });
  afterAll(() => service.stop());

  it('a process is not ready, check names the node, and API keys are created and revoked', async () => {
    const [worker] = workers;
    const { port } = new URL(worker!);
    const environment = { DATABASE_URL: service.databaseUrl };
    expect(await runHere('check', environment)).toMatchObject({ code: 0 });
    await stopNode(worker!);
    try {
      const { code, stdout } = await runHere('check', environment);
      expect(code).toBe(1);
      expect(stdout).toMatch(new RegExp(`^FAIL  Citus: \\S+:${port} does not respond`, 'm'));
      expectError(await service.anonymous.get('/health/ready'), 503, 'unavailable');
      expectError(await service.api.get('/v1/pets'), 503, 'unavailable');
      const { id, key } = await service.keys.issue('meanwhile');
      const status = async () =>
        (await service.anonymous.get('/v1/pets?limit=0').set('Authorization', `Bearer ${key}`))
          .status;
      expect(await status()).toBe(400);
      await service.keys.revoke(id);
      await until('the key is rejected', status, { holds: (seen) => seen === 401 });
    } finally {
      await startNode(worker!);
    }
    await until('it is ready', () => isReady(service));
    expect(await runHere('check', environment)).toMatchObject({ code: 0 });
  });

  it.each(['the coordinator', 'the first worker', 'the second worker'])(
    'creates get 201, 409 or 503 when %s is killed under them, and no acknowledged pet is lost or stored twice',
    async (which) => {
      const node = which === 'the coordinator' ? FIRST : workers[which.includes('first') ? 0 : 1]!;
      const acknowledged = new Map<string, string>();
      const unexpected = new Set<string>();
      for (let round = 0; round < 3; round += 1) {
        let isDone = false;
        let created = 0;
        const clients = Array.from({ length: 6 }, async (_, client) => {
          for (let n = 0; !isDone; n += 1) {
            const key = `${which.replaceAll(' ', '-')}-${round}-${client}-${n}`;
            const isKeyed = client % 2 === 0;
            const { status, body, text } = await create(service, isKeyed ? key : undefined);
            const list = await service.api.get('/v1/pets?limit=5');
            if (status === 201) {
              acknowledged.set(isKeyed ? key : `without ${key}`, String(body.id));
              created += 1;
            } else if (status !== 503 && !(status === 409 && isKeyed)) {
              unexpected.add(`create ${text}`);
            }
            if (list.status !== 200 && list.status !== 503) {
              unexpected.add(`list ${list.text}`);
            }
          }
        });
        try {
          await until('pets are created', () => created > 5 + round * 5);
          await stopNode(node);
          await until('it is seen', async () => !(await isReady(service)));
        } finally {
          await startNode(node);
          await until('it is ready', () => isReady(service));
          isDone = true;
          await Promise.all(clients);
        }
      }
      const errors = service.log.flatMap((line) => {
        const { msg, err } = JSON.parse(line);
        return msg === 'The service failed' ? [err] : [];
      });
      expect({ unexpected: [...unexpected], errors }).toEqual({ unexpected: [], errors: [] });
      // A commit that a worker prepared is finished by the maintenance daemon.
      await query(service.databaseUrl, 'select recover_prepared_transactions()');
      for (const [key, id] of acknowledged) {
        const again = key.startsWith('without')
          ? await service.api.get(`/v1/pets/${id}`)
          : await create(service, key);
        expect([key, again.status, String(again.body.id)]).toEqual([
          key,
          key.startsWith('without') ? 200 : 201,
          id,
        ]);
      }
      const [{ doubled }] = await query(
        service.databaseUrl,
        `select count(*) - count(distinct id) as doubled from pets`,
      );
      expect(doubled).toBe('0');
    },
  );
});
