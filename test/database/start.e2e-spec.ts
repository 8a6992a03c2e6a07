import { once } from 'node:events';
import { type AddressInfo, connect, createServer } from 'node:net';
import { connectToServe } from '../../src/database/connect.js';
import { readEnvironment } from '../../src/config/environment.js';
import { OperatorError } from '../../src/errors/operator-error.js';
import { runMigrations } from '../../src/schema/migrations.js';
import { query } from '../support/ask.js';
import {
  createDatabase,
  createMigratedDatabase,
  dropDatabase,
  startService,
} from '../support/service.js';

describe('a start on a busy machine', () => {
  it('waits longer for its sessions than a request does', async () => {
    const url = await createDatabase();
    const { hostname, port } = new URL(url);
    let unanswered = 0;
    const slow = createServer((client) => {
      const server = connect(Number(port), hostname).on('error', () => client.destroy());
      server.pipe(client).on('error', () => server.destroy());
      client.on('data', (data) => {
        // The first session that would serve requests gets no response.
        if (data.includes('isReadOnly') && unanswered === 0) {
          unanswered += 1;
        } else {
          server.write(data);
        }
      });
    }).listen(0, '127.0.0.1');
    await once(slow, 'listening');
    const host = `127.0.0.1:${(slow.address() as AddressInfo).port}`;
    const service = await startService({}, Object.assign(new URL(url), { host }).href);
    await service.api.get('/v1/pets').expect(200);
    await service.stop();
    slow.close();
    await dropDatabase(url);
    expect(unanswered).toBe(1);
  });
});

describe('PostgreSQL 13', () => {
  it('is refused by migrations and by a start', async () => {
    const url = await createDatabase();
    // The tests have no such server. A function that is found before PostgreSQL's own tells another version.
    await query(
      url,
      'create schema old',
      `create function old.current_setting(name text) returns text language sql as
         $$select case name when 'server_version_num' then '130022' when 'server_version' then '13.22'
                  else pg_catalog.current_setting(name) end$$`,
      `alter database ${new URL(url).pathname.slice(1)} set search_path = old, pg_catalog`,
    );
    const message =
      'The server of DATABASE_URL is PostgreSQL 13.22; the service needs 14 or later.';
    const environment = readEnvironment({ DATABASE_URL: url });
    for (const refused of [() => runMigrations(url), () => connectToServe(url, environment)]) {
      await expect(refused()).rejects.toThrow(new OperatorError(message));
    }
    await dropDatabase(url);
  });
});

describe('a start on a node of Citus', () => {
  let url: string;
  beforeAll(async () => {
    url = await createMigratedDatabase();
    // Citus has this table on each node.
    await query(url, 'create table pg_dist_local_group (groupid int)');
  });
  afterAll(() => dropDatabase(url));

  const start = async (node: number, variables = {}) => {
    await query(url, 'truncate pg_dist_local_group');
    await query(url, `insert into pg_dist_local_group values (${node})`);
    const environment = readEnvironment({ DATABASE_URL: url, ...variables });
    return (await connectToServe(url, environment)).destroy();
  };

  it('is accepted on the coordinator, and refused on a worker and with standbys', async () => {
    await start(0);
    for (const [refused, message] of [
      [() => start(7), 'is a worker of Citus'],
      [() => start(0, { DATABASE_READ_URL: url }), 'DATABASE_READ_URL must not be set'],
    ] as const) {
      await expect(refused()).rejects.toThrow(OperatorError);
      await expect(refused()).rejects.toThrow(message);
    }
  });
});
