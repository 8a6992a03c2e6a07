/** The database of a run: an embedded PostgreSQL in a temporary folder, with the service's schema and many animals. */
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { administerKeys } from '../dist/src/auth/api-keys.js';
import { administer } from '../dist/src/database/connect.js';
import { EmbeddedPostgres } from '../dist/src/embedded-postgres/embedded-postgres.js';
import { runMigrations } from '../dist/src/schema/migrations.js';
import { cursorAfter } from '../dist/src/listing/cursors.js';
import { pagesRead } from './pages-read.js';

/** More than a load asks for in its time. */
const CURSORS = 100_000;

/** $1 animals, ids from 1 on; names of 4 to 40 characters; 90 % available, 9.5 % sold, 0.5 % pending, evenly spread. */
export const SEED = `
  insert into pets (name, category_id, status)
  select substr(md5(n::text) || md5((-n)::text), 1, 4 + n % 37),
         n % 500,
         case when n % 200 = 0 then 'pending' when n % 200 < 20 then 'sold' else 'available' end
    from generate_series(1, $1::int) as n`;

/**
 * @param {object} table
 * @param {number} table.animals how many it holds.
 * @param {string} table.sharedBuffers PostgreSQL's `shared_buffers`.
 */
export async function openDatabase({ animals, sharedBuffers }) {
  const folder = await mkdtemp(join(tmpdir(), 'animal-store-bench-'));
  let server;
  let client;
  const close = async () => {
    await client?.end();
    await server?.stop();
    await rm(folder, { recursive: true, force: true });
  };
  try {
    server = await EmbeddedPostgres.start(folder);
    await administer(server.url, async (dataSource) => {
      await dataSource.query(
        `alter system set shared_buffers = ${pg.escapeLiteral(sharedBuffers)}`,
      );
      await dataSource.query('create database bench');
    });
    await server.stop();
    server = await EmbeddedPostgres.start(folder);
    const url = new URL(server.url);
    url.pathname = '/bench';
    await runMigrations(url.href);
    const { key } = await administerKeys(url.href, (keys) => keys.issue('bench'));
    client = new pg.Client({ connectionString: url.href });
    await client.connect();
    // Vacuumed after each load that creates, and at no other time.
    await client.query('alter table pets set (autovacuum_enabled = off)');
    await client.query(SEED, [animals]);
    await tidy(client);
    const { rows } = await client.query('show server_version');
    const pid = Number(
      (await readFile(join(folder, 'postgres/postmaster.pid'), 'utf8')).split('\n')[0],
    );
    return {
      animals,
      url: url.href,
      key,
      pid,
      version: rows[0].server_version,
      pagesRead: await pagesRead(url.href, animals),
      cursorsFile: await writeCursors(folder, client, animals),
      /** Brings the table back to what it was before a load created animals. */
      restore: async () => {
        await client.query('delete from pets where id > $1', [animals]);
        await tidy(client);
      },
      close,
    };
  } catch (error) {
    await close();
    throw error;
  }
}

/** What PostgreSQL would do at a time of its own choosing. */
async function tidy(client) {
  await client.query('vacuum analyze pets');
  await client.query('checkpoint');
}

/** Cursors evenly spread over all that have a full page of 20 after them, shuffled, one a line. */
export async function writeCursors(folder, client, animals) {
  const { rows } = await client.query(
    'select id from generate_series(1, $1::int, $2::int) as id order by md5(id::text)',
    [animals - 20, Math.ceil(animals / CURSORS)],
  );
  const file = join(folder, 'cursors');
  await writeFile(file, rows.map(({ id }) => `${cursorAfter('pets', BigInt(id))}\n`).join(''));
  return file;
}
