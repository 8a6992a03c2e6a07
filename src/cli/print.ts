import fs from 'node:fs';
import { OperatorError } from '../errors/operator-error.js';

/**
 * Writes a result to standard output, all of it, with a line end. Unlike console.log, it does not ignore errors.
 *
 * @throws OperatorError if the reader is gone or the disk is full.
 */
export function print(result: string): void {
  let rest = Buffer.from(`${result}\n`);
  while (rest.length > 0) {
    try {
      rest = rest.subarray(fs.writeSync(1, rest));
    } catch (error) {
      const { code, message } = error as NodeJS.ErrnoException;
      // Node makes a pipe that is standard error too non-blocking.
      if (code !== 'EAGAIN') {
        throw new OperatorError(`Standard output could not be written: ${message}`);
      }
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 10);
    }
  }
}
