import { setTimeout as wait } from 'node:timers/promises';

/** Asks `condition` again and again until it holds. @returns what it then is; fails after `seconds`. */
export async function until<Value>(
  description: string,
  condition: () => Value | Promise<Value>,
  seconds = 25,
): Promise<Value> {
  const deadline = Date.now() + seconds * 1000;
  let value: Value;
  while (!(value = await condition())) {
    if (Date.now() > deadline) {
      throw new Error(`waited ${seconds} s in vain until ${description}`);
    }
    await wait(10);
  }
  return value;
}
