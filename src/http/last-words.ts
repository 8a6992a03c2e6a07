import { STATUS_CODES } from 'node:http';
import type { Socket } from 'node:net';
import { type ApiError, ERRORS } from '../errors/api-error.js';
import type { Request } from './express-classes.js';

/** Input that is no request, or one that is not handled, and the error that responds to it. */
export interface Rejection {
  error: ApiError;
  socket: Socket;
  /** CONNECT, or a request that is malformed, or one too many. */
  request?: Request;
  /** `performance.now()` when it arrived. */
  receivedAt: number;
}

/** The whole response as text, for `socket.end`: nothing but Node's own responses takes part in their order. */
export function lastWords({ error, request }: Rejection, common: Record<string, string>): string {
  const { code, message } = error;
  const { status, headers }: { status: number; headers?: Record<string, string> } = ERRORS[code];
  const body = JSON.stringify({ code, message, status });
  const fields = {
    ...common,
    ...headers,
    'Content-Type': 'application/json; charset=utf-8',
    'Content-Length': Buffer.byteLength(body),
    Date: new Date().toUTCString(),
    Connection: 'close',
  };
  const lines = Object.entries(fields).map((field) => field.join(': '));
  const content = request?.method === 'HEAD' ? '' : body;
  return [`HTTP/1.1 ${status} ${STATUS_CODES[status]}`, ...lines, '', content].join('\r\n');
}
