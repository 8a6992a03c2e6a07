import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

/** @returns the bytes of the heap that are in use, once all that can be collected is. */
export function heapInUse(): number {
  setFlagsFromString('--expose-gc');
  runInNewContext('gc')();
  return process.memoryUsage().heapUsed;
}
