/**
 * A promise of what takes time: it rejects with the signal's reason as soon as there is one.
 *
 * @param start begins the work, and returns what ends it early.
 */
export async function abortable<Result>(
  signal: AbortSignal | undefined,
  start: (
    resolve: (result: Result | PromiseLike<Result>) => void,
    reject: (error: unknown) => void,
  ) => () => void,
): Promise<Result> {
  signal?.throwIfAborted();
  let abort = () => {};
  try {
    return await new Promise<Result>((resolve, reject) => {
      const stop = start(resolve, reject);
      abort = () => {
        // oxlint-disable-next-line typescript/prefer-promise-reject-errors -- a reason may be anything
        reject(signal!.reason);
        stop();
      };
      signal?.addEventListener('abort', abort);
    });
  } finally {
    signal?.removeEventListener('abort', abort);
  }
}

/** Waits for milliseconds. */
export const sleep = (ms: number, signal?: AbortSignal) =>
  abortable<void>(signal, (resolve) => {
    // Beyond this, a timer would end at once.
    const timer = setTimeout(resolve, Math.min(ms, 2 ** 31 - 1));
    return () => clearTimeout(timer);
  });
