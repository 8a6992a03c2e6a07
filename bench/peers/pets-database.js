/**
 * The database as the peers on pg use it: one named, so once prepared, statement a request. What differs between
 * those peers is the way from the socket to here and back.
 */
import pg from 'pg';
import { ApiKeyCheck } from './api-key-check.js';
import { POOL_SIZE } from './contract.js';

const PET = 'id, name, category_id as "categoryId", status';

export class PetsDatabase {
  #pool;

  /** @param {object} [options] of pg's pool. */
  constructor(options) {
    this.#pool = new pg.Pool({
      connectionString: process.env.DATABASE_URL,
      max: POOL_SIZE,
      ...options,
    });
    this.keys = new ApiKeyCheck((hash) => this.#findKey(hash));
  }

  /** @returns the pets of a page and, where more follow, the id of its last. */
  async list({ limit, status, start }) {
    const pets =
      status === undefined
        ? await this.#query('list', `select ${PET} from pets where id >= $1 order by id limit $2`, [
            start,
            limit + 1,
          ])
        : await this.#query(
            'list-status',
            `select ${PET} from pets where status = $1 and id >= $2 order by id limit $3`,
            [status, start, limit + 1],
          );
    if (pets.length <= limit) {
      return { pets };
    }
    pets.pop();
    return { pets, last: pets[limit - 1].id };
  }

  /** @returns the pet, or `undefined`. */
  async get(id) {
    const [pet] = await this.#query('get', `select ${PET} from pets where id = $1`, [id]);
    return pet;
  }

  async create({ name, categoryId, status }) {
    const [pet] = await this.#query(
      'create',
      `insert into pets (name, category_id, status) values ($1, $2, $3) returning ${PET}`,
      [name, categoryId, status],
    );
    return pet;
  }

  async #findKey(hash) {
    const [key] = await this.#query(
      'key',
      'select id, expires_at as "expiresAt" from api_keys where hash = $1 and revoked_at is null',
      [hash],
    );
    return key;
  }

  async #query(name, text, values) {
    return (await this.#pool.query({ name, text, values })).rows;
  }
}
