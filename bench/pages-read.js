/** What one request makes PostgreSQL read, in pages of 8 KiB: unlike its time, it does not depend on where they lie. */
import pg from 'pg';
import { poolOf, servingDataSource } from '../dist/src/database/data-source.js';
import { INT64_MIN } from '../dist/src/int64.js';
import { Pet } from '../dist/src/pets/pet.entity.js';
import { PET_PAGES, PET_PAGES_OF_STATUS, petsById } from '../dist/src/pets/pets.sql.js';

/**
 * @param {string} url the database's.
 * @param {number} animals their ids are 1 to this.
 * @returns {Promise<{ title: string, pages: number }[]>} one a kind of request.
 */
export async function pagesRead(url, animals) {
  const middle = Math.floor(animals / 2);
  /** @param {string | null} filter @param {number | bigint} start */
  const page = (filter, start) => ['{one}', `{${filter}}`, `{${start}}`, '{20}'];
  const dataSource = await servingDataSource(url, 1).initialize();
  const pool = poolOf(dataSource);
  /** @type {[title: string, statement: { name: string, text: string }, values: string[]][]} */
  const requests = [
    ['first page of 20', PET_PAGES, page(null, INT64_MIN)],
    ['page of 20 from the middle', PET_PAGES, page(null, middle)],
    ['first page of 20 of a rare status', PET_PAGES_OF_STATUS, page('pending', INT64_MIN)],
    ['page of 20 of a rare status from the middle', PET_PAGES_OF_STATUS, page('pending', middle)],
    ['get', petsById(dataSource.getRepository(Pet)), [`{${middle}}`]],
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
