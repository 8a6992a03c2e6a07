import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { readEnvironment } from '../../src/config/environment.js';
import { onDatabase } from '../../src/cli/command.js';
import { serversOf, writableOf } from '../../src/database/servers.js';
import { expectError } from '../support/answers.js';
import { until } from '../support/until.js';
import { startService, type TestService } from '../support/service.js';
import { ask, query } from '../support/ask.js';
import { describeWith } from '../support/describe-with.js';
import { Postgres, systemBinaries } from '../support/postgres.js';

const BINARIES = await systemBinaries();

describe('a URL of several servers', () => {
  it.each([
    ['postgres://u:p%2C@a:1,b:2/db?target_session_attrs=read-write', ['a:1/db?', 'b:2/db?']],
    [
      'postgres://u:p%2C@a,b/db?target_session_attrs=read-write&sslmode=disable',
      ['a/db?sslmode=disable', 'b/db?sslmode=disable'],
    ],
    ['postgres://u:p%2C@a/db?sslmode=disable', []],
  ])('is one URL for each, if target_session_attrs is set: %s', (url, ends) => {
    expect(serversOf(url)).toEqual(ends.map((end) => `postgres://u:p%2C@${end}`));
  });

  it('is used although its first host accepts connections and says nothing', async () => {
    const silent = createServer((socket) => socket.on('error', () => {})).listen(0, '127.0.0.1');
    await once(silent, 'listening');
    const { port } = silent.address() as AddressInfo;
    const url = process.env['TEST_DATABASE_URL']!;
    expect(await writableOf([`postgres://u@127.0.0.1:${port}/x`, url])).toBe(url);
    silent.close();
  });
});

describeWith('PostgreSQL', BINARIES)('a primary and its standby', () => {
  let primary: Postgres;
  let standby: Postgres;
  let DATABASE_URL: string;
  let service: TestService;
  beforeAll(async () => {
    primary = await Postgres.start([], BINARIES!);
    standby = await primary.standby();
    const hosts = `127.0.0.1:${standby.port},127.0.0.1:${primary.port}`;
    DATABASE_URL = `${primary.url.replace(/@[^/]*/, `@${hosts}`)}?target_session_attrs=read-write`;
  });
  afterAll(async () => {
    await service?.stop();
    await standby?.stop();
    await primary?.stop();
  });

  const create = () => service.api.post('/v1/pets').send({ name: 'Rex', categoryId: 1 });
  const setReadOnly = ({ url }: Postgres, state: 'on' | 'off') => {
    const setting = `alter system set default_transaction_read_only = ${state}`;
    return query(url, setting, 'select pg_reload_conf()');
  };
  const portInUse = async () => (await service.query('select inet_server_port() as port'))[0].port;

  it('a start finds the one that takes writes', async () => {
    await onDatabase(readEnvironment({ DATABASE_URL }), async ({ url }) => {
      expect(new URL(url).port).toBe(String(primary.port));
      service = await startService({ DATABASE_URL }, url);
    });
    await create().expect(201);
    expect(await portInUse()).toBe(primary.port);
  });

  it('no connection stays at one that became read-only', async () => {
    const { lsn } = await ask(primary.url, 'select pg_current_wal_lsn() as lsn');
    await until('the standby has all', async () => {
      const sql = `select pg_last_wal_replay_lsn() >= '${lsn}' as "isEqual"`;
      return (await ask(standby.url, sql)).isEqual;
    });
    await standby.promote();
    const sessions = await Promise.all(Array.from({ length: 5 }, () => service.pool.connect()));
    sessions.forEach((session) => session.release());
    expect(service.pool.idleCount).toBe(5);
    await setReadOnly(primary, 'on');
    await until('the sessions are read-only', async () => {
      const [row] = await service.query('show transaction_read_only');
      return row.transaction_read_only === 'on';
    });
    expectError(await create(), 503, 'unavailable', ['database', 'try again']);
    // One more may be there for a key that was verified again.
    await until('the idle ones are closed', () => service.pool.idleCount < 2);
    await until('an animal is created', async () => {
      const answer = await create();
      if (answer.status !== 201) {
        expectError(answer, 503, 'unavailable', ['database', 'try again']);
      }
      return answer.status === 201;
    });
    const ports = await Promise.all(Array.from({ length: 10 }, portInUse));
    expect(new Set(ports)).toEqual(new Set([standby.port]));
    await service.api.get('/v1/pets/1').expect(200);
  });

  it('readiness finds the other one, although nothing is written', async () => {
    const readiness = async () => (await service.anonymous.get('/health/ready')).status;
    await setReadOnly(primary, 'off');
    await setReadOnly(standby, 'on');
    await until('it is not ready', async () => (await readiness()) === 503);
    await until('it is ready', async () => (await readiness()) === 200);
    expect(await portInUse()).toBe(primary.port);
  });
});
