import { randomUUID } from 'node:crypto';
import { parse, stringify } from 'lossless-json';
import createClient, { type Client } from 'openapi-fetch';
import type { components, paths } from './animal-store.js';

export type Pet = components['schemas']['Pet'];
export type NewPet = components['schemas']['NewPet'];
export type PetStatus = components['schemas']['PetStatus'];

/** An answer that is no success. Its `code` says which. */
export class StoreError extends Error {
  readonly code: string;
  readonly status: number;
  /** What to name when the fault is reported. */
  readonly requestId: string | null;

  constructor({ code, message, status }: components['schemas']['Error'], response: Response) {
    super(message);
    this.code = code;
    this.status = status;
    this.requestId = response.headers.get('X-Request-Id');
  }
}

/** A client of the service, whose types come from its OpenAPI document. Every int64 is a bigint, exact in both directions. */
export class AnimalStore {
  private readonly client: Client<paths>;

  /** @param baseUrl up to and with `/v1`. */
  constructor(baseUrl: string, apiKey: string) {
    this.client = createClient<paths>({
      baseUrl,
      headers: { Authorization: `Bearer ${apiKey}` },
      bodySerializer: (body) => stringify(body)!,
    });
    this.client.use({
      onResponse({ response }) {
        response.json = async () => parse(await response.text(), null, { parseNumber: BigInt });
      },
    });
  }

  /** Adds an animal, and adds it once although the connection may break: then the request is sent again. */
  async add(pet: NewPet): Promise<Pet> {
    const header = { 'Idempotency-Key': randomUUID() };
    const send = () => this.client.POST('/pets', { params: { header }, body: pet });
    const { data, error, response } = await send().catch(send);
    if (error) {
      throw new StoreError(error, response);
    }
    return data;
  }

  /** All animals, or all of one status, by id; a page is fetched when it is needed. */
  async *all(status?: PetStatus): AsyncGenerator<Pet> {
    let cursor: string | undefined;
    do {
      const query = { limit: 100, status, cursor };
      const { data, error, response } = await this.client.GET('/pets', { params: { query } });
      if (error) {
        throw new StoreError(error, response);
      }
      yield* data;
      cursor = nextCursor(response);
    } while (cursor !== undefined);
  }
}

/** The cursor of the page that `Link` names as the next one; `undefined` on the last page. */
function nextCursor({ headers }: Response): string | undefined {
  const [, target] = /<([^>]*)>; rel="next"/.exec(headers.get('Link') ?? '') ?? [];
  const { searchParams } = new URL(target ?? '', 'http://localhost');
  return searchParams.get('cursor') ?? undefined;
}
