import { setTimeout as wait } from 'node:timers/promises';
import { inspect } from 'node:util';
import { evidence } from './evidence.js';

/**
 * Reads again and again until `holds` is true of what was read, by default that it is truthy. @returns what was read; fails
 * after `seconds` with what was read last.
 */
export function until<Value>(
  description: string,
  read: () => Value | Promise<Value>,
  { holds = Boolean, seconds = 120 }: { holds?: (value: Value) => boolean; seconds?: number } = {},
): Promise<Value> {
  const start = Date.now();
  const deadline = start + seconds * 1000;
  let value: Value;
  return evidence.awaiting(`until ${description}`, async () => {
    while (!holds((value = await read()))) {
      if (Date.now() > deadline) {
        const last = inspect(value, { depth: 4, breakLength: 120 });
        throw new Error(`waited ${seconds} s in vain until ${description}; last: ${last}`);
      }
      // What takes long needs the CPU that reading takes.
      await wait(Math.min(10 + (Date.now() - start) / 20, 200));
    }
    return value;
  });
}
