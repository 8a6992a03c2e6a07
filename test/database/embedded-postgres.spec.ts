import { execFileSync } from 'node:child_process';
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { EmbeddedPostgres } from '../../src/embedded-postgres/embedded-postgres.js';
import { ask } from '../support/ask.js';
import { temporaryFolder } from '../support/temporary-folder.js';

describe('EmbeddedPostgres', () => {
  let folder: string;
  let server: EmbeddedPostgres;
  beforeAll(async () => {
    folder = await temporaryFolder();
    // Meant for another server.
    process.env['PGOPTIONS'] = '-c no_such_setting=on';
    server = await EmbeddedPostgres.start(folder);
  });
  afterAll(() => server.stop());

  it('ignores PGOPTIONS, listens on the loopback address alone, in UTF-8, and has a random password', async () => {
    const settings = `
      select current_setting('listen_addresses') as addresses, current_setting('server_encoding') as encoding,
             current_setting('unix_socket_directories') as sockets`;
    const expected = { addresses: '127.0.0.1', encoding: 'UTF8', sockets: '' };
    expect(await ask(server.url, settings)).toEqual(expected);
    const url = new URL(server.url);
    expect(url.password).toMatch(/^[0-9a-f]{64}$/);
    for (const password of ['', 'postgres', 'password']) {
      url.password = password;
      await expect(ask(url.href, 'select 1')).rejects.toThrow(/password/);
    }
  });

  it('has its own data in a copy of the folder that was made while the original runs', async () => {
    await ask(server.url, 'create table of_the_original ()');
    const copy = join(folder, 'copy');
    await mkdir(copy);
    // With the owners of all files.
    execFileSync('cp', ['-a', join(folder, 'postgres'), copy]);
    const other = await EmbeddedPostgres.start(copy);
    await ask(other.url, 'create table of_the_copy ()');
    const tables = `select array_agg(relname order by relname)::text as tables from pg_class where relname ~ '^of_the'`;
    expect(await ask(other.url, tables)).toEqual({ tables: '{of_the_copy,of_the_original}' });
    expect(await ask(server.url, tables)).toEqual({ tables: '{of_the_original}' });
    await other.stop();
    expect(await readdir(join(copy, 'postgres'))).toEqual(
      expect.not.arrayContaining([expect.stringMatching(/^animal-store\.(?!password)/)]),
    );
  });

  it('does not start on data of another version, and says which one and what to do', async () => {
    await server.stop();
    const file = join(folder, 'postgres/PG_VERSION');
    const version = await readFile(file, 'utf8');
    await writeFile(file, '17\n');
    await expect(EmbeddedPostgres.start(folder)).rejects.toThrow(
      /initialized by PostgreSQL version 17, .* log is .*postgres\.log.* To keep the data, .* delete .*\. /,
    );
    await writeFile(file, version);
    server = await EmbeddedPostgres.start(folder);
  });
});
