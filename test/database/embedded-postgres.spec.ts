import { execFileSync } from 'node:child_process';
import { chown, mkdir, readdir, readFile, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Client } from 'pg';
import { EmbeddedPostgres } from '../../src/embedded-postgres/embedded-postgres.js';
import { ask } from '../support/ask.js';
import { temporaryFolder } from '../support/temporary-folder.js';
import { until } from '../support/until.js';

it('EmbeddedPostgres ignores PGOPTIONS, listens on the loopback address alone, in UTF-8, and has a random password', async () => {
  // Meant for another server.
  process.env['PGOPTIONS'] = '-c no_such_setting=on';
  const server = await EmbeddedPostgres.start(await temporaryFolder());
  const settings = `
    select current_setting('listen_addresses') as addresses, current_setting('server_encoding') as encoding,
           current_setting('unix_socket_directories') as sockets`;
  const expected = { addresses: '127.0.0.1', encoding: 'UTF8', sockets: '.' };
  expect(await ask(server.url, settings)).toEqual(expected);
  const url = new URL(server.url);
  expect(url.password).toMatch(/^[0-9a-f]{64}$/);
  for (const password of ['', 'postgres', 'password']) {
    url.password = password;
    await expect(ask(url.href, 'select 1')).rejects.toThrow(/password/);
  }
  await server.stop();
});

describe('EmbeddedPostgres', () => {
  it('joins a server with too many connections once it has fewer, and not one whose password is another: it says so, and stops what it started', async () => {
    const folder = await temporaryFolder();
    const first = await EmbeddedPostgres.start(folder);
    await ask(first.url, 'alter system set max_connections = 5');
    await first.stop();
    const server = await EmbeddedPostgres.start(folder);
    const clients = Array.from({ length: 4 }, () => new Client({ connectionString: server.url }));
    await Promise.all(clients.map((client) => client.connect()));
    const isRefused = async () =>
      (await readFile(join(folder, 'postgres.log'), 'utf8')).includes('too many clients');
    const [other] = await Promise.all([
      EmbeddedPostgres.start(folder),
      until('it is refused', isRefused).then(() => Promise.all(clients.map((one) => one.end()))),
    ]);
    expect(other.url).toBe(server.url);
    // Each attempt to join leaves a file for a moment.
    const names = await readdir(join(folder, 'postgres'));
    expect(names.filter((name) => name.startsWith('animal-store'))).toEqual([]);
    await server.stop();
    await other.stop();
    await writeFile(join(folder, 'postgres-password'), 'another');
    await expect(EmbeddedPostgres.start(folder)).rejects.toThrow(
      /password authentication failed.*\. To start over, delete /,
    );
    const file = readFile(join(folder, 'postgres/postmaster.pid'));
    await expect(file).rejects.toThrow('ENOENT');
  });

  it('serves a copy of its folder that was made while it ran, beside the original', async () => {
    const [folder, copy] = await Promise.all([temporaryFolder(), temporaryFolder()]);
    const original = await EmbeddedPostgres.start(folder);
    // Nothing is written while it is copied.
    await ask(original.url, 'checkpoint');
    execFileSync('cp', ['-a', `${folder}/.`, copy]);
    const other = await EmbeddedPostgres.start(copy);
    expect(other.url).not.toBe(original.url);
    for (const server of [original, other]) {
      expect(await ask(server.url, 'select 1 as one')).toEqual({ one: 1 });
      await server.stop();
    }
  });

  // Skipped for others: only root may give a folder to another account, and reads what it must not.
  const itOfRoot = process.getuid?.() === 0 ? it : it.skip;

  itOfRoot('does not let root use a folder of another account', async () => {
    const folder = await temporaryFolder();
    await chown(folder, 1000, 1000);
    await expect(EmbeddedPostgres.start(folder)).rejects.toThrow(
      /root does not use .+, which belongs to the user with the id 1000\. Run it as this user/,
    );
  });

  itOfRoot('reads for root only what the owner of the data can read', async () => {
    const [folder, secret] = await Promise.all([temporaryFolder(), temporaryFolder()]);
    const data = join(folder, 'postgres');
    await writeFile(join(secret, 'secret'), 'of root', { mode: 0o600 });
    await mkdir(data, { mode: 0o700 });
    await chown(data, 65_534, 65_534);
    for (const name of ['animal-store.password', 'postmaster.pid']) {
      await symlink(join(secret, 'secret'), join(data, name));
    }
    await expect(EmbeddedPostgres.start(folder)).rejects.toThrow('cannot be used');
    const password = await readFile(join(folder, 'postgres-password'), 'utf8');
    expect(password).toMatch(/^[0-9a-f]{64}$/);
  });
});
