/** Clients who mean harm: `node … attackers.ts NAME PORT KEY` runs those of one name until it is killed. */
import { connect, type Socket } from 'node:net';
import { pathToFileURL } from 'node:url';

interface Attacker {
  port: number;
  /** A valid API key, but not that of other clients. */
  key: string;
}

/** Opens a connection, which does not read. Errors and ends are ignored. */
function open({ port }: Attacker, bytes: string | Buffer = ''): Socket {
  // A proxy that limits the connections of an address sees that of other clients, 127.0.0.1, apart.
  const socket = connect({ port, host: '127.0.0.1', localAddress: '127.0.0.2' }).pause();
  socket.on('error', () => {}).once('connect', () => console.log('connected'));
  socket.write(bytes);
  return socket;
}

function openMany(attacker: Attacker, count: number, bytes?: string | Buffer): void {
  const opening = setInterval(() => {
    for (let i = 0; i < 25 && count > 0; i += 1, count -= 1) {
      open(attacker, bytes);
    }
    if (count === 0) {
      clearInterval(opening);
    }
  }, 10);
}

const get = (path: string, ...headers: string[]) =>
  [`GET ${path} HTTP/1.1`, 'Host: a', ...headers, '', ''].join('\r\n');

const LISTS = '/v1/pets';
const BUNDLE = get('/docs/assets/swagger-ui-bundle.js');
const CHUNKS = '1\r\nx\r\n'.repeat(10_000);
const CHUNKED = 'POST /v1/pets HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n';

/** Sends the request 60 times a second, on one connection that reads the responses. */
function send(attacker: Attacker, bytes: string, perSecond = 60): void {
  let socket = open(attacker).resume();
  setInterval(() => {
    if (socket.closed) {
      socket = open(attacker).resume();
    }
    socket.write(bytes);
  }, 1000 / perSecond);
}

/** Opens a connection again whenever one of `count` is closed. */
function insist(attacker: Attacker, count: number, bytes: string, more?: string): void {
  for (let i = 0; i < count; i += 1) {
    const again = () => {
      const socket = open(attacker, bytes).resume();
      const goOn = () => more !== undefined && !socket.closed && socket.write(more, goOn);
      goOn();
      socket.once('close', () => setTimeout(again, 10));
    };
    again();
  }
}

const names = (count: number) => Array.from({ length: count }, (_, i) => i.toString(36));
const members = (count: number) => Object.fromEntries(names(count).map((name) => [name, 1]));

/** By what they do; `get` has the key of the attacker in each request, and `post` too. */
export function attacksOf(attacker: Attacker): Record<string, () => void> {
  const key = `Authorization: Bearer ${attacker.key}`;
  const many = (count: number, bytes?: string) => () => openMany(attacker, count, bytes);
  const often = (bytes: string, perSecond?: number) => () => send(attacker, bytes, perSecond);
  const without = (count: number, bytes: string, more?: string) => () =>
    insist(attacker, count, bytes, more);
  const post = (body: string, length = body.length) =>
    `POST /v1/pets HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n${key}\r\n` +
    `Content-Length: ${length}\r\n\r\n${body}`;
  const page = get(`${LISTS}?limit=100`, key);
  return {
    '4 connections without a key: 4 assets and 1,600 lists each, unread': many(
      4,
      BUNDLE.repeat(4) + get(LISTS).repeat(1_600),
    ),
    '40 connections: 12 assets each, unread': many(40, BUNDLE.repeat(12)),
    '140 connections: an asset each, unread': many(140, BUNDLE),
    '8 connections: 1,000 assets each, unread': many(8, BUNDLE.repeat(1_000)),
    '6,500 connections: an asset each, unread': many(6_500, BUNDLE),
    '9,900 connections: an asset and 19 lists without a key each, unread': many(
      9_900,
      BUNDLE + get(LISTS).repeat(19),
    ),
    '9,900 connections: 20 OpenAPI documents each, unread': many(
      9_900,
      get('/openapi.json').repeat(20),
    ),
    '25 a second: a path of 15,500 %': often(get(`/${'%'.repeat(15_500)}`), 25),
    '25 a second: a path of 5,100 %ff': often(get(`/${'%ff'.repeat(5_100)}`), 25),
    '25 a second: a path of 3,800 segments': often(get(LISTS + '/%41'.repeat(3_800)), 25),
    '60 a second: a query of 3,600 names': often(get(`${LISTS}?${names(3_600).join('&')}`, key)),
    '60 a second: a query of 2,000 invalid encodings': often(
      get(`${LISTS}?${'%ff=%ff&'.repeat(2_000)}`, key),
    ),
    '60 a second: a body of 1,500 unknown members': often(post(JSON.stringify(members(1_500)))),
    '60 a second: a name of 1,500 members': often(
      post(JSON.stringify({ categoryId: 1, name: members(1_500) })),
    ),
    '60 a second: a body of 4,000 fractions': often(post(`{"a":[${Array(4_000).fill(0.5)}]}`)),
    '60 a second: 240 header fields': often(
      get(LISTS, key, ...names(240).map((name) => `X-${name}: ${'x'.repeat(50)}`)),
    ),
    '60 a second: long headers that are parsed': often(
      get(
        '/docs',
        `Accept-Encoding: ${'gzip;q=0.5,'.repeat(700)}`,
        `If-None-Match: ${'"a",'.repeat(1_500)}`,
      ),
    ),
    '8 connections: chunks of one byte without end': without(8, CHUNKED, CHUNKS),
    '200 connections with a key: bodies that never end': without(200, post('{"name":"x"}', 13)),
    '6,500 connections of one key: a page of 158 KB each, unread': many(6_500, page),
    '2,000 connections of one key: 20 pages of 158 KB each, unread': many(2_000, page.repeat(20)),
    '10,000 connections that send nothing': many(11_000),
    '10,000 connections: a probe each, then nothing': many(11_000, get('/health/live')),
    '8 connections: pipelined probes without end': without(
      8,
      '',
      get('/health/live').repeat(1_000),
    ),
    '8 connections of one key: lists without pause': without(8, '', get(LISTS, key).repeat(10)),
  };
}

export const ATTACKS = Object.keys(attacksOf({ port: 0, key: '' }));

if (import.meta.url === pathToFileURL(process.argv[1]!).href) {
  const [name, port, key] = process.argv.slice(2);
  attacksOf({ port: Number(port), key: key! })[name!]!();
}
