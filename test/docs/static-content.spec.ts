import { EventEmitter } from 'node:events';
import { PassThrough } from 'node:stream';
import { setImmediate as turn } from 'node:timers/promises';
import type { Response } from 'express';
import { StaticContent } from '../../src/docs/static-content.js';

it('a large content leaves in steps, and others have their turns between them, though the system takes all at once', async () => {
  const content = new StaticContent(Buffer.alloc(640 * 1024), '.js');
  const response = Object.assign(new PassThrough({ highWaterMark: 2 ** 30 }), {
    req: Object.assign(new EventEmitter(), {
      method: 'GET',
      query: {},
      acceptsEncodings: () => 'identity',
    }),
    set: () => response,
    vary: () => response,
  }) as PassThrough;
  await content.sendTo(response as unknown as Response);
  const lengths = new Set<number>();
  while (!response.writableEnded) {
    lengths.add(response.readableLength);
    await turn();
  }
  expect(response.readableLength).toBe(640 * 1024);
  expect(lengths.size).toBeGreaterThan(9);
});
