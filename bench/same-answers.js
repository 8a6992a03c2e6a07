/** Checks that a peer answers as the service does: a peer that does less has no place beside it. */
import { isDeepStrictEqual } from 'node:util';

/**
 * @typedef {{ name: string, url: string }} Server
 * @typedef {{ method?: string, path: string, headers?: Record<string, string>, body?: string, statusOnly?: boolean }} Request
 */

/** The headers that belong to the contract. */
const HEADERS = [
  'content-type',
  'link',
  'location',
  'deprecation',
  'sunset',
  'cache-control',
  'www-authenticate',
];

const create = (body) => ({
  method: 'POST',
  path: '/v1/pets',
  headers: { 'Content-Type': 'application/json' },
  body,
});

/**
 * @param {object} contract
 * @param {number} contract.animals their ids are 1 to this.
 * @param {(id: bigint) => string} contract.cursorAfter
 * @returns {Request[]} requests to which all answers must be equal; where only `status` is to be, the words are each one's own.
 */
function requests({ animals, cursorAfter }) {
  const starts = [1, 777, animals - 20, animals - 1, animals].map((id) => cursorAfter(BigInt(id)));
  const filters = ['', '&status=available', '&status=pending', '&status=sold'];
  const pages = filters.flatMap((filter) =>
    [1, 5, 20, 50, 100].flatMap((limit) => [
      `limit=${limit}${filter}`,
      ...starts.map((cursor) => `limit=${limit}${filter}&cursor=${cursor}`),
    ]),
  );
  const ids = [
    1,
    Math.floor(animals / 2),
    animals,
    animals * 10,
    '9223372036854775807',
    '9223372036854775808',
    'x',
  ];
  const stranger = { Authorization: 'Bearer animalstore_unknown' };
  return [
    { path: '/v1/pets' },
    ...pages.map((query) => ({ path: `/v1/pets?${query}` })),
    ...ids.map((id) => ({ path: `/v1/pets/${id}` })),
    create('{"name":"Rex","categoryId":9007199254740993,"status":"pending"}'),
    create('{"name":"\\"\\u0007é🐕\\n","categoryId":-9223372036854775808}'),
    { path: '/v1/pets', headers: { Authorization: '' } },
    { path: '/v1/pets', headers: stranger },
    { path: '/v1/pets/1', headers: { Authorization: '' } },
    { path: '/v1/pets/1', headers: stranger },
    ...['limit=0', 'limit=101', 'limit=x', 'status=lost', 'cursor=mine'].map((query) => ({
      path: `/v1/pets?${query}`,
      statusOnly: true,
    })),
    ...[
      '{',
      '{"categoryId":1}',
      '{"name":"","categoryId":1}',
      '{"name":"Rex","categoryId":1.5}',
      '{"name":"Rex","categoryId":9223372036854775808}',
      '{"name":"Rex","categoryId":1,"status":"lost"}',
    ].map((body) => ({ ...create(body), statusOnly: true })),
  ];
}

/**
 * @param {{ service: Server, peer: Server, key: string, animals: number, cursorAfter: (id: bigint) => string }} run
 * @returns how many requests were compared.
 * @throws where an answer differs from the service's.
 */
export async function requireSameAnswers({ service, peer, key, animals, cursorAfter }) {
  const all = requests({ animals, cursorAfter });
  for (const request of all) {
    const [expected, found] = [await ask(service, key, request), await ask(peer, key, request)];
    if (!isDeepStrictEqual(expected, found)) {
      throw new Error(
        `${peer.name} does not answer ${request.method ?? 'GET'} ${request.path} as the service does.\n` +
          `service: ${JSON.stringify(expected)}\n${peer.name}: ${JSON.stringify(found)}`,
      );
    }
  }
  return all.length;
}

/** @param {Server} server @param {string} key @param {Request} request */
async function ask({ url }, key, { path, headers, statusOnly, ...request }) {
  const response = await fetch(url + path, {
    ...request,
    headers: { Authorization: `Bearer ${key}`, ...headers },
  });
  const text = await response.text();
  if (statusOnly) {
    return { status: response.status };
  }
  const answer = {
    status: response.status,
    headers: Object.fromEntries(HEADERS.map((name) => [name, response.headers.get(name)])),
    body: text,
  };
  return response.status === 201 ? withoutId(answer) : answer;
}

/** Each creation gets an id of its own, which must be the same in body and `Location`. */
function withoutId(answer) {
  const [, id] = /^\{"id":(\d+),/.exec(answer.body) ?? [];
  return {
    ...answer,
    headers: { ...answer.headers, location: answer.headers.location?.replace(id, 'ID') },
    body: answer.body.replace(id, 'ID'),
  };
}
