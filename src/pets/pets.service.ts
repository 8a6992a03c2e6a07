import { Injectable } from '@nestjs/common';
import { InjectRepository } from '@nestjs/typeorm';
import { Repository } from 'typeorm';
import { Batcher } from '../database/batcher.js';
import { SessionShare } from '../database/session-share.js';
import { run, runForEach } from '../database/statement.js';
import { ApiError } from '../errors/api-error.js';
import { type Page, Pages } from '../listing/pages.js';
import { Standbys } from '../standbys/standbys.js';
import type { ListPetsQuery } from './list-pets-query.dto.js';
import type { NewPet } from './new-pet.dto.js';
import { Pet } from './pet.entity.js';
import {
  INSERT_PETS,
  newPetArguments,
  PET_PAGES,
  PET_PAGES_OF_STATUS,
  petsById,
} from './pets.sql.js';

export interface StoredPet {
  id: string;
  /** The Pet as JSON text. */
  json: string;
  /** Whether an earlier request with the same Idempotency-Key created it. */
  isReplayed?: boolean;
}

/** The store's pets. Each operation serves all requests that wait for it with one statement. */
@Injectable()
export class PetsService {
  private readonly pages: Pages;
  private readonly pagesOfStatus: Pages;
  private readonly ids: Batcher<bigint, StoredPet | undefined>;
  private readonly additions: Batcher<NewPet, [id: string, json: string] | undefined>;

  constructor(
    @InjectRepository(Pet) pets: Repository<Pet>,
    sessions: SessionShare,
    standbys: Standbys,
  ) {
    this.pages = new Pages(PET_PAGES, sessions, standbys);
    this.pagesOfStatus = new Pages(PET_PAGES_OF_STATUS, sessions, standbys);
    const byId = petsById(pets);
    this.ids = new Batcher((ids) =>
      standbys.read(sessions, async (server) => {
        type Row = [id: string, json: string];
        const rows = await run<Row>(server, byId, [[...new Set(ids)]], ids.length);
        const found = new Map(rows.map(([id, json]) => [id, { id, json }]));
        return ids.map((id) => found.get(String(id)));
      }),
    );
    this.additions = new Batcher((added) =>
      runForEach(sessions, INSERT_PETS, newPetArguments(added)),
    );
  }

  /** listPets: the pets that follow `cursor`, by id. */
  list({ limit, cursor, status }: ListPetsQuery): Promise<Page> {
    const pages = status === undefined ? this.pages : this.pagesOfStatus;
    return pages.ask({ limit, cursor, filter: status });
  }

  /** createPet without an Idempotency-Key. When this resolves, the pet is committed. */
  async create(pet: NewPet): Promise<StoredPet> {
    const stored = await this.additions.ask(pet);
    if (stored === undefined) {
      throw new Error('PostgreSQL did not store the pet. A trigger may have left it out.');
    }
    const [id, json] = stored;
    return { id, json };
  }

  /** getPet; the `id` is `undefined` if it is not an int64. @throws ApiError `pet_not_found`. */
  async get(id: bigint | undefined): Promise<StoredPet> {
    const pet = id === undefined ? undefined : await this.ids.ask(id);
    if (pet === undefined) {
      throw new ApiError('pet_not_found', 'No such pet.');
    }
    return pet;
  }
}
