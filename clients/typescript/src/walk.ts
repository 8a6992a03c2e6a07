/**
 * Iterates over the results of `step`, one at a time. Unlike a generator it goes on after an error: `next()` then takes the
 * same step again, and so does another loop over it.
 */
export function walk<Item>(
  step: () => Promise<IteratorResult<Item, undefined>>,
): AsyncIterableIterator<Item> {
  let last: Promise<unknown> = Promise.resolve();
  return {
    next() {
      const taken = last.then(step, step);
      last = taken;
      return taken;
    },
    [Symbol.asyncIterator]() {
      return this;
    },
  };
}
