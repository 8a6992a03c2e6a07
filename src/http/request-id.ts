import { randomUUID } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import { KEY_PREFIX } from '../api-key.js';

/** The form of a valid `X-Request-Id`. */
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
