/** Half of the peak for an hour, with clients that come and go or misbehave: nothing that the process holds grows. */
import { connect } from 'node:net';
import { freePort } from '../../scripts/free-port.mjs';
import { create, Stream } from './clients.js';
import { type Load, wrk } from './overload.js';
import { type Figure, note } from './report.js';
import { fill, type Run, Service, sessions } from './service.js';
import { ASSETS } from './slow-clients.js';

const CONNECTIONS = 64;

/** What the process holds, and which of many samples counts: of the heap, that with the least garbage. */
const HELD = [
  ['bytes of heap', 0],
  ['open files and sockets', 0.5],
  ['sessions in the database', 0.5],
] as const;

/** Percent by which it may grow after the first sixth of the time. */
const MOST_GROWTH = 5;

export async function soak({ postgres: { url }, key, count }: Run): Promise<void> {
  await fill(url, 1_000);
  const METRICS_PORT = String(await freePort());
  const service = await Service.start(url, { env: { METRICS_PORT } });
  const load: Load = { service, key, kind: 'soak', connections: CONNECTIONS, seconds: 10 };
  const samples: { at: number; held: number[] }[] = [];
  const sample = async () => {
    const metrics = await (await fetch(`http://127.0.0.1:${METRICS_PORT}/metrics`)).text();
    const of = (name: string) => Number(new RegExp(`^${name} (\\S+)$`, 'm').exec(metrics)?.[1]);
    const held = [of('nodejs_heap_size_used_bytes'), of('process_open_fds'), await sessions(url)];
    samples.push({ at: performance.now(), held });
  };
  await wrk(load);
  const { accepted: peak } = await wrk(load);
  // Milliseconds from one request of a connection to its next; the response takes a part of them.
  const cycle = (2_000 * CONNECTIONS) / peak;
  const { accepted: slower } = await wrk({ ...load, pause: Math.round(cycle) });
  const paced = { ...load, pause: Math.round(2 * cycle - (1_000 * CONNECTIONS) / slower) };
  const misbehaving = new Stream(service.origin, 50, (n) => kinds(key)[n % 3]!);
  const timers = [
    setInterval(() => readNothing(service), 10_000),
    setInterval(() => void sample(), 2_000),
  ];
  const since = performance.now();
  const sums = { rounds: 0, accepted: 0, failed: 0 };
  while (performance.now() < since + count.minutes * 60_000) {
    const { accepted, refused, unanswered } = await wrk({ ...paced, seconds: 20 });
    sums.rounds += 1;
    sums.accepted += accepted;
    sums.failed += refused + unanswered;
  }
  timers.forEach(clearInterval);
  const answers = await misbehaving.stop();
  const wrong = answers.filter(({ status, question }) => String(status) !== question.kind);
  const took = performance.now() - since;
  const heldBefore = (end: number) =>
    samples.filter(({ at }) => at < since + end && at > since + end - took / 12);
  note(
    `${count.minutes} minutes of lists, gets and creates, while others misbehave`,
    ['requests per second', sums.accepted / sums.rounds],
    ['share of the peak', (sums.accepted / sums.rounds / peak) * 100, '', '%'],
    ['requests that failed', sums.failed, '= 0'],
    ['wrong keys, large bodies, and lists on new connections', answers.length],
    ['of them with another status than 401, 413 and 200', wrong.length, '= 0'],
    ...HELD.flatMap(([name, quantile], i): Figure[] => {
      const [before, after] = [took / 6, took].map((end) => {
        const values = heldBefore(end).map(({ held }) => held[i]!);
        return values.toSorted((a, b) => a - b)[Math.floor((values.length - 1) * quantile)]!;
      }) as [number, number];
      return [
        [`${name} after a sixth of the time`, before],
        [`${name} at the end`, after],
        [`growth of ${name}`, (after / before - 1) * 100, `≤ ${MOST_GROWTH}`, '%'],
      ];
    }),
  );
  await service.kill();
}

/** On a new connection each: a stranger, a body over the limit, and a client that comes for one list. */
const kinds = (key: string) => [
  { path: '/v1/pets', key: 'wrong', agent: false, kind: '401' } as const,
  { ...create(key, 'x'.repeat(100_000)), agent: false, kind: '413' } as const,
  { path: '/v1/pets?limit=1', key, agent: false, kind: '200' } as const,
];

function readNothing({ port }: Service): void {
  const socket = connect(port, '127.0.0.1').on('error', () => {});
  socket.pause().write(ASSETS);
  setTimeout(() => socket.destroy(), 60_000).unref();
}
