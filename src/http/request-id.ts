import { randomUUID } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import { KEY_PREFIX } from '../api-key.js';

export const WELL_FORMED_ID = /^[A-Za-z0-9._~:/+=@-]{1,128}$/;

/** Characters of an API key that follow its prefix: the secret and its checksum. */
const SECRET_LENGTH = 48;

/**
 * @returns the request's `X-Request-Id` if it may be logged, otherwise a new id. An id that contains an API key, or the
 *   secret of the key in `Authorization`, may not be logged.
 */
export function requestId({ 'x-request-id': id, authorization = '' }: IncomingHttpHeaders): string {
  const isTaken =
    typeof id === 'string' &&
    WELL_FORMED_ID.test(id) &&
    !id.toLowerCase().includes(KEY_PREFIX) &&
    !(authorization.length > SECRET_LENGTH && id.includes(authorization.slice(-SECRET_LENGTH)));
  return isTaken ? id : randomUUID();
}

/** The version is not `ff`, and no id is all zeros. */
const TRACEPARENT =
  /^(?!ff)([0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(-.*)?$/;

/**
 * The trace that a request belongs to, from its `traceparent` (W3C Trace Context, section 3.2.2).
 *
 * @returns 32 hexadecimal digits; `undefined` if the header is missing or malformed. Two headers, which the server
 *   joins with a comma, are malformed.
 */
export function traceIdOf(traceparent: unknown): string | undefined {
  if (typeof traceparent !== 'string') {
    return undefined;
  }
  const [, version, traceId, more] = TRACEPARENT.exec(traceparent) ?? [];
  // A later version may append fields.
  return version === '00' && more !== undefined ? undefined : traceId;
}
