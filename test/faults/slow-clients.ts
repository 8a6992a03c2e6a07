/** Clients that send or read too slowly, or not at all. */
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { connect, type Socket } from 'node:net';
import { setTimeout as wait } from 'node:timers/promises';
import { HttpLimits } from '../../src/http/limits.js';
import { query } from '../support/ask.js';
import { until } from '../support/until.js';
import { ask, most, p99, Stream } from './clients.js';
import { type Figure, note } from './report.js';
import { type Run, Service } from './service.js';

const LIMITS = new HttpLimits();

/** Connections of each kind. */
const COUNT = 100;

/** Milliseconds that a time-out may be noticed late: Node looks once a second. */
const LATE = 2_500;

/** Pages of 30 KB that a client asks for and does not read: more than the buffers between the two hold. */
const PAGES = 200;

/** How many clients do so. Together they send fewer requests than the service lets wait. */
const UNREAD = 25;

export async function slowClients({ postgres, key, isShort }: Run): Promise<void> {
  await query(
    postgres.url,
    'truncate pets cascade',
    `insert into pets (name, category_id) select repeat('x', 255), n from generate_series(1, 100) as n`,
  );
  const service = await Service.start(postgres.url);
  try {
    await unread(service, key, isShort);
    if (!isShort) {
      await Promise.all(kinds(key).map((kind) => cutOff(service, kind)));
    }
  } finally {
    await service.kill();
  }
}

const head = (key: string) => `Host: test\r\nAuthorization: Bearer ${key}\r\n`;

interface Kind {
  name: string;
  /** Sent at once. */
  first: string;
  /** Whether it then sends a byte a second. */
  dribbles?: boolean;
  /** Milliseconds after which it is to be cut off. */
  limit: number;
}

const kinds = (key: string): Kind[] => [
  { name: 'connections that send nothing', first: '', limit: LIMITS.headersTimeout },
  {
    name: 'headers sent a byte a second',
    first: `GET /v1/pets HTTP/1.1\r\n${head(key)}X-Slow: `,
    dribbles: true,
    limit: LIMITS.headersTimeout,
  },
  {
    name: 'bodies sent a byte a second',
    first: `POST /v1/pets HTTP/1.1\r\n${head(key)}Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n`,
    dribbles: true,
    limit: LIMITS.requestTimeout,
  },
  {
    name: 'connections that are idle after a request',
    first: `GET /v1/pets?limit=1 HTTP/1.1\r\n${head(key)}\r\n`,
    limit: LIMITS.keepAliveTimeout,
  },
];

async function cutOff(service: Service, { name, first, dribbles, limit }: Kind): Promise<void> {
  const lives = await Promise.all(
    (await open(service)).map(async (socket) => {
      const since = performance.now();
      socket.write(first);
      socket.resume();
      const dribbling = dribbles ? setInterval(() => socket.write('x'), 1_000) : undefined;
      await Promise.race([once(socket, 'close'), wait(limit + 20_000)]);
      clearInterval(dribbling);
      const lived = socket.closed ? performance.now() - since : Infinity;
      socket.destroy();
      return lived;
    }),
  );
  note(
    `${COUNT} ${name}`,
    ['first closed after', Math.round(Math.min(...lives)), `≥ ${limit - 1_000}`, 'ms'],
    ['last closed after', most(lives), `≤ ${limit + LATE}`, 'ms'],
  );
}

async function open({ port }: Service, count = COUNT): Promise<Socket[]> {
  const sockets = Array.from({ length: count }, () =>
    connect(port, '127.0.0.1')
      .on('error', () => {})
      .pause(),
  );
  await Promise.all(sockets.map((socket) => once(socket, 'connect')));
  return sockets;
}

/** {@link UNREAD} clients ask for {@link PAGES} each and read none. */
async function unread(service: Service, key: string, isShort: boolean): Promise<void> {
  const before = await service.memory('VmRSS');
  const sockets = await open(service, UNREAD);
  const others = new Stream(service.origin, 20, () => ({ path: '/v1/pets?limit=1', key }));
  const request = `GET /v1/pets?limit=100 HTTP/1.1\r\n${head(key)}\r\n`;
  sockets.forEach((socket) => socket.write(request.repeat(PAGES)));
  await wait(isShort ? 4_000 : 10_000);
  const since = performance.now();
  const answers = await others.stop();
  const grown = (await service.memory('VmHWM')) - before;
  const closed: Figure[] = [];
  if (!isShort) {
    await until('all are closed', () => areGone(sockets)).catch(() => undefined);
    const after = performance.now() - since;
    closed.push(['all closed after', after, `≤ ${3 * LIMITS.socketTimeout}`, 'ms']);
  }
  sockets.forEach((socket) => socket.destroy());
  const { status } = await ask(service.origin, { path: '/health/live' });
  const failed = answers.filter((answer) => answer.status !== 200);
  note(
    `${UNREAD} connections that send ${PAGES} lists each and read no response`,
    ['memory grew by', grown, '≤ 400', 'MiB'],
    ['p99 of the responses to others', p99(answers), '', 'ms'],
    ['requests of others that failed', failed.length, '= 0'],
    ['status of /health/live', status ?? 'none', '= 200'],
    ...closed,
  );
}

/** @returns whether the service holds none of `sockets`. Paused ones do not notice by themselves that they were closed. */
async function areGone(sockets: Socket[]): Promise<boolean> {
  const ports = new Set(sockets.map(({ localPort }) => localPort));
  const connections = (await readFile('/proc/net/tcp', 'utf8')).trim().split('\n').slice(1);
  return !connections.some((line) => {
    const [, , remote, state] = line.trim().split(/ +/);
    return state === ESTABLISHED && ports.has(Number.parseInt(remote!.split(':')[1]!, 16));
  });
}

/** In `/proc/net/tcp`. */
const ESTABLISHED = '01';
