import { setTimeout as wait } from 'node:timers/promises';

/** Asks `condition` again and again until it holds; fails after `seconds`. */
export async function until(
  description: string,
  condition: () => boolean | Promise<boolean>,
  seconds = 25,
): Promise<void> {
  const deadline = Date.now() + seconds * 1000;
  while (!(await condition())) {
    if (Date.now() > deadline) {
      throw new Error(`waited ${seconds} s in vain until ${description}`);
    }
    await wait(10);
  }
}
