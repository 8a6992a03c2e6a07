/** Clients who mean harm: `node … attackers.ts NAME PORT KEY KEY` runs those of one name until it is killed. */
import { randomInt } from 'node:crypto';
import { connect, type Socket } from 'node:net';
import { cursorAfter } from '../../src/listing/cursors.js';
import { request } from '../support/raw-http.js';

/** The keys are valid, but not those of other clients. */
const [name = '', port, ...keys] = process.argv.slice(2);

/** Opens a connection, which does not read. Errors and ends are ignored. */
function open(bytes = ''): Socket {
  // A proxy that limits the connections of an address sees that of other clients, 127.0.0.1, apart.
  const address = { port: Number(port), host: '127.0.0.1', localAddress: '127.0.0.2' };
  const socket = connect(address).pause();
  socket.on('error', () => {}).once('connect', () => console.log('connected'));
  socket.write(bytes);
  return socket;
}

/** Opens so many connections, which send the bytes once. */
const many = (bytes?: string | (() => string)) => (count: number) => {
  const opening = setInterval(() => {
    for (let i = 0; i < 25 && count > 0; i += 1, count -= 1) {
      open(typeof bytes === 'function' ? bytes() : bytes);
    }
    if (count === 0) {
      clearInterval(opening);
    }
  }, 10);
};

/** Sends the requests in so many connections, and again when each has had its last response. */
const inTurn = (bytes: () => string) => (count: number) => {
  Array.from({ length: count }, () => {
    const socket = open(bytes()).on('data', () => socket.write(bytes()));
    socket.resume();
  });
};

/** Sends the request so many times a second, on one connection that reads the responses. */
const often = (bytes: string) => (perSecond: number) => {
  let socket = open().resume();
  setInterval(() => {
    if (socket.closed) {
      socket = open().resume();
    }
    socket.write(bytes);
  }, 1000 / perSecond);
};

/** Opens a connection again whenever one of so many is closed. */
const insist = (bytes: string, more?: string) => (count: number) => {
  const again = () => {
    const socket = open(bytes).resume();
    const goOn = () => more !== undefined && socket.writable && socket.write(more, goOn);
    goOn();
    socket.once('close', () => setTimeout(again, 10));
  };
  Array.from({ length: count }, again);
};

const KEYS = keys.map((key) => `Authorization: Bearer ${key}`);
const [KEY = ''] = KEYS;
const LISTS = '/v1/pets';
const get = (path: string, ...headers: string[]) => request(`GET ${path}`, headers);
const post = (body: string) =>
  request(`POST ${LISTS}`, ['Content-Type: application/json', KEY], body);

const names = (count: number) => Array.from({ length: count }, (_, i) => i.toString(36));
const members = (count: number) => Object.fromEntries(names(count).map((member) => [member, 1]));

const BUNDLE = get('/docs/assets/swagger-ui-bundle.js');
const LIVE = get('/health/live');
const PAGE = get(`${LISTS}?limit=100`, KEY);
/** Each after a pet of its own, of the thousand that there are: no two share a place in a statement. */
const differentPages =
  (count: number, method = 'GET') =>
  () =>
    Array.from({ length: count }, () => cursorAfter('pets', BigInt(randomInt(900))))
      .map((cursor) => request(`${method} ${LISTS}?limit=100&cursor=${cursor}`, [KEY]))
      .join('');
let next = 0;
const keyInTurn = () => KEYS[next++ % KEYS.length]!;
const CHUNKED = request(`POST ${LISTS}`, ['Transfer-Encoding: chunked']);
const CHUNKS = '1\r\nx\r\n'.repeat(10_000);

