import { randomUUID } from 'node:crypto';
import { KEY_PREFIX } from '../auth/api-key.js';

/** What an `X-Request-Id` looks like. */
export const WELL_FORMED_ID = /^[A-Za-z0-9._~:/+=@-]{1,128}$/;

/** @returns a request's `X-Request-Id` where it may be logged, which one that holds an API key may not; else a new one. */
export function requestId(header: string | string[] | undefined): string {
  const isTaken =
    typeof header === 'string' && WELL_FORMED_ID.test(header) && !header.includes(KEY_PREFIX);
  return isTaken ? header : randomUUID();
}
