import { setImmediate as turn } from 'node:timers/promises';
import type { Response } from '../../src/http/express-classes.js';
import { HttpLimits } from '../../src/http/limits.js';
import { RequestQueue } from '../../src/http/request-queue.js';

const limits = Object.assign(new HttpLimits(), { handlers: 10, requestsPerTurn: 2 });

function queueOf(responses: number) {
  const handled: Response[] = [];
  const queue = new RequestQueue(limits, (response) => handled.push(response));
  const all = Array.from({ length: responses }, () => {
    const response = { req: { socket: { destroyed: false } }, onceEnded: [] };
    queue.add(response as unknown as Response, undefined);
    return response;
  });
  return { all, handled };
}

it('a turn of the event loop handles a few requests if many are in progress, and else as many as may be', async () => {
  const { handled } = queueOf(15);
  await turn();
  expect(handled).toHaveLength(10);
  await turn();
  expect(handled).toHaveLength(12);
  for (const { onceEnded } of handled) {
    onceEnded.forEach((act) => act());
  }
  await turn();
  expect(handled).toHaveLength(15);
});

it('a request whose client has left is not handled, and not in progress', async () => {
  const { all, handled } = queueOf(20);
  all.slice(0, 10).forEach(({ req }) => (req.socket.destroyed = true));
  await turn();
  await turn();
  expect(handled).toEqual(all.slice(10));
});
