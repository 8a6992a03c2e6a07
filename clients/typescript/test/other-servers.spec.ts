import { error, json, OtherServer, OtherStore, type Respond } from './server.js';
import { source } from './source.js';

const { AnimalStore, isReplayed, parse, StoreError, stringify } = await source('index');

const REX = { id: 1, name: 'Rex', categoryId: 7, status: 'available' };
const PET = { id: 1n, name: 'Rex', categoryId: 7n, status: 'available' };
const NEW_PET = { name: 'Rex', categoryId: 7n };

let server: OtherServer;
beforeAll(async () => {
  server = await OtherServer.start();
});
afterAll(() => server.stop());
beforeEach(() => {
  server.received.length = 0;
});

const open = (options = {}, key: unknown = 'key') => new AnimalStore(server.base, key, options);
const errorOf = (promise: Promise<unknown>): Promise<any> =>
  promise.then(
    (result) => {
      throw new Error(`no error, but ${JSON.stringify(result)}`);
    },
    (thrown: unknown) => thrown,
  );
async function all(items: AsyncIterable<any>): Promise<any[]> {
  const read = [];
  for await (const item of items) {
    read.push(item);
  }
  return read;
}

const CALLS: Record<string, [status: number, call: (options?: object) => Promise<unknown>]> = {
  createPet: [201, (options) => open(options).createPet(NEW_PET)],
  getPet: [200, (options) => open(options).getPet(1n)],
  listPets: [200, (options) => open(options).listPets().next()],
  pages: [200, (options) => open(options).pages().next()],
};
const OF_LISTS = ['listPets', 'pages'];

const redirect =
  (status: number): Respond =>
  (response, { path }) =>
    path.includes('moved')
      ? json(response, 200, [REX])
      : response.writeHead(status, { Location: '/v1/moved' }).end();
const html: Respond = (response) =>
  response.writeHead(200, { 'Content-Type': 'text/html' }).end('<html>Log in</html>');
const text = (status: number, body: string): Respond => (response) => response.writeHead(status).end(body); // prettier-ignore

