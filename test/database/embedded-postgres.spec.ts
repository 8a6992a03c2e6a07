import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Client } from 'pg';
import { EmbeddedPostgres } from '../../src/embedded-postgres/embedded-postgres.js';
import { until } from '../support/until.js';
import { ask } from '../support/ask.js';

describe('EmbeddedPostgres', () => {
  let folder: string;
  let server: EmbeddedPostgres;
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'animal-store-embedded-'));
    server = await EmbeddedPostgres.start(folder);
  });
  afterAll(async () => {
    await server.stop();
    await rm(folder, { recursive: true, force: true });
  });

  it('listens on the loopback address alone, in UTF-8, and has a random password', async () => {
    const settings = `
      select current_setting('listen_addresses') as addresses, current_setting('server_encoding') as encoding,
             current_setting('unix_socket_directories') as sockets`;
    expect(await ask(server.url, settings)).toEqual({
      addresses: '127.0.0.1',
      encoding: 'UTF8',
      sockets: '',
    });
    const url = new URL(server.url);
    expect(url.password).toMatch(/^[0-9a-f]{64}$/);
    for (const password of ['', 'postgres', 'password']) {
      url.password = password;
      await expect(ask(url.href, 'select 1')).rejects.toThrow(/password/);
    }
  });

  it('still serves others if the session of one that stops was ended', async () => {
    const other = await EmbeddedPostgres.start(folder);
    const ended = once(other['session'], 'error');
    await ask(server.url, `select pg_terminate_backend(${(other['session'] as any).processID})`);
    await ended;
    await other.stop();
    expect(await ask(server.url, 'select 1 as answer')).toEqual({ answer: 1 });
  });

  it('serves whoever starts it at the moment that it is being stopped', async () => {
    let next: Promise<EmbeddedPostgres>;
    const { query } = Client.prototype;
    const { url } = server;
    Client.prototype.query = async function (this: Client, sql: string, values: unknown[]) {
      const answer = await query.call(this, sql, values as never, undefined as never);
      if (sql.includes('pg_try_advisory_lock')) {
        Client.prototype.query = query;
        next = EmbeddedPostgres.start(folder);
        await until('the next one waits', async () => (await ask(url, WAITING))['waiting'] === 1);
      }
      return answer;
    } as typeof query;

    await server.stop();
    server = await next!;
    expect(await ask(server.url, 'select 1 as answer')).toEqual({ answer: 1 });
  });
});

const WAITING = `
  select count(*)::int as waiting from pg_locks where locktype = 'advisory' and not granted`;
