import { Injectable } from '@nestjs/common';
import { Lane } from '../database/lane.js';
import { ServingPool } from '../database/pool.js';
import { ApiError } from '../errors/api-error.js';
import { listOf } from '../listing/list.js';
import { PageReader } from '../listing/page-reader.js';
import { type Page, Pages } from '../listing/pages.js';
import { ListPetsQuery } from './list-pets-query.dto.js';
import type { NewPet } from './new-pet.dto.js';
import { Pet } from './pet.entity.js';
import { PetStore, type StoredPet } from './pet-store.js';

export const PETS = listOf(Pet, ListPetsQuery);

/** The store's pets. Each operation serves all requests that wait for it together. */
@Injectable()
export class PetsService {
  private readonly pages: Pages;
  private readonly ids: Lane<bigint, StoredPet | undefined>;
  private readonly additions: Lane<NewPet, StoredPet | undefined>;

  constructor(store: PetStore, reader: PageReader, pool: ServingPool) {
    this.pages = new Pages(PETS, reader);
    const find: typeof store.find = (...args) => store.find(...args);
    this.ids = new Lane(pool.share(PETS.table), find, { keyOf: (id) => id });
    const insert: typeof store.insert = (...args) => store.insert(...args);
    this.additions = new Lane(pool.share('new pets', 'pets'), insert);
  }

  list(query: ListPetsQuery, deadline: number): Promise<Page> {
    return this.pages.ask(query, deadline);
  }

  /** createPet without an Idempotency-Key. When this resolves, the pet is committed. */
  async create(pet: NewPet, deadline: number): Promise<StoredPet> {
    const stored = await this.additions.ask(pet, deadline);
    if (stored === undefined) {
      throw new Error('PostgreSQL did not store the pet. A trigger may have left it out.');
    }
    return stored;
  }

  /** getPet; the `id` is `undefined` if it is not an int64. @throws ApiError `pet_not_found`. */
  async get(id: bigint | undefined, deadline: number): Promise<StoredPet> {
    const pet = id === undefined ? undefined : await this.ids.ask(id, deadline);
    if (pet === undefined) {
      throw new ApiError('pet_not_found', 'No such pet.');
    }
    return pet;
  }
}
