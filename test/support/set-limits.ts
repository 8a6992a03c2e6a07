import { HTTP_LIMITS } from '../../src/http/limits.js';

/** Sets limits of HTTP for a test. @returns what sets them back. */
export function setLimits(values: Partial<Record<keyof typeof HTTP_LIMITS, number>>): () => void {
  const before = { ...HTTP_LIMITS };
  Object.assign(HTTP_LIMITS, values);
  return () => void Object.assign(HTTP_LIMITS, before);
}