describe('a response that the document does not promise', () => {
  const respondWith: [what: string, status: number, respond: Respond][] = [
    ...[301, 302, 303, 307, 308].map((n) => [`a redirect, ${n}`, n, redirect(n)] as any),
    ['304', 304, text(304, '')],
    ['HTML', 200, html],
    ['202', 202, text(202, JSON.stringify(REX))],
    ['204', 204, text(204, '')],
    ['205', 205, text(205, '')],
    ['206', 206, text(206, JSON.stringify([REX]))],
    ['an error that is not in JSON', 400, text(400, 'Bad Request')],
    ['an error of another form', 403, text(403, '{"error":"Forbidden"}')],
    ['an error that is null', 404, text(404, 'null')],
    ['an error with the status of another', 404, text(404, '{"code":"gone","status":410}')],
  ];
  const both = Object.keys(CALLS).flatMap((call) =>
    respondWith.map(([what, status, respond]) => [call, what, status, respond] as const),
  );

  it.each(both)(
    'to %s has the code unknown and its status: %s',
    async (call, _what, status, respond) => {
      server.respond = respond;
      const thrown = await errorOf(CALLS[call]![1]());
      expect(thrown).toBeInstanceOf(StoreError);
      expect(thrown).toMatchObject({ code: 'unknown', status });
      expect(thrown.message).toMatch(`${status}`);
      expect(server.received.map(({ path }) => path)).not.toContain('/v1/moved');
      expect(server.received).toHaveLength(1);
    },
  );

  it('has the code unknown if it is of another address, to which the fetch of the program went on', async () => {
    server.respond = redirect(307);
    const goesOn = (request: Request, init: RequestInit) =>
      fetch(new Request(request, { redirect: 'follow' }), init);
    const reading = all(open({ fetch: goesOn }).listPets());
    await expect(reading).rejects.toMatchObject({ code: 'unknown', status: 200 });
    expect(server.received.map(({ path }) => path)).toContain('/v1/moved');
  });

  const noPets: unknown[] = [
    { ok: true },
    {},
    null,
    'Rex',
    7,
    { ...REX, id: '1' },
    { ...REX, id: 1.5 },
    { ...REX, id: null },
    { ...REX, categoryId: '7' },
    { ...REX, name: 1 },
    { ...REX, status: 'gone' },
    { ...REX, status: 'toString' },
    { ...REX, status: undefined },
    { name: 'Rex', categoryId: 7 },
    { code: 'unavailable', message: 'no', status: 503 },
  ];
  const noPages = [
    REX,
    ...noPets.map((pet) => [REX, pet]),
    [REX, REX],
    [{ ...REX, id: 2 }, REX],
    { pets: [REX] },
  ];
  const shapes = [
    ...['createPet', 'getPet'].flatMap((call) => [...noPets, [REX]].map((body) => [call, body])),
    ...OF_LISTS.flatMap((call) => [...noPets, ...noPages].map((body) => [call, body])),
  ].map(([call, body]) => [call as string, JSON.stringify(body)] as const);

  it.each([
    ...shapes,
    ['createPet', '{"id":9223372036854775808,"name":"Rex","categoryId":7,"status":"sold"}'],
    ['getPet', ''],
    ['listPets', '[{"id":1,"name":"Rex"'],
  ] as const)(
    'to %s has the code unknown, although its status is right: %s',
    async (call, body) => {
      const [status, start] = CALLS[call]!;
      server.respond = text(status, body);
      expect(await errorOf(start())).toMatchObject({ name: 'StoreError', code: 'unknown', status });
      expect(server.received).toHaveLength(1);
    },
  );

  it.each(['createPet', 'getPet'])(
    'to %s has the code unknown if it has the status of the other',
    async (call) => {
      const status = CALLS[call]![0] === 200 ? 201 : 200;
      server.respond = text(status, JSON.stringify(REX));
      expect(await errorOf(CALLS[call]![1]())).toMatchObject({ code: 'unknown', status });
    },
  );

  it.each([
    ['has no cursor', '</v1/pets?limit=2>; rel="next"'],
    ['is the page itself', '</v1/pets?cursor=c>; rel="next"'],
  ])('does not end a walk: a link to the next page that %s', async (_what, link) => {
    server.respond = (response) => json(response, 200, [REX], { Link: link });
    const thrown = await errorOf(all(open().listPets({ cursor: 'c' })));
    expect(thrown).toMatchObject({ code: 'unknown', status: 200 });
  });
});

describe('a walk', () => {
  const PAGES: Record<string, [ids: number[], next?: string]> = {
    '': [[1, 2], 'a'],
    a: [[3, 4], 'b'],
    b: [[5]],
  };
  let broken: Set<string>;
  beforeEach(() => {
    broken = new Set();
    server.respond = (response, { path }) => {
      const cursor = new URL(path, server.base).searchParams.get('cursor') ?? '';
      const [ids, next] = PAGES[cursor]!;
      if (broken.delete(cursor)) {
        return error(response, 500, 'internal_error');
      }
      // Another proxy may write it so.
      const link = next && {
        Link: `</v1/pets?cursor=b>; rel="next-year", </v1/first>; rel=first, </v1/pets?cursor=${next}>; title="n"; rel=next`,
      };
      return json(response, 200, ids.map((id) => ({ ...REX, id })), link || {}); // prettier-ignore
    };
  });

  it('goes on with the same page after an error, by next() and by another loop', async () => {
    broken = new Set(['', 'a', 'b']);
    const pages = open().pages();
    await expect(pages.next()).rejects.toMatchObject({ status: 500 });
    expect(await pages.next()).toMatchObject({ done: false, value: { cursor: 'a' } });
    const read: bigint[] = [];
    const walk = open().listPets({ cursor: 'a' });
    const readOn = async () => {
      for await (const { id } of walk) {
        read.push(id);
      }
    };
    await expect(readOn()).rejects.toMatchObject({ status: 500 });
    expect(read).toEqual([]);
    await expect(readOn()).rejects.toMatchObject({ status: 500 });
    expect(read).toEqual([3n, 4n]);
    await readOn();
    expect(read).toEqual([3n, 4n, 5n]);
    expect(await walk.next()).toEqual({ done: true, value: undefined });
  });

  it('tells after each page what continues after it, and begins at such a cursor', async () => {
    const pages = await all(open().pages());
    const idsOf = (pets: any[]) => pets.map(({ id }) => Number(id));
    expect(pages.map(({ pets, cursor }) => [idsOf(pets), cursor])).toEqual(Object.values(PAGES).map(([ids, next]) => [ids, next])); // prettier-ignore
    const { cursor } = pages[0];
    expect(await all(open().pages({ cursor }))).toEqual(pages.slice(1));
    expect(idsOf(await all(open().listPets({ cursor })))).toEqual([3, 4, 5]);
  });

  it('asks for one page at a time, also if it is asked for several at once', async () => {
    const pages = open().pages();
    const read = await Promise.all([pages.next(), pages.next(), pages.next(), pages.next()]);
    expect(read.map(({ value }) => value?.cursor)).toEqual(['a', 'b', undefined, undefined]);
    expect(read[3]!.done).toBe(true);
  });
});

