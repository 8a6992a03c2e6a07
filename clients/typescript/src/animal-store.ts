import createClient, { type Client } from 'openapi-fetch';
import { type Deprecation, deprecationOf, linkOf, warn } from './deprecation.js';
import { parse, stringify } from './int64.js';
import { retrying } from './retries.js';
import type { components, operations, paths } from './schema.js';
import { StoreError } from './store-error.js';

export type Pet = components['schemas']['Pet'];
export type NewPet = components['schemas']['NewPet'];
export type PetStatus = components['schemas']['PetStatus'];

/** Every parameter of a list that the OpenAPI document has. */
type Query = Required<NonNullable<operations['listPets']['parameters']['query']>>;

/** Which pets to list, and how many a page has at most: 100 by default. */
export type ListPetsQuery = Partial<Omit<Query, 'cursor'>>;

export interface AnimalStoreOptions {
  /**
   * Milliseconds for which a request is sent again; 30,000 by default, 0 for one attempt. An outage that is shorter is
   * survived. A call takes at most a tenth longer, an attempt at most 20 seconds.
   */
  retryFor?: number;
  /** Called once for each deprecated operation that is used; by default a warning on the console. */
  onDeprecation?: (deprecation: Deprecation) => void;
  fetch?: typeof globalThis.fetch;
}

/**
 * A client of the Animal Store Service. Each int64 is a bigint, exact in both directions.
 *
 * Every method throws a {@link StoreError} if the response is no success, or if none came. After 408, 409, 429, 502, 503
 * and 504, and without a response, it sends the request again first.
 */
export class AnimalStore {
  private readonly client: Client<paths>;

  /** @param baseUrl up to and with `/v1`. */
  constructor(baseUrl: string, apiKey: string, options: AnimalStoreOptions = {}) {
    const { retryFor = 30_000, onDeprecation = warn, fetch = globalThis.fetch } = options;
    this.client = createClient<paths>({
      baseUrl,
      headers: { Authorization: `Bearer ${apiKey}` },
      bodySerializer: stringify,
      fetch: retrying(fetch, retryFor),
    });
    const known = new Set<string>();
    this.client.use({
      onResponse({ request, response, schemaPath }) {
        const operation = `${request.method} ${schemaPath}`;
        const deprecation = deprecationOf(operation, request, response);
        if (deprecation !== undefined && !known.has(operation)) {
          known.add(operation);
          onDeprecation(deprecation);
        }
      },
    });
  }

  /**
   * Creates a pet once, however often the request is sent.
   *
   * @param idempotencyKey 1 to 255 visible ASCII characters. The same key and pet within 24 hours create nothing: keep one
   * with your own record to repeat the call after a crash.
   */
  async createPet(pet: NewPet, idempotencyKey: string = crypto.randomUUID()): Promise<Pet> {
    const header = { 'Idempotency-Key': idempotencyKey };
    const response = this.client.POST('/pets', { params: { header }, body: pet, parseAs: 'text' });
    return parse((await successOf(response)).data) as Pet;
  }

  /** The pages of a list, by ascending id. A page is fetched when it is asked for. */
  async *pages({ limit = 100, status }: ListPetsQuery = {}): AsyncGenerator<Pet[]> {
    let cursor: string | undefined;
    do {
      // A parameter that the document gains does not compile until it is here.
      const query = { limit, status, cursor } satisfies Record<keyof Query, unknown>;
      const page = this.client.GET('/pets', { params: { query }, parseAs: 'text' });
      const { data, response } = await successOf(page);
      yield parse(data) as Pet[];
      const next = new URL(linkOf(response.headers, 'next') ?? '', 'http://localhost');
      cursor = next.searchParams.get('cursor') ?? undefined;
    } while (cursor !== undefined);
  }

  /** All pets, or all of one status, by ascending id, page by page. */
  async *listPets(query?: ListPetsQuery): AsyncGenerator<Pet> {
    for await (const page of this.pages(query)) {
      yield* page;
    }
  }

  /** @deprecated Keep what {@link createPet} returns, or use {@link listPets}. */
  async getPet(petId: bigint): Promise<Pet> {
    const response = this.client.GET('/pets/{petId}', {
      params: { path: { petId } },
      parseAs: 'text',
    });
    return parse((await successOf(response)).data) as Pet;
  }
}

async function successOf(result: Promise<{ data?: string; error?: object; response: Response }>) {
  const { data, error, response } = await result;
  if (data === undefined) {
    throw new StoreError(error, { response });
  }
  return { data, response };
}
