import { Injectable } from '@nestjs/common';
import type { Pool } from 'pg';
import { DataSource } from 'typeorm';
import { Batcher } from '../database/batcher.js';
import { poolOf, type Statement } from '../database/pool.js';
import { ApiError } from '../errors/api-error.js';
import { INT64_MIN } from '../http/int64.js';
import type { NewPet } from './new-pet.js';
import type { PetStatus } from './pet.entity.js';
import { INSERT_PETS, PAGES, PAGES_OF_STATUS, PETS_BY_ID } from './pets.sql.js';

export interface PageRequest {
  /** 1 to 100. */
  limit: number;
  status: PetStatus | undefined;
  /** The id that the page follows; without it the first page. */
  after: bigint | undefined;
}

export interface Page {
  /** A JSON array of Pet, by id. */
  json: string;
  /** The id that the next page follows; `undefined` on the last page. */
  last: bigint | undefined;
}

export interface StoredPet {
  id: string;
  /** The Pet as JSON text. */
  json: string;
}

/** The store of animals. Each operation answers, with one statement, all requests that wait for it. */
@Injectable()
export class PetsService {
  private readonly pool: Pool;
  private readonly pages = new Batcher((requests: PageRequest[]) =>
    this.findPages(PAGES, requests),
  );
  private readonly pagesOfStatus = new Batcher((requests: PageRequest[]) =>
    this.findPages(PAGES_OF_STATUS, requests),
  );
  private readonly ids = new Batcher((ids: bigint[]) => this.findByIds(ids));
  private readonly additions = new Batcher((pets: NewPet[]) => this.insert(pets));

  constructor(dataSource: DataSource) {
    this.pool = poolOf(dataSource);
  }

  /** listPets: the animals that follow `after`, by id. */
  list(request: PageRequest): Promise<Page> {
    return (request.status === undefined ? this.pages : this.pagesOfStatus).ask(request);
  }

  /** createPet without an Idempotency-Key: committed when this resolves. */
  create(pet: NewPet): Promise<StoredPet> {
    return this.additions.ask(pet);
  }

  /**
   * getPet.
   *
   * @param id `undefined` for a text that is no id, which identifies no animal.
   * @throws ApiError `pet_not_found`.
   */
  async get(id: bigint | undefined): Promise<StoredPet> {
    const pet = id === undefined ? undefined : await this.ids.ask(id);
    if (pet === undefined) {
      throw new ApiError('pet_not_found', 'No such animal.');
    }
    return pet;
  }

  /** Requests for the same page share it. */
  private async findPages(statement: Statement, requests: PageRequest[]): Promise<Page[]> {
    const wanted = new Map(requests.map((request) => [pageKey(request), request]));
    const distinct = [...wanted.values()];
    const { rows } = await this.pool.query<{ key: string; pets: string | null }>({
      ...statement,
      values: [
        [...wanted.keys()],
        distinct.map(({ status }) => status),
        distinct.map(({ after }) => (after === undefined ? INT64_MIN : after + 1n)),
        distinct.map(({ limit }) => limit),
      ],
    });
    const pages = new Map(
      rows.map(({ key, pets }) => [key, pageFrom(pets, wanted.get(key)!.limit)]),
    );
    return requests.map((request) => pages.get(pageKey(request))!);
  }

  private async findByIds(ids: bigint[]): Promise<(StoredPet | undefined)[]> {
    const { rows } = await this.pool.query<StoredPet>({
      ...PETS_BY_ID,
      values: [[...new Set(ids)]],
    });
    const pets = new Map(rows.map((pet) => [pet.id, pet]));
    return ids.map((id) => pets.get(String(id)));
  }

  /**
   * Rows come back in no promised order. Each new animal is given a row with its own content; animals alike in
   * everything may have each other's, as only the id tells them apart.
   */
  private async insert(pets: NewPet[]): Promise<StoredPet[]> {
    const { rows } = await this.pool.query<
      StoredPet & Record<'name' | 'category_id' | 'status', string>
    >({
      ...INSERT_PETS,
      values: [
        pets.map(({ name }) => name),
        pets.map(({ categoryId }) => categoryId),
        pets.map(({ status }) => status),
      ],
    });
    const stored = new Map<string, StoredPet[]>();
    for (const { id, name, category_id, status, json } of rows) {
      const content = contentKey(name, category_id, status);
      const alike = stored.get(content);
      if (alike === undefined) {
        stored.set(content, [{ id, json }]);
      } else {
        alike.push({ id, json });
      }
    }
    return pets.map(({ name, categoryId, status }) =>
      stored.get(contentKey(name, categoryId, status))!.pop()!,
    );
  }
}

/** @param pets the page's pets and one more where more follow, a line each; `null` for none. */
function pageFrom(pets: string | null, limit: number): Page {
  const lines = pets?.split('\n') ?? [];
  const hasMore = lines.length > limit;
  if (hasMore) {
    lines.pop();
  }
  const last = hasMore ? BigInt(/^\{"id":(-?[0-9]+)/.exec(lines.at(-1)!)![1]!) : undefined;
  return { json: `[${lines.join(',')}]`, last };
}

function pageKey({ limit, status, after }: PageRequest): string {
  return `${limit}:${status}:${after}`;
}

function contentKey(name: string, categoryId: bigint | string, status: string): string {
  return `${status}:${categoryId}:${name}`;
}
