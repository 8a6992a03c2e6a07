/** Clients that send or read too slowly, or not at all. */
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { setTimeout as wait } from 'node:timers/promises';
import { HttpLimits } from '../../dist/src/http/limits.js';
import { ask, most, percentile, Stream, until } from './clients.js';
import { Service } from './processes.js';
import { note } from './report.js';

const HTTP_LIMITS = new HttpLimits();
const PROMISE = 'A client that is too slow is cut off';

/** Connections of each kind. */
const COUNT = 100;

/** Milliseconds that a time-out may be noticed late: Node looks once a second. */
const LATE = 2_500;

/** @param {{ postgres: import('./postgres.js').Postgres, isShort: boolean }} run */
export async function slowClients({ postgres, isShort }) {
  await postgres.query('truncate pets cascade');
  await postgres.query(
    `insert into pets (name, category_id) select repeat('x', 255), n from generate_series(1, 100) as n`,
  );
  const service = await Service.start(postgres.url);
  try {
    const { key } = postgres;
    await unread(service, key, isShort);
    if (!isShort) {
      await Promise.all(
        Object.entries(KINDS).map(([name, kind]) => cutOff(service, key, name, kind)),
      );
    }
  } finally {
    await service.end('SIGKILL');
  }
}

const HEAD = (key) => `Host: test\r\nAuthorization: Bearer ${key}\r\n`;

/** What each kind sends at once, then byte by byte, and the time after which it is to be cut off. */
const KINDS = {
  'connections that send nothing': { first: () => '', limit: HTTP_LIMITS.headersTimeout },
  'headers sent a byte a second': {
    first: (key) => `GET /v1/pets HTTP/1.1\r\n${HEAD(key)}X-Slow: `,
    limit: HTTP_LIMITS.headersTimeout,
    dribbles: true,
  },
  'bodies sent a byte a second': {
    first: (key) =>
      `POST /v1/pets HTTP/1.1\r\n${HEAD(key)}Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n`,
    limit: HTTP_LIMITS.requestTimeout,
    dribbles: true,
  },
  'connections that are idle after a request': {
    first: (key) => `GET /v1/pets?limit=1 HTTP/1.1\r\n${HEAD(key)}\r\n`,
    limit: HTTP_LIMITS.keepAliveTimeout,
  },
};

async function cutOff(service, key, name, { first, limit, dribbles = false }) {
  const lives = await Promise.all(
    Array.from({ length: COUNT }, async () => {
      const socket = connect(service.port, '127.0.0.1').on('error', () => {});
      await once(socket, 'connect');
      const since = performance.now();
      socket.write(first(key));
      socket.resume();
      const dribbling = dribbles ? setInterval(() => socket.write('x'), 1_000) : undefined;
      await Promise.race([once(socket, 'close'), wait(limit + 20_000)]);
      clearInterval(dribbling);
      const lived = socket.closed ? performance.now() - since : Infinity;
      socket.destroy();
      return lived;
    }),
  );
  note(PROMISE, `${COUNT} ${name}`, [
    { name: 'cut off after', value: percentile(lives, 0), unit: ' ms', atLeast: limit - 1_000 },
    { name: 'and at most', value: most(lives), unit: ' ms', atMost: limit + LATE },
  ]);
}

/** Pages of 30 KB that a client asks for and does not read: more than the buffers between the two hold. */
const PAGES = 200;

/** Each asks for {@link PAGES} and reads none. */
async function unread(service, key, isShort) {
  const before = await service.memory('VmRSS');
  const request = `GET /v1/pets?limit=100 HTTP/1.1\r\n${HEAD(key)}\r\n`;
  const sockets = Array.from({ length: COUNT }, () =>
    connect(service.port, '127.0.0.1')
      .on('error', () => {})
      .pause(),
  );
  await Promise.all(sockets.map((socket) => once(socket, 'connect')));
  const since = performance.now();
  const others = new Stream(service.origin, 20, () => ({ path: '/v1/pets?limit=1', key }));
  sockets.forEach((socket) => socket.write(request.repeat(PAGES)));
  let peak = 0;
  // The time counts from the last byte that found room in the buffers.
  let mostBuffered = 0;
  let lastTaken = since;
  const watching = setInterval(async () => {
    peak = Math.max(peak, await service.memory('VmRSS'));
    const { buffered } = await heldFor(sockets);
    // Bytes that are being acknowledged count twice for a moment.
    if (buffered > mostBuffered + 2 ** 20) {
      mostBuffered = buffered;
      lastTaken = performance.now();
    }
  }, 50);
  const limit = HTTP_LIMITS.socketTimeout;
  await wait(isShort ? 4_000 : limit - (performance.now() - since));
  const answers = await others.stop();
  let cut = NaN;
  if (!isShort) {
    // Paused sockets do not notice that they were closed: what can be seen is that the service holds none.
    await until(async () => (await heldFor(sockets)).count === 0, 2 * limit);
    cut = performance.now() - lastTaken;
  }
  clearInterval(watching);
  sockets.forEach((socket) => socket.destroy());
  const health = await ask(service.origin, { path: '/health/live' });
  note(PROMISE, `${COUNT} connections that ask for ${PAGES} pages each and read none`, [
    { name: 'memory grew by', value: peak - before, unit: ' MiB', atMost: 400 },
    {
      name: 'p99 of others',
      value: percentile(
        answers.map(({ ms }) => ms),
        0.99,
      ),
      unit: ' ms',
    },
    {
      name: 'of them refused',
      value: answers.filter(({ status }) => status !== 200).length,
      is: 0,
    },
    { name: 'live', value: health.status, is: 200 },
    ...(isShort
      ? []
      : [
          {
            name: 'all cut off, after the last byte that the buffers took, in',
            value: Math.round(cut),
            unit: ' ms',
            atMost: 30_000,
          },
        ]),
  ]);
}

/** @returns how many of `sockets` the service holds, and how many bytes of responses the operating system has for them. */
async function heldFor(sockets) {
  const ports = new Set(sockets.map(({ localPort }) => localPort));
  const portOf = (address) => Number.parseInt(address.split(':')[1], 16);
  let count = 0;
  let buffered = 0;
  for (const line of (await readFile('/proc/net/tcp', 'utf8')).trim().split('\n').slice(1)) {
    const [, local, remote, state, queues] = line.trim().split(/ +/);
    const [toSend, received] = queues.split(':').map((bytes) => Number.parseInt(bytes, 16));
    if (state === ESTABLISHED && ports.has(portOf(remote))) {
      count += 1;
      buffered += toSend;
    } else if (ports.has(portOf(local))) {
      buffered += received;
    }
  }
  return { count, buffered };
}

/** In `/proc/net/tcp`. */
const ESTABLISHED = '01';
