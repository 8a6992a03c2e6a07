/** What one request makes PostgreSQL read, in pages of 8 KiB: unlike its time, it does not depend on where they lie. */
import pg from 'pg';
import { readEnvironment } from '../dist/src/config/environment.js';
import { poolOf, servingDataSource } from '../dist/src/database/data-source.js';
import { INT64_MIN } from '../dist/src/int64.js';
import { pagesStatement } from '../dist/src/listing/postgres-page-reader.js';
import { PETS } from '../dist/src/pets/pets.service.js';
import { FIND_PETS } from '../dist/src/pets/postgres-pet-store.js';

/**
 * @param {string} url the database's.
 * @param {number} animals their ids are 1 to this.
 * @returns {Promise<{ title: string, pages: number }[]>} one a kind of request.
 */
export async function pagesRead(url, animals) {
  const middle = Math.floor(animals / 2);
  const pages = pagesStatement(PETS, []);
  const pagesOfStatus = pagesStatement(PETS, PETS.filters);
  /** @param {number | bigint} start @param {string[]} values */
  const page = (start, ...values) => [`{${start}}`, '{21}', ...values];
  const environment = readEnvironment({ DATABASE_URL: url });
  const dataSource = await servingDataSource(url, environment).initialize();
  const pool = poolOf(dataSource);
  /** @type {[title: string, statement: { name: string, text: string }, values: string[]][]} */
  const requests = [
    ['first page of 20', pages, page(INT64_MIN)],
    ['page of 20 from the middle', pages, page(middle)],
    ['first page of 20 of a rare status', pagesOfStatus, page(INT64_MIN, '{pending}')],
    ['page of 20 of a rare status from the middle', pagesOfStatus, page(middle, '{pending}')],
    ['get', FIND_PETS, [`{${middle}}`]],
  ];
  try {
    const found = [];
    for (const [title, { name, text }, values] of requests) {
      const execute = `execute "${name}" (${values.map(pg.escapeLiteral).join(', ')})`;
      await pool.query(`prepare "${name}" as ${text}`);
      // A first run reads the catalogs too.
      await pool.query(execute);
      const { rows } = await pool.query(`explain (analyze, buffers, format json) ${execute}`);
      await pool.query(`deallocate "${name}"`);
      const [{ Plan: plan }] = rows[0]['QUERY PLAN'];
      found.push({ title, pages: plan['Shared Hit Blocks'] + plan['Shared Read Blocks'] });
    }
    return found;
  } finally {
    await dataSource.destroy();
  }
}
