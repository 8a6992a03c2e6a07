import { Injectable } from '@nestjs/common';
import type { PoolClient } from 'pg';
import { inTransaction, query } from '../database/statement.js';
import { LOCK_TIMEOUT, sqlState } from '../errors/database-error.js';
import type { NewPet } from './new-pet.dto.js';
import { type CreatedPet, type Creation, NEW_PET_COLUMNS, type StoredPet } from './pet-store.js';
import { NEW_PETS, newPetArguments, PET_JSON, PostgresPetStore } from './postgres-pet-store.js';

/** What differs on Citus, which plans each of these statements anyway, so they are not prepared. docs/citus.md is for operators. */
@Injectable()
export class CitusPetStore extends PostgresPetStore {
  /** One after the other on a session, and several sessions at a time. */
  override readonly limits = { requestsPerStatement: 1, patience: 0 };

  /** Returns new pets as PET_JSON writes them. On Citus, an insert cannot return that: `to_json` is not immutable. */
  override async insert(pets: readonly NewPet[], session: PoolClient): Promise<StoredPet[]> {
    type Row = [id: string, json: string];
    const rows = await query<Row>(session, CITUS_STATEMENTS.newPets, newPetArguments(pets));
    const columns = [rows.map(([id]) => id), ...newPetArguments(pets)];
    const values = pets.flatMap((_pet, i) => columns.map((column) => column[i]));
    await query(session, insertOnCitus(pets.length), values);
    return rows.map(([id, json]) => ({ id, json }));
  }

  override async insertOnce(creations: readonly Creation[], session: PoolClient) {
    const created: (CreatedPet | undefined)[] = [];
    for (const creation of creations) {
      created.push(await this.insertOne(creation, session));
    }
    return created;
  }

  /** Citus does not support `skip locked`. So this waits for locked records, and fails if it waits too long. */
  override async deleteOldKeys(session: PoolClient): Promise<number> {
    const cutoff = await this.expiryCutoff(session);
    return (await query(session, CITUS_STATEMENTS.deleteOldKeys, [cutoff])).length;
  }

  /**
   * Inserts a pet and the record of its key, if the record is missing or old. This commits on all nodes or on none. If there
   * is a record without its pet, the key is in use: a worker has not finished the commit, or the pet was deleted.
   */
  private async insertOne(
    { apiKeyId, key, bodyHash, pet }: Creation,
    session: PoolClient,
  ): Promise<CreatedPet | undefined> {
    const cutoff = await this.expiryCutoff(session);
    type Row = [bodyHash: string, petId: string];
    const [record] = await query<Row>(session, CITUS_STATEMENTS.findKey, [apiKeyId, key, cutoff]);
    if (record !== undefined) {
      const [known] = await this.find([BigInt(record[1])], session);
      return known && { ...known, bodyHash: record[0], isReplayed: true };
    }
    return inTransaction(session, async () => {
      const [lock] = await query<[boolean]>(session, CITUS_STATEMENTS.lockKey, [apiKeyId, key]);
      if (!lock![0]) {
        return undefined;
      }
      const [stored] = await this.insert([pet], session);
      const values = [apiKeyId, key, bodyHash, stored!.id, cutoff];
      await query(session, CITUS_STATEMENTS.limitWait);
      const rows = await query(session, CITUS_STATEMENTS.recordKey, values).catch((error) => {
        // A commit that a worker has not finished keeps the record locked.
        if (sqlState(error) === LOCK_TIMEOUT) {
          return [];
        }
        throw error;
      });
      // Without a row, another transaction has recorded the key meanwhile, or is about to.
      return rows.length > 0 ? { ...stored!, bodyHash, isReplayed: false } : undefined;
    });
  }

  /** The time 24 hours ago on the coordinator's clock. In the other statements, each node would read its own clock. */
  private async expiryCutoff(session: PoolClient): Promise<string> {
    return (await query<[string]>(session, CITUS_STATEMENTS.expiryCutoff))[0]![0];
  }
}

export const CITUS_STATEMENTS = {
  // Longer than a migration waits for a table, with which requests wait. It also holds on the workers.
  limitWait: `set local lock_timeout = '500ms'`,
  newPets: `with new as materialized (${NEW_PETS})
select id, ${PET_JSON} from new order by position`,
  expiryCutoff: `select (now() - interval '24 hours')::text`,
  findKey: `select encode(body_hash, 'hex'), pet_id from idempotency_keys
 where api_key_id = $1 and key = $2 and created_at >= $3::timestamptz`,
  lockKey: `select pg_try_advisory_xact_lock(hashint8($1), hashtext($2))`,
  recordKey: `insert into idempotency_keys as earlier (api_key_id, key, body_hash, pet_id)
values ($1, $2, decode($3, 'hex'), $4)
    on conflict (api_key_id, key) do update
   set body_hash = excluded.body_hash, pet_id = excluded.pet_id, created_at = excluded.created_at
 where earlier.created_at < $5::timestamptz
returning key`,
  deleteOldKeys: `delete from idempotency_keys
 where (api_key_id, key) in (
       select api_key_id, key from idempotency_keys
        where created_at < $1::timestamptz order by created_at limit 1000)
   and created_at < $1::timestamptz
returning key`,
} as const;

/** Inserts so many pets, each with its id: Citus would open a connection to each shard for an `insert … select`. */
export function insertOnCitus(count: number): string {
  const names = ['id', ...NEW_PET_COLUMNS.map(({ name }) => name)];
  let last = 0;
  const rows = Array.from({ length: count }, () => `(${names.map(() => `$${++last}`).join(', ')})`);
  return `insert into pets (${names.join(', ')}) values ${rows.join(', ')}`;
}
