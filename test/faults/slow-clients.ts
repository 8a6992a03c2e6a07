/** Clients that send or read too slowly, or not at all. */
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { setTimeout as wait } from 'node:timers/promises';
import { HttpLimits } from '../../src/http/limits.js';
import { request } from '../support/raw-http.js';
import { until } from '../support/until.js';
import { most } from './clients.js';
import { note } from './report.js';
import { type Run, Service } from './service.js';

/** Less than the default: a run takes minutes. */
const KEEP_ALIVE_SECONDS = 65;

const LIMITS = new HttpLimits(KEEP_ALIVE_SECONDS);

/** Connections of each kind. */
const COUNT = 100;

/** Milliseconds that a time-out may be noticed late: Node looks once a second. */
const LATE = 2_500;

/** Assets of 1.7 MB that a client asks for and does not read: more than the buffers between the two hold. */
export const ASSETS = request('GET /docs/assets/swagger-ui-bundle.js').repeat(10);

/** How many clients do so. */
const UNREAD = 25;

export async function slowClients({ postgres, key }: Run): Promise<void> {
  const service = await Service.start(postgres.url, {
    KEEP_ALIVE_SECONDS: String(KEEP_ALIVE_SECONDS),
  });
  await unread(service);
  await Promise.all(kinds(key).map((kind) => cutOff(service, kind)));
  await service.kill();
}

/** What connections send at once, whether they then send a byte a second, and after how many ms they are to be closed. */
type Kind = [name: string, first: string, dribbles: boolean, limit: number];

const kinds = (key: string): Kind[] => {
  const { headersTimeout, requestTimeout, keepAliveTimeout } = LIMITS;
  const authorization = `Authorization: Bearer ${key}`;
  const list = request('GET /v1/pets?limit=1', [authorization]);
  const ofBody = ['Content-Type: application/json', 'Content-Length: 1000'];
  const create = request('POST /v1/pets', [authorization, ...ofBody]);
  return [
    ['connections that send nothing', '', false, headersTimeout],
    // All but the empty line at their end.
    ['headers sent a byte a second', list.slice(0, -2), true, headersTimeout],
    ['bodies sent a byte a second', create, true, requestTimeout],
    ['connections that are idle after a request', list, false, keepAliveTimeout],
  ];
};

async function cutOff(service: Service, [name, first, dribbles, limit]: Kind): Promise<void> {
  const lives = await Promise.all(
    (await open(service, COUNT)).map(async (socket) => {
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

export async function open({ port }: Service, count: number): Promise<Socket[]> {
  const sockets = Array.from({ length: count }, () => connect(port, '127.0.0.1').pause());
  sockets.forEach((socket) => socket.on('error', () => {}));
  await Promise.all(sockets.map((socket) => once(socket, 'connect')));
  return sockets;
}

/** {@link UNREAD} clients ask for {@link ASSETS} each and read none. attacks.ts measures what others then notice. */
async function unread(service: Service): Promise<void> {
  const files = await service.files();
  const sockets = await open(service, UNREAD);
  const since = performance.now();
  sockets.forEach((socket) => socket.write(ASSETS));
  await wait(4_000);
  // Paused sockets do not notice by themselves that they were closed.
  const areClosed = async () => (await service.files()) < files + UNREAD / 2;
  await until('most are closed', areClosed, { seconds: 60 }).catch(() => undefined);
  const lived = performance.now() - since;
  sockets.forEach((socket) => socket.destroy());
  note(
    `${UNREAD} connections that ask for 10 assets each and read no response`,
    ['most were open for', lived, `≥ ${LIMITS.socketTimeout - 1_000}`, 'ms'],
    ['most closed after', lived, `≤ ${3 * LIMITS.socketTimeout}`, 'ms'],
  );
}
