import type { Socket } from 'node:net';
import { Connection } from '../../src/http/connection.js';
import { HeldBytes } from '../../src/http/held-bytes.js';
import { HttpLimits } from '../../src/http/limits.js';

/** A connection with a response that waits for the one before it, so that its client has received nothing. */
function waitingConnection(limits: HttpLimits) {
  const resetAndDestroy = jest.fn();
  const socket = { bytesRead: 0, bytesWritten: 0, writableLength: 0, resetAndDestroy };
  const connection = new Connection(socket as unknown as Socket, 'its network', limits);
  connection.open.push({ writableLength: 10, req: { headBytes: 0 } } as never);
  return { connection, resetAndDestroy };
}

it('a client that has received nothing yet has its time, however long the service has run', async () => {
  const limits = Object.assign(new HttpLimits(), { socketTimeout: performance.now() / 2 });
  const { connection, resetAndDestroy } = waitingConnection(limits);
  const held = new HeldBytes(limits, () => [connection]);
  await held.check();
  expect(resetAndDestroy).not.toHaveBeenCalled();
  limits.socketTimeout = 0;
  await held.check();
  expect(resetAndDestroy).toHaveBeenCalledTimes(1);
});