describe('a signal', () => {
  const reason = new Error('The shop closes.');

  it.each(Object.keys(CALLS))(
    'ends %s at once, with its reason, and nothing more is sent',
    async (call) => {
      server.respond = () => {};
      const calls: Record<string, (options: object) => Promise<unknown>> = {
        createPet: (options) => open().createPet(NEW_PET, options),
        getPet: (options) => open().getPet(1n, options),
        listPets: (options) => open().listPets({}, options).next(),
        pages: (options) => open().pages({}, options).next(),
      };
      const controller = new AbortController();
      const { signal } = controller;
      const isReceived = new Promise<void>((resolve) => {
        server.respond = () => resolve();
      });
      const calling = errorOf(calls[call]!({ signal }));
      await isReceived;
      controller.abort(reason);
      expect(await calling).toBe(reason);
      expect(await errorOf(calls[call]!({ signal }))).toBe(reason);
      expect(server.received).toHaveLength(1);
    },
  );

  it.each([
    ['a backoff', 503, '5'],
    ['a rate limit', 429, '60'],
  ])('ends a call in %s', async (_what, status, retryAfter) => {
    const headers = { 'Retry-After': retryAfter };
    server.respond = (response) => error(response, status, 'any', headers);
    const controller = new AbortController();
    const onRetry = () => controller.abort(reason);
    const { signal } = controller;
    const store = open({ onRetry });
    expect(await errorOf(store.createPet(NEW_PET, { signal }))).toBe(reason);
    expect(server.received).toHaveLength(1);
  });

  it('ends a list amid a page', async () => {
    server.respond = (response) => json(response, 200, [REX, { ...REX, id: 2 }]);
    const controller = new AbortController();
    const read: bigint[] = [];
    const reading = async () => {
      for await (const { id } of open().listPets({}, { signal: controller.signal })) {
        read.push(id);
        controller.abort(reason);
      }
    };
    expect(await errorOf(reading())).toBe(reason);
    expect(read).toEqual([1n]);
  });

  it('ends a call whose key is never there, or whose fetch does not know signals', async () => {
    for (const store of [
      open({}, () => new Promise(() => {})),
      open({ fetch: () => new Promise(() => {}) }),
    ]) {
      // prettier-ignore
      const controller = new AbortController();
      const calling = errorOf(store.getPet(1n, { signal: controller.signal }));
      controller.abort(reason);
      expect(await calling).toBe(reason);
    }
  });

  it('that many calls share keeps no listener of a call that is over', async () => {
    server.respond = (response) => json(response, 201, REX);
    const { signal } = new AbortController();
    const listeners = new Set<unknown>();
    const add = signal.addEventListener.bind(signal);
    const remove = signal.removeEventListener.bind(signal);
    signal.addEventListener = (...args: [any, any]) => (listeners.add(args[1]), add(...args));
    signal.removeEventListener = (...args: [any, any]) => (
      listeners.delete(args[1]),
      remove(...args)
    );
    await open().createPet(NEW_PET, { signal });
    expect(listeners).toEqual(new Set());
    expect(server.received).toHaveLength(1);
  });
});

