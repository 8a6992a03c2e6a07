import { EmbeddedPostgres } from '../../src/embedded-postgres/embedded-postgres.js';
import { ask } from '../support/ask.js';
import { temporaryFolder } from '../support/temporary-folder.js';

it('EmbeddedPostgres ignores PGOPTIONS, listens on the loopback address alone, in UTF-8, and has a random password', async () => {
  // Meant for another server.
  process.env['PGOPTIONS'] = '-c no_such_setting=on';
  const server = await EmbeddedPostgres.start(await temporaryFolder());
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
  await server.stop();
});
