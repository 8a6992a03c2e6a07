import { Injectable } from '@nestjs/common';
import { DataSource } from 'typeorm';
import { Batcher } from '../database/batcher.js';
import { ApiError } from '../errors/api-error.js';
import { INT64_MIN } from '../http/int64.js';
import type { NewPet } from './new-pet.js';
import type { PetStatus } from './pet.entity.js';

/** A pet as JSON text (interface, part 2), written by PostgreSQL, which has every int64 exactly. */
const PET_JSON = `'{"id":' || id || ',"name":' || to_json(name) || ',"categoryId":' || category_id
  || ',"status":"' || status || '"}'`;

export interface PageRequest {
  /** 1 to 100. */
  limit: number;
  status?: PetStatus | undefined;
  /** The id that the page follows; without it the first page. */
  after?: bigint | undefined;
}

export interface Page {
  /** A JSON array of Pet, by id. */
  json: string;
  /** The id that the next page follows; `undefined` on the last page. */
  last?: bigint;
}

export interface StoredPet {
  id: string;
  /** The Pet as JSON text. */
  json: string;
}

/** The store of animals. Each operation answers, with one statement, all requests that wait for it. */
@Injectable()
export class PetsService {
  private readonly pages = new Batcher((requests: PageRequest[]) => this.findPages(requests));
  private readonly pagesOfStatus = new Batcher((requests: PageRequest[]) =>
    this.findPages(requests, 'status = wanted.status and'),
  );
  private readonly ids = new Batcher((ids: bigint[]) => this.findByIds(ids));
  private readonly additions = new Batcher((pets: NewPet[]) => this.insert(pets));

  constructor(private readonly dataSource: DataSource) {}

  /** listPets: the animals that follow `after`, by id. */
  list(request: PageRequest): Promise<Page> {
    return (request.status === undefined ? this.pages : this.pagesOfStatus).ask(request);
  }

  /** createPet: committed when this resolves. */
  create(pet: NewPet): Promise<StoredPet> {
    return this.additions.ask(pet);
  }

  /** getPet. @throws ApiError `pet_not_found`. */
  async get(id: bigint): Promise<StoredPet> {
    const pet = await this.ids.ask(id);
    if (pet === undefined) {
      throw new ApiError('pet_not_found', 'No such animal.');
    }
    return pet;
  }

  /**
   * Filtered and unfiltered pages are separate statements: one for both would walk the primary key and filter,
   * which is slow for a rare status.
   */
  private async findPages(requests: PageRequest[], filter = ''): Promise<Page[]> {
    const wanted = new Map(requests.map((request) => [pageKey(request), request]));
    const distinct = [...wanted.values()];
    const rows: { key: string; json: string; last: string | null }[] = await this.dataSource.query(
      `select wanted.key, page.json, page.last
         from unnest($1::text[], $2::text[], $3::bigint[], $4::int[])
              as wanted (key, status, start, size),
              lateral (
                select '[' || coalesce(string_agg(json, ',' order by id) filter (where n <= size), '') || ']' as json,
                       max(id) filter (where n = size and total > size) as last
                  from (select id, ${PET_JSON} as json, row_number() over (order by id) as n, count(*) over () as total
                          from (select * from pets where ${filter} id >= wanted.start order by id limit wanted.size + 1) as pets
                       ) as pets
              ) as page`,
      [
        [...wanted.keys()],
        distinct.map(({ status }) => status ?? null),
        distinct.map(({ after }) => (after === undefined ? INT64_MIN : after + 1n)),
        distinct.map(({ limit }) => limit),
      ],
    );
    const pages = new Map(
      rows.map(({ key, json, last }) => [
        key,
        last === null ? { json } : { json, last: BigInt(last) },
      ]),
    );
    return requests.map((request) => pages.get(pageKey(request))!);
  }

  private async findByIds(ids: bigint[]): Promise<(StoredPet | undefined)[]> {
    const rows: StoredPet[] = await this.dataSource.query(
      `select id, ${PET_JSON} as json from pets where id = any($1::bigint[])`,
      [[...new Set(ids)]],
    );
    const pets = new Map(rows.map((pet) => [pet.id, pet]));
    return ids.map((id) => pets.get(String(id)));
  }

  /**
   * Rows come back in no promised order. Each new animal is given a row with its own content; animals alike in
   * everything may have each other's, as only the id tells them apart.
   */
  private async insert(pets: NewPet[]): Promise<StoredPet[]> {
    const rows: (StoredPet & { name: string; category_id: string; status: string })[] =
      await this.dataSource.query(
        `insert into pets (name, category_id, status)
         select * from unnest($1::text[], $2::bigint[], $3::text[])
         returning id, name, category_id, status, ${PET_JSON} as json`,
        [
          pets.map(({ name }) => name),
          pets.map(({ categoryId }) => categoryId),
          pets.map(({ status }) => status),
        ],
      );
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

function pageKey({ limit, status, after }: PageRequest): string {
  return `${limit}:${status}:${after}`;
}

function contentKey(name: string, categoryId: bigint | string, status: string): string {
  return `${status}:${categoryId}:${name}`;
}