describe('an error', () => {
  it('tells what a program needs to go on', async () => {
    const headers = { 'Retry-After': '7', 'X-Request-Id': 'id-of-the-service', 'X-Shop': 'yes' };
    server.respond = (response) => error(response, 503, 'unavailable', headers);
    const options = { idempotencyKey: 'row-1', requestId: 'mine' };
    const thrown = await errorOf(open({ retryFor: 0 }).createPet(NEW_PET, options));
    expect(thrown).toMatchObject({
      code: 'unavailable',
      message: 'The message of unavailable.',
      status: 503,
      retryAfter: 7,
      idempotencyKey: 'row-1',
      requestId: 'id-of-the-service',
    });
    expect(thrown.response.headers.get('X-Shop')).toBe('yes');
    expect(server.received[0]!.headers).toMatchObject({
      'x-request-id': 'mine',
      'idempotency-key': 'row-1',
    });
  });

  it('has the key that was made for createPet, with which the same call is safe', async () => {
    server.respond = (response) => response.destroy();
    const thrown = await errorOf(open({ retryFor: 0 }).createPet(NEW_PET, { requestId: 'mine' }));
    expect(thrown).toMatchObject({ code: 'no_response', status: 0, requestId: 'mine' });
    expect(thrown).toMatchObject({ retryAfter: null, response: null });
    const key = server.received[0]!.headers['idempotency-key'];
    expect(thrown.idempotencyKey).toBe(key);
    expect(key).toMatch(/^[!-~]{20,255}$/);
    expect(await errorOf(open({ retryFor: 0 }).getPet(1n))).toMatchObject({ idempotencyKey: null });
  });

  it('keeps codes that are not known yet', async () => {
    server.respond = (response) => error(response, 400, 'new_code');
    expect(await errorOf(open().getPet(1n))).toMatchObject({ code: 'new_code', status: 400 });
  });

  it('has the root cause in its message, and an untrusted server is asked once', async () => {
    const closed = await OtherServer.start();
    const { base } = closed;
    await closed.stop();
    const refused = await errorOf(new AnimalStore(base, 'key', { retryFor: 0 }).getPet(1n));
    expect(refused.message).toMatch(/^No response: ECONNREFUSED .*127\.0\.0\.1/);
    // Not TLS.
    const store = new AnimalStore(server.base.replace('http', 'https'), 'key');
    expect(await errorOf(store.getPet(1n))).toMatchObject({
      code: 'no_response',
      message: expect.stringMatching(/^No response: \w*(SSL|EPROTO)\w* /),
    });
  });

  it.each([
    ['ENOTFOUND', 'getaddrinfo ENOTFOUND nowhere', true],
    ['ECONNRESET', 'read ECONNRESET', true],
    ['CERT_HAS_EXPIRED', 'certificate has expired', false],
    ['ERR_TLS_CERT_ALTNAME_INVALID', 'Host: nowhere. is not in the certificate', false],
    ['DEPTH_ZERO_SELF_SIGNED_CERT', 'self-signed certificate', false],
    ['UNABLE_TO_GET_ISSUER', 'unable to get the issuer', false],
    ['LEAF_SIGNATURE', 'unable to verify the first one', false],
    ['HOSTNAME_MISMATCH', 'of another host', false],
    ['ERR_SSL_WRONG_VERSION_NUMBER', 'wrong version number', false],
    ['ERR_SSL_PACKET_LENGTH_TOO_LONG', 'packet length too long', false],
    ['EPROTO', 'protocol error', false],
  ])(
    'without a response names %s, and it is tried again only if that may pass',
    async (code, message, isRetried) => {
      const cause = Object.assign(new Error(message), { code });
      const errors = Object.assign(new Error(''), { code, errors: [cause] });
      const fetch = jest.fn(() => Promise.reject(new TypeError('fetch failed', { cause: errors })));
      const stop = new Error('enough');
      const onRetry = () => {
        throw stop;
      };
      const thrown = await errorOf(open({ fetch, onRetry }).getPet(1n));
      const last = isRetried ? await errorOf(open({ fetch, retryFor: 0 }).getPet(1n)) : thrown;
      expect(thrown === stop).toBe(isRetried);
      expect(last.message).toBe(`No response: ${code} ${message}`);
    },
  );

  it.each(['NetworkError', 'AbortError', 'TimeoutError', 'TypeError'])(
    'of the network is no response, also if a fetch of another kind calls it %s',
    async (name) => {
      const failure = Object.assign(new Error('gone'), { name });
      const fetch = () => Promise.reject(failure);
      const thrown = await errorOf(open({ fetch, retryFor: 0 }).getPet(1n));
      expect(thrown).toMatchObject({ code: 'no_response', message: `No response: ${name} gone` });
    },
  );

  it('of a program, such as of its fetch, is thrown as it is, after one attempt', async () => {
    const mistake = new ReferenceError('x is not defined');
    const fetch = jest.fn(() => Promise.reject(mistake));
    expect(await errorOf(open({ fetch }).createPet(NEW_PET))).toBe(mistake);
    const key = () => Promise.reject(mistake);
    expect(await errorOf(open({}, key).createPet(NEW_PET))).toBe(mistake);
    expect(fetch).toHaveBeenCalledTimes(1);
    expect(server.received).toEqual([]);
  });
});

