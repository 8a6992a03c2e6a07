import { STATUS_CODES } from 'node:http';
import type { Socket } from 'node:net';
import { type ApiError, ERRORS } from '../errors/api-error.js';
import type { Request } from './express-classes.js';

/** Input that is not a request, and the error that responds to it. */
export interface Rejection {
  error: ApiError;
  socket: Socket;
  /** CONNECT, which Node does not handle as a request. */
  request?: Request;
  /** `performance.now()` when it arrived. */
  receivedAt: number;
}

/** The whole response as text, for `socket.end`: nothing but Node's own responses takes part in their order. */
export function lastWords({ error }: Rejection, headers: Record<string, string>): string {
  const { code, message } = error;
  const { status } = ERRORS[code];
  const body = JSON.stringify({ code, message, status });
  const fields = {
    ...headers,
    'Content-Type': 'application/json; charset=utf-8',
    'Content-Length': Buffer.byteLength(body),
    Date: new Date().toUTCString(),
    Connection: 'close',
  };
  const lines = Object.entries(fields).map((field) => field.join(': '));
  return [`HTTP/1.1 ${status} ${STATUS_CODES[status]}`, ...lines, '', body].join('\r\n');
}