/** By what they do, which begins with how many there are, or how many a second. */
export const ATTACKS: Record<string, (count: number) => void> = {
  '4 connections without a key: 4 assets and 1,600 lists each, unread': many(
    BUNDLE.repeat(4) + get(LISTS).repeat(1_600),
  ),
  '40 connections: 12 assets each, unread': many(BUNDLE.repeat(12)),
  '140 connections: an asset each, unread': many(BUNDLE),
  '300 connections: an asset each, at once, unread': (count) => {
    Array.from({ length: count }, () => open(BUNDLE));
  },
  '1,500 connections: an asset each, at once, unread': (count) => {
    Array.from({ length: count }, () => open(BUNDLE));
  },
  '1,500 connections: an asset each, at once, and the end of the connection, unread': (count) => {
    const last = get('/docs/assets/swagger-ui-bundle.js', 'Connection: close');
    Array.from({ length: count / 2 }, () => open(last));
    Array.from({ length: count / 2 }, () => open(BUNDLE).end());
  },
  '660 connections: 2 assets and 18 requests with 16 KB of header fields each, unread': many(
    BUNDLE.repeat(2) + get('/health/live', `X: ${'x'.repeat(16_000)}`).repeat(18),
  ),
  '9,900 connections: 16 KB of a head that never ends': many(
    get('/health/live', `X: ${'x'.repeat(16_000)}`).slice(0, -4),
  ),
  '50 connections without a key: 1,500 probes each, time and again': insist(LIVE.repeat(1_500)),
  '200 connections without a key: 1,500 probes each, time and again': insist(LIVE.repeat(1_500)),
  '200 connections: 1,600 probes each, time and again, beside 33,000 that wait': (count) => {
    // Those of slow readers: they are not handled, and not let go either.
    for (let i = 0; i < 22; i += 1) {
      const slow = open(BUNDLE + LIVE.repeat(1_519));
      setInterval(() => slow.resume() && setTimeout(() => slow.pause(), 1), 1_000);
    }
    setTimeout(() => insist(LIVE.repeat(1_600))(count), 2_000);
  },
  '8 connections: 1,000 assets each, unread': many(BUNDLE.repeat(1_000)),
  '6,500 connections: an asset each, unread': many(BUNDLE),
  '9,900 connections: an asset and 19 lists without a key each, unread': many(
    BUNDLE + get(LISTS).repeat(19),
  ),
  '9,900 connections: 20 OpenAPI documents each, unread': many(get('/openapi.json').repeat(20)),
  '25 a second: a path of 15,500 %': often(get(`/${'%'.repeat(15_500)}`)),
  '25 a second: a path of 5,100 %ff': often(get(`/${'%ff'.repeat(5_100)}`)),
  '25 a second: a path of 3,800 segments': often(get(LISTS + '/%41'.repeat(3_800))),
  '60 a second: a query of 3,600 names': often(get(`${LISTS}?${names(3_600).join('&')}`, KEY)),
  '60 a second: a query of 2,000 invalid encodings': often(
    get(`${LISTS}?${'%ff=%ff&'.repeat(2_000)}`, KEY),
  ),
  '60 a second: a body of 1,500 unknown members': often(post(JSON.stringify(members(1_500)))),
  '60 a second: a name of 1,500 members': often(
    post(JSON.stringify({ categoryId: 1, name: members(1_500) })),
  ),
  '60 a second: a body of 4,000 fractions': often(post(`{"a":[${Array(4_000).fill(0.5)}]}`)),
  '400 a second: a path of 3,800 segments': often(get(`/${'%41/'.repeat(3_800)}`)),
  '400 a second: a query of 3,600 names': often(get(`/docs?${names(3_600).join('&')}`)),
  '400 a second: a header that is parsed': often(
    get('/docs', `Accept-Encoding: ${'a,'.repeat(7_800)}`),
  ),
  '500 connections: 16 KB of a body each, whose last bytes come together': (count) => {
    const bytes = post(`{"a":1e1,${JSON.stringify(members(1_700)).slice(1)}`);
    const all = Array.from({ length: count }, () => open(bytes.slice(0, -1)).resume());
    all.forEach((socket) =>
      socket.on('data', () => setTimeout(() => socket.write(bytes.slice(0, -1)), 100)),
    );
    setInterval(() => all.forEach((socket) => socket.write(bytes.slice(-1))), 1_000);
  },
  '25 a second: an X-Forwarded-For of 15,500 digits': often(
    get('/health/live', `X-Forwarded-For: ${'1'.repeat(15_500)}`),
  ),
  '60 a second: 240 header fields': often(
    get(LISTS, KEY, ...names(240).map((field) => `X-${field}: ${'x'.repeat(50)}`)),
  ),
  '60 a second: long headers that are parsed': often(
    get(
      '/docs',
      `Accept-Encoding: ${'gzip;q=0.5,'.repeat(700)}`,
      `If-None-Match: ${'"a",'.repeat(1_500)}`,
    ),
  ),
  '100 connections: 4,000 chunks of one byte each, time and again': insist(
    CHUNKED + CHUNKS.slice(0, 24_000),
  ),
  '100 connections: chunks of one byte without end': insist(CHUNKED, CHUNKS),
  '200 connections with a key: bodies that never end': insist(post('{"a":1}').slice(0, -1)),
  '6,500 connections of one key: a page of 158 KB each, unread': many(PAGE),
  '2,000 connections of one key: 20 pages of 158 KB each, unread': many(PAGE.repeat(20)),
  '400 connections of one key: 18 different pages of 158 KB each, unread': many(differentPages(18)),
  '32 connections of one key: HEAD of a different page of 158 KB, one after the other': inTurn(
    differentPages(1, 'HEAD'),
  ),
  '84 connections of two keys: 3 assets and 17 lists each, unread': many(
    () => BUNDLE.repeat(3) + get(LISTS, keyInTurn()).repeat(17),
  ),
  '10,000 connections that send nothing': () => many()(11_000),
  '10,000 connections: a probe each, then nothing': () => many(LIVE)(11_000),
  '8 connections: pipelined probes without end': insist('', LIVE.repeat(1_000)),
  '1,000 connections: a probe each, then 1,500 at once': (count) => {
    const all = Array.from({ length: count }, () => open(LIVE).resume());
    setTimeout(() => all.forEach((socket) => socket.write(LIVE.repeat(1_500))), 3_000);
  },
  '8 connections of one key: lists without pause': insist('', get(LISTS, KEY).repeat(10)),
};

ATTACKS[name]?.(parseInt(name.replace(',', '')));