describe('a client', () => {
  it.each([
    '',
    '/v1',
    'shop.example/v1',
    '127.0.0.1:3000/v1',
    'localhost:3000/v1',
    'ftp://shop.example/v1',
  ])(
    'is not made with the base %j', // prettier-ignore
    (base) => expect(() => new AnimalStore(base, 'key')).toThrow(TypeError),
  );

  it.each([undefined, null, ''])('is not made with the key %j', (key) =>
    expect(() => new AnimalStore(server.base, key)).toThrow(TypeError),
  );

  it.each(['two\nlines', 'with space', 'schlüssel'])(
    'sends no key %j, and does not print it',
    async (key) => {
      const thrown = await errorOf(open({}, key).getPet(1n));
      expect(thrown).toBeInstanceOf(TypeError);
      expect(thrown.message).not.toContain(key);
      expect(server.received).toEqual([]);
    },
  );

  it.each(['getPet', 'createPet'])(
    'asks for the API key before each attempt of getPet, and once for createPet, whose Idempotency-Key belongs to it: %s',
    async (call) => {
      const keys = ['first', 'second'];
      const [second, status] = call === 'getPet' ? ['second', 200] : ['first', 201];
      server.respond = (response) =>
        server.received.length === 1
          ? error(response, 503, 'unavailable')
          : json(response, status as number, REX);
      const store = open({ onDeprecation: () => {} }, async () => keys.shift());
      const called = call === 'getPet' ? store.getPet(1n) : store.createPet(NEW_PET);
      expect(await called).toEqual(PET);
      const sent = server.received.map(({ headers }) => headers.authorization);
      expect(sent).toEqual(['Bearer first', `Bearer ${second}`]);
    },
  );

  it('sends an Idempotency-Key also if a program passes null', async () => {
    server.respond = (response) => json(response, 201, REX);
    await open().createPet(NEW_PET, { idempotencyKey: null });
    expect(server.received[0]!.headers['idempotency-key']).toMatch(/^\d+-\d+$/);
  });

  it('prints no password of the address, nor a key that is passed in its place', () => {
    for (const address of ['http://user:secret@shop.example/v1', 'secret']) {
      const make = () => new AnimalStore(address, 'key');
      expect(make).toThrow(TypeError);
      expect(make).not.toThrow(/secret/);
    }
  });

  it('has the pet of a response whose status text has any characters', async () => {
    const fetch = async () =>
      Object.defineProperty(new Response(JSON.stringify(REX), { status: 201 }), 'statusText', {
        value: 'Créé ✓',
      });
    expect(await open({ fetch }).createPet(NEW_PET)).toEqual(PET);
  });

  it('takes a Link that is no address for a response that is not promised', async () => {
    const Link = '<http://[>; rel="next"';
    server.respond = (response) => json(response, 200, [REX], { Link });
    expect(await errorOf(open().listPets().next())).toBeInstanceOf(StoreError);
  });

  it('tells of each retry, and names itself', async () => {
    server.respond = (response) =>
      server.received.length < 3 ? error(response, 503, 'unavailable') : json(response, 200, REX);
    const onRetry = jest.fn();
    await open({ onRetry, onDeprecation: () => {} }).getPet(1n);
    const retry = { operation: 'GET /pets/{petId}', wait: expect.any(Number) };
    expect(onRetry.mock.calls.flat()).toEqual(
      [1, 2].map((attempt) => ({ ...retry, attempt, error: expect.any(StoreError) })),
    );
    expect(server.received[0]!.headers['user-agent']).toMatch(/^animal-store-client\/\d/);
  });

  it('creates pets where crypto.randomUUID does not exist', async () => {
    server.respond = (response) => json(response, 201, REX);
    const { randomUUID } = crypto;
    Object.defineProperty(crypto, 'randomUUID', { value: undefined, configurable: true });
    try {
      await open().createPet(NEW_PET);
      await open().createPet(NEW_PET);
    } finally {
      Object.defineProperty(crypto, 'randomUUID', { value: randomUUID, configurable: true });
    }
    const keys = server.received.map(({ headers }) => headers['idempotency-key']);
    expect(new Set(keys).size).toBe(2);
  });

  it('tells whether a pet existed, and does not change the pet', async () => {
    server.respond = (response) =>
      json(
        response,
        201,
        REX,
        server.received.length === 2 ? { 'Idempotent-Replayed': 'true' } : {},
      );
    const [first, second] = [await open().createPet(NEW_PET), await open().createPet(NEW_PET)];
    expect([isReplayed(first), isReplayed(second)]).toEqual([false, true]);
    expect(Reflect.ownKeys(second)).toEqual(Reflect.ownKeys(REX));
    expect(second).toStrictEqual(PET);
  });

  it('does not lose an Idempotency-Key that is passed as text', async () => {
    await expect(open().createPet(NEW_PET, 'row-1')).rejects.toThrow(TypeError);
    expect(server.received).toEqual([]);
  });

  it('does not fail because a deprecation is not well-formed', async () => {
    const headers = {
      Deprecation: '@99999999999',
      Sunset: 'soon',
      Link: '<http://[>; rel="deprecation"',
    };
    server.respond = (response) => json(response, 200, REX, headers);
    const onDeprecation = jest.fn();
    expect(await open({ onDeprecation }).getPet(1n)).toEqual(PET);
  });
});

