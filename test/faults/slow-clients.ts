/** Clients that send or read too slowly, or not at all. */
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { setTimeout as wait } from 'node:timers/promises';
import { HttpLimits } from '../../src/http/limits.js';
import { until } from '../support/until.js';
import { isServed, most, p99, Stream } from './clients.js';
import { type Figure, note } from './report.js';
import { fill, type Run, Service } from './service.js';

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
  await fill(postgres.url, 100, `repeat('x', 255)`);
  const service = await Service.start(postgres.url);
  await unread(service, key, isShort);
  if (!isShort) {
    await Promise.all(kinds(key).map((kind) => cutOff(service, kind)));
  }
  await service.kill();
}

const head = (key: string) => `Host: test\r\nAuthorization: Bearer ${key}\r\n`;

/** What connections send at once, whether they then send a byte a second, and after how many ms they are to be closed. */
type Kind = [name: string, first: string, dribbles: boolean, limit: number];

const kinds = (key: string): Kind[] => {
  const { headersTimeout, requestTimeout, keepAliveTimeout } = LIMITS;
  const list = `GET /v1/pets?limit=1 HTTP/1.1\r\n${head(key)}`;
  const body = 'Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n';
  return [
    ['connections that send nothing', '', false, headersTimeout],
    ['headers sent a byte a second', `${list}X-Slow: `, true, headersTimeout],
    [
      'bodies sent a byte a second',
      `POST /v1/pets HTTP/1.1\r\n${head(key)}${body}`,
      true,
      requestTimeout,
    ],
    ['connections that are idle after a request', `${list}\r\n`, false, keepAliveTimeout],
  ];
};

async function cutOff(service: Service, [name, first, dribbles, limit]: Kind): Promise<void> {
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
  const files = await service.files();
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
    // Paused sockets do not notice by themselves that they were closed.
    const areClosed = async () => (await service.files()) < files + UNREAD / 2;
    await until('they are closed', areClosed).catch(() => undefined);
    const after = performance.now() - since;
    closed.push(['most closed after', after, `≤ ${3 * LIMITS.socketTimeout}`, 'ms']);
  }
  sockets.forEach((socket) => socket.destroy());
  const failed = answers.filter((answer) => !isServed(answer));
  note(
    `${UNREAD} connections that send ${PAGES} lists each and read no response`,
    ['memory grew by', grown, '≤ 400', 'MiB'],
    ['p99 of the responses to others', p99(answers), '', 'ms'],
    ['requests of others that failed', failed.length, '= 0'],
    ...closed,
  );
}
