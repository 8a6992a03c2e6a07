import createClient, { type Client } from 'openapi-fetch';
import { type Deprecation, deprecationOf, linkOf, warn } from './deprecation.js';
import { parse, stringify } from './int64.js';
import type { components, operations, paths } from './schema.js';
import { errorOf } from './store-error.js';
import { type Call, createTransport, type Retry } from './transport.js';
import { walk } from './walk.js';

/** That of package.json. */
const VERSION = '2.0.0';

export type Pet = components['schemas']['Pet'];
export type NewPet = components['schemas']['NewPet'];
export type PetStatus = components['schemas']['PetStatus'];

/** Every parameter of a list that the OpenAPI document has. */
type Query = Required<NonNullable<operations['listPets']['parameters']['query']>>;

/** Which pets to list, how many a page has at most (100 by default), and the {@link Page.cursor} to continue from. */
export type ListPetsQuery = { [Name in keyof Query]?: Query[Name] | undefined };

export interface Page {
  pets: Pet[];
  /** What continues after this page, now or later; `undefined` if it is the last one. */
  cursor: string | undefined;
}

export interface CallOptions {
  /** Cancels the call: it throws the signal's reason at once. */
  signal?: AbortSignal | undefined;
  /** The id of the call in the service's log: up to 128 letters, digits and `._~:/+=@-`. */
  requestId?: string | undefined;
}

export interface CreatePetOptions extends CallOptions {
  /**
   * 1 to 255 visible ASCII characters; by default a random one. The same key and pet with the same API key within 24 hours
   * create nothing: keep one with your own record to repeat the call after a crash, or after it was cancelled.
   */
  idempotencyKey?: string | undefined;
}

export interface AnimalStoreOptions {
  /**
   * Milliseconds for which a request is sent again; 30,000 by default, 0 for one attempt. An outage that is shorter is
   * survived. A call takes at most a tenth longer, an attempt at most 20 seconds. Rate limits are waited for in addition,
   * at most 3 minutes for the server's first response other than 429, unless it is 0.
   */
  retryFor?: number;
  /** Called before each wait for another attempt, such as for a log. */
  onRetry?: (retry: Retry) => void;
  /** Called once for each deprecated operation that is used; by default a warning on the console. */
  onDeprecation?: (deprecation: Deprecation) => void;
  fetch?: typeof globalThis.fetch;
}

/** The pets of which createPet was told that an earlier request had created them. */
const replayed = new WeakSet<Pet>();

/**
 * Whether createPet returned a pet that an earlier request with its Idempotency-Key had created: one of an earlier call, or
 * an earlier attempt of the same call. Copies of the pet do not tell.
 */
export const isReplayed = (pet: Pet): boolean => replayed.has(pet);

/**
 * A client of the Animal Store Service. Each int64 is a bigint, exact in both directions.
 *
 * Every method throws a StoreError if the response is not what the OpenAPI document promises of a success, or if
 * none came. After 408, 409, 429, 502, 503 and 504, and without a response, it sends the request again first.
 */
export class AnimalStore {
  private readonly client: Client<paths>;
  private readonly send: ReturnType<typeof createTransport>;

  /**
   * @param baseUrl http or https, up to and with `/v1`.
   * @param apiKey the key, or a function that returns it: before each attempt, but once for a createPet, because the service
   *   knows an Idempotency-Key of its API key.
   * @throws TypeError if the address or the key is none.
   */
  constructor(
    baseUrl: string,
    apiKey: string | (() => string | Promise<string>),
    options: AnimalStoreOptions = {},
  ) {
    const { retryFor = 30_000, onRetry, onDeprecation = warn, fetch = globalThis.fetch } = options;
    // The message has no address: it may have a password, or be the API key.
    if (!/^https?:/.test(baseUrl) || !URL.canParse(baseUrl)) {
      throw new TypeError('The first argument is not an http(s) address.');
    }
    if (new URL(baseUrl).username || new URL(baseUrl).password) {
      throw new TypeError('The address has a user or a password, which fetch does not send.');
    }
    if (!apiKey) {
      throw new TypeError('An API key is missing.');
    }
    const known = new Set<string>();
    this.send = createTransport({
      apiKey: typeof apiKey === 'function' ? apiKey : () => apiKey,
      retryFor,
      fetch,
      onRetry,
      onResponse(response, { operation }) {
        const deprecation = deprecationOf(operation, response, baseUrl);
        if (deprecation !== undefined && !known.has(operation)) {
          known.add(operation);
          onDeprecation(deprecation);
        }
      },
    });
    this.client = createClient<paths>({
      baseUrl,
      bodySerializer: stringify,
      // Followed, a 301 of a proxy would turn POST into GET.
      redirect: 'manual',
      // Browsers have their own, and ask the service before they send another one.
      headers:
        typeof location === 'undefined' ? { 'User-Agent': `animal-store-client/${VERSION}` } : {},
    });
  }