describe('JSON of the client', () => {
  it('has the digits of a bigint that an object is in JSON', () =>
    expect(stringify({ id: { toJSON: () => 2n ** 53n + 1n } })).toBe('{"id":9007199254740993}'));

  it.each([String, Number])(
    'keeps every digit in a program in which bigints have a toJSON, with %p',
    (convert) => {
      const prototype = BigInt.prototype as { toJSON?: () => unknown };
      prototype.toJSON = function (this: bigint) {
        return convert(this);
      };
      try {
        expect(stringify({ id: 2n ** 53n + 1n, all: [1n] })).toBe(
          '{"id":9007199254740993,"all":[1]}',
        );
      } finally {
        delete prototype.toJSON;
      }
    },
  );

  it.each([0n, -1n, 9007199254740993n, 2n ** 63n - 1n, -(2n ** 63n)])(
    'keeps every digit: %s',
    (id) => {
      const pet = { id, name: '"id":1,"categoryId":"2"', categoryId: id, tags: ['1'] };
      expect(stringify(pet)).toBe(
        `{"id":${id},"name":${JSON.stringify(pet.name)},"categoryId":${id},"tags":["1"]}`,
      );
      expect(parse(stringify(pet))).toEqual(pet);
      expect(parse(JSON.stringify({ id: '1' }))).toEqual({ id: '1' });
      expect(stringify([id, { other: id }])).toBe(`[${id},{"other":${id}}]`);
    },
  );
});

describe('with a rate limit, 16 workers', () => {
  it('create every pet: after a 429 only what was under way arrives before the reset', async () => {
    const other = new OtherStore(40);
    server.respond = other.respond;
    const store = open();
    const rows = Array.from({ length: 131 }, (_, n) => n);
    const created: bigint[] = [];
    const worker = async () => {
      for (let row = rows.shift(); row !== undefined; row = rows.shift()) {
        created.push((await store.createPet(NEW_PET)).id);
      }
    };
    await Promise.all(Array.from({ length: 16 }, worker));
    expect(new Set(created).size).toBe(131);
    expect(other.pets).toHaveLength(131);
    // The others were under way when the first 429 left.
    expect(Math.max(...other.refused)).toBeLessThanOrEqual(16);
    expect(other.refused.length).toBeGreaterThanOrEqual(3);
  });
});
