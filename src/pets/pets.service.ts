import { Injectable } from '@nestjs/common';
import { InjectRepository } from '@nestjs/typeorm';
import { Pool, type PoolClient } from 'pg';
import { Repository } from 'typeorm';
import { Batcher } from '../database/batcher.js';
import { Standbys } from '../standbys/standbys.js';
import { run, runForEach, type Statement } from '../database/statement.js';
import { ApiError } from '../errors/api-error.js';
import { type Page, type PageRequest, Pages } from '../listing/pages.js';
import { PET_CURSORS } from './list-pets-query.dto.js';
import type { NewPet } from './new-pet.dto.js';
import { Pet } from './pet.entity.js';
import {
  INSERT_PETS,
  newPetArguments,
  newPetJson,
  PET_PAGES,
  PET_PAGES_OF_STATUS,
  petsById,
} from './pets.sql.js';

export interface StoredPet {
  id: string;
  /** The Pet as JSON text. */
  json: string;
}

/** The error if a trigger of the table's owner changed a new pet or did not insert it. */
export const notStoredAsSent = () =>
  new Error('PostgreSQL stored another pet than it was sent, or none.');

/** The store of animals. Each operation serves all requests that wait for it with one statement. */
@Injectable()
export class PetsService {
  private readonly pages: Pages;
  private readonly pagesOfStatus: Pages;
  private readonly ids = new Batcher('pets_by_id', (ids: bigint[]) =>
    this.standbys.read((sessions) => this.findByIds(sessions, ids)),
  );
  private readonly additions = new Batcher('new_pets', (pets: NewPet[]) =>
    runForEach<[id: string]>(this.pool, INSERT_PETS, newPetArguments(pets)),
  );

  private readonly petsById: Statement;

  constructor(
    @InjectRepository(Pet) pets: Repository<Pet>,
    private readonly pool: Pool,
    private readonly standbys: Standbys,
  ) {
    this.pages = new Pages(PET_PAGES, PET_CURSORS, standbys);
    this.pagesOfStatus = new Pages(PET_PAGES_OF_STATUS, PET_CURSORS, standbys);
    this.petsById = petsById(pets);
  }

  /** listPets: a page of the animals whose ids are greater than `after`. The filter is a PetStatus. */
  list(request: PageRequest): Promise<Page> {
    return (request.filter === undefined ? this.pages : this.pagesOfStatus).ask(request);
  }

  /** createPet without an Idempotency-Key. When this resolves, the pet is committed. */
  async create(pet: NewPet): Promise<StoredPet> {
    const stored = await this.additions.ask(pet);
    if (stored === undefined) {
      throw notStoredAsSent();
    }
    const [id] = stored;
    return { id, json: newPetJson(id, pet) };
  }

  /**
   * getPet.
   *
   * @param id `undefined` if the request's id is not an int64. No animal has such an id.
   * @throws ApiError `pet_not_found`.
   */
  async get(id: bigint | undefined): Promise<StoredPet> {
    const pet = id === undefined ? undefined : await this.ids.ask(id);
    if (pet === undefined) {
      throw new ApiError('pet_not_found', 'No such animal.');
    }
    return pet;
  }

  private async findByIds(
    sessions: Pool | PoolClient,
    ids: bigint[],
  ): Promise<(StoredPet | undefined)[]> {
    const rows = await run<[id: string, json: string]>(sessions, this.petsById, [
      [...new Set(ids)],
    ]);
    const pets = new Map(rows.map(([id, json]) => [id, { id, json }]));
    return ids.map((id) => pets.get(String(id)));
  }
}