  /** Creates a pet once, however often the request is sent. {@link isReplayed} tells whether it existed. */
  async createPet(pet: NewPet, options: CreatePetOptions = {}): Promise<Pet> {
    if (typeof options !== 'object') {
      throw new TypeError('Use { idempotencyKey }.');
    }
    const idempotencyKey = options.idempotencyKey ?? randomKey();
    const call = { operation: 'POST /pets', promised: 201, ...options, idempotencyKey };
    const { body, response } = await this.ask(call, isPet, (init) =>
      this.client.POST('/pets', { ...init, body: pet }),
    );
    if (response.headers.has('Idempotent-Replayed')) {
      replayed.add(body);
    }
    return body;
  }

  /**
   * The pages of a list, by ascending id. A page is fetched when it is asked for. After an error, `next()`, or another loop
   * over the same iterator, asks for the same page again.
   */
  pages(query: ListPetsQuery = {}, options: CallOptions = {}): AsyncIterableIterator<Page> {
    let { cursor } = query;
    let isOver = false;
    return walk(async () => {
      options.signal?.throwIfAborted();
      if (isOver) {
        return { done: true, value: undefined };
      }
      const value = await this.page({ ...query, cursor }, options);
      cursor = value.cursor;
      isOver = cursor === undefined;
      return { done: false, value };
    });
  }

  /** All pets, or all of one status, by ascending id, page by page. It goes on after an error, as {@link pages} does. */
  listPets(query?: ListPetsQuery, options?: CallOptions): AsyncIterableIterator<Pet> {
    const pages = this.pages(query, options);
    let pets: Pet[] = [];
    return walk(async () => {
      options?.signal?.throwIfAborted();
      while (pets.length === 0) {
        const page = await pages.next();
        if (page.done) {
          return page;
        }
        ({ pets } = page.value);
      }
      return { done: false, value: pets.shift()! };
    });
  }

  /** @deprecated Keep what {@link createPet} returns, or use {@link listPets}. */
  async getPet(petId: bigint, options: CallOptions = {}): Promise<Pet> {
    const call = { operation: 'GET /pets/{petId}', promised: 200, ...options };
    const params = { path: { petId } };
    const { body } = await this.ask(call, isPet, (init) =>
      this.client.GET('/pets/{petId}', { ...init, params }),
    );
    return body;
  }

  private async page(
    { limit = 100, status, cursor }: ListPetsQuery,
    options: CallOptions,
  ): Promise<Page> {
    // A parameter that the document gains does not compile until it is here.
    const query = { limit, status, cursor } satisfies Record<keyof Query, unknown>;
    const call = { operation: 'GET /pets', promised: 200, ...options };
    const { body, response } = await this.ask(call, isPets, (init) =>
      this.client.GET('/pets', { ...init, params: { query } }),
    );
    const link = linkOf(response.headers, 'next');
    if (link === undefined) {
      return { pets: body, cursor: undefined };
    }
    const base = 'http://localhost';
    const next = URL.canParse(link, base) ? new URL(link, base).searchParams.get('cursor') : null;
    if (next === null || next === cursor) {
      throw errorOf(response, '', call);
    }
    return { pets: body, cursor: next };
  }

  /** Sends a request, and checks the response. */
  private async ask<Body>(
    call: Call,
    isPromised: (body: unknown) => body is Body,
    send: (init: {
      parseAs: 'text';
      headers: Record<string, string | null | undefined>;
      fetch: (request: Request) => Promise<Response>;
    }) => Promise<{ data?: string; response: Response }>,
  ): Promise<{ body: Body; response: Response }> {
    const { idempotencyKey, requestId } = call;
    const { data = '', response } = await send({
      parseAs: 'text',
      headers: { 'Idempotency-Key': idempotencyKey, 'X-Request-Id': requestId },
      fetch: (request) => this.send(request, call),
    });
    let body: unknown;
    try {
      body = parse(data);
    } catch {
      // Then it is not what was promised.
    }
    if (!isPromised(body)) {
      throw errorOf(response, '', call);
    }
    return { body, response };
  }
}

const STATUSES: Record<PetStatus, true> = { available: true, pending: true, sold: true };

const isInt64 = (value: unknown): value is bigint =>
  typeof value === 'bigint' && BigInt.asIntN(64, value) === value;

function isPet(body: unknown): body is Pet {
  const { id, name, categoryId, status } = Object(body) as Record<keyof Pet, unknown>;
  return (
    isInt64(id) &&
    typeof name === 'string' &&
    isInt64(categoryId) &&
    typeof status === 'string' &&
    Object.hasOwn(STATUSES, status)
  );
}

const isPets = (body: unknown): body is Pet[] =>
  Array.isArray(body) &&
  body.every((pet, i) => isPet(pet) && (i === 0 || pet.id > (body[i - 1] as Pet).id));

/** 128 random bits. `crypto.randomUUID` is missing on pages without TLS. */
const randomKey = () => crypto.getRandomValues(new BigUint64Array(2)).join('-');
