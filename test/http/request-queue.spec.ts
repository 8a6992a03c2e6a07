import { setImmediate as turn } from 'node:timers/promises';
import type { Socket } from 'node:net';
import type { Response } from '../../src/http/express-classes.js';
import { HttpLimits } from '../../src/http/limits.js';
import { RequestQueue } from '../../src/http/request-queue.js';

const limits = Object.assign(new HttpLimits(), { handlers: 10, requestsPerTurn: 2 });
const handled: string[] = [];
const ends: (() => void)[] = [];
let queue: RequestQueue;

beforeEach(() => {
  handled.length = 0;
  queue = new RequestQueue(limits, ({ statusMessage, onceEnded }) => {
    handled.push(statusMessage);
    ends.push(...onceEnded);
  });
});

/** Requests of a connection, by name. */
function arrive(names: string[], keyId?: string | null): Socket {
  const socket = { destroyed: false } as Socket;
  for (const statusMessage of names) {
    const response = { statusMessage, req: { socket }, onceEnded: [] };
    queue.add(response as unknown as Response, keyId);
  }
  return socket;
}

const times = (count: number, name: string) => Array<string>(count).fill(name);

it('a turn of the event loop handles a few requests if many are in progress, and else as many as may be', async () => {
  arrive(times(15, 'any'));
  await turn();
  expect(handled).toHaveLength(10);
  await turn();
  expect(handled).toHaveLength(12);
  ends.forEach((end) => end());
  await turn();
  expect(handled).toHaveLength(15);
});

it('a turn in which a connection was accepted handles one request, and the next one more', async () => {
  arrive(times(5, 'any'));
  queue.hasAccepted = true;
  await turn();
  expect(handled).toHaveLength(1);
  await turn();
  expect(handled).toHaveLength(5);
});

it('keys, requests without one, and first requests of connections take turns', async () => {
  arrive(times(5, 'without'));
  arrive(times(2, 'of a key'), '1');
  arrive(times(1, 'first'), null);
  await turn();
  const rest = ['of a key', 'without', 'without', 'without', 'without'];
  expect(handled).toEqual(['without', 'of a key', 'first', 'without', ...rest.slice(0, 4)]);
});

it('requests of a connection that is closed are not handled, and not in progress', async () => {
  Object.assign(arrive(times(10, 'left')), { destroyed: true });
  queue.noteClosed();
  arrive(times(10, 'any'));
  await turn();
  expect(handled).toEqual(times(10, 'any'));
});
