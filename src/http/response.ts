import { ServerResponse } from 'node:http';
import express from 'express';
import type { ErrorCode } from '../errors/errors.js';
import type { Connection } from './connection.js';
import { JSON_MEDIA_TYPE, Representation } from './representation.js';
import type { Request } from './request.js';

/** Header fields by name, spelled as they are sent. */
export type Headers = Record<string, string | number>;

/** Node's class, with the type of Express's. At run time, {@link Response} has Express's members. */
const ExpressResponse = ServerResponse as unknown as Pick<
  typeof ServerResponse,
  keyof typeof ServerResponse
> &
  (new (request: Request) => express.Response);

/** A response, which the adapter sends. Express's members are on its prototypes: see {@link Request}. */
export class Response extends ExpressResponse {
  declare req: Request;
  /** The headers of {@link addHeaders}. */
  addedHeaders?: Headers = undefined;
  /** Whether {@link HttpAdapter.reply} was called for it. */
  isReplied?: boolean = undefined;
  /** The code of its error, if it is an error. */
  errorCode?: ErrorCode = undefined;
  /** Whether its request has entered its handler. */
  isAdmitted?: boolean = undefined;
  /** Whether it is for the preflight of an allowed origin, which needs no route. */
  isPreflight?: boolean = undefined;
}

Object.setPrototypeOf(Response.prototype, express.response);

/**
 * Adds headers to a response. The adapter passes all of them to one `writeHead` call. Node's `setHeader` would check
 * and copy each of them, which costs a large part of the time of a request.
 */
export function addHeaders(response: Response, headers: Readonly<Headers>): void {
  Object.assign((response.addedHeaders ??= {}), headers);
}

/** Says that a response depends on the request's header `field` too (RFC 9110, section 12.5.5). */
export function varyBy(response: Response, field: string): void {
  const others = response.addedHeaders?.['Vary'];
  addHeaders(response, { Vary: others === undefined ? field : `${others}, ${field}` });
}

/**
 * Writes the head of a response.
 *
 * @param body as in `HttpAdapter.reply`.
 * @returns the body to send.
 */
export function writeHead(
  response: Response,
  body: unknown,
  status: number,
): string | Uint8Array | undefined {
  const isMade = body instanceof Representation;
  const data = isMade ? body.data : JSON.stringify(body);
  const headers: Headers = {
    'X-Request-Id': response.req.id,
    'X-Content-Type-Options': 'nosniff',
    'Cache-Control': 'no-store',
  };
  if (data !== undefined) {
    headers['Content-Type'] = isMade ? body.mediaType : JSON_MEDIA_TYPE;
    headers['Content-Length'] = Buffer.byteLength(data);
  }
  response.writeHead(status, Object.assign(headers, response.addedHeaders));
  return data;
}

/**
 * Sends the body of a response whose head is written, and ends it. If the body is a string, head and body go to the
 * socket as one string. `end(data)` would write an empty buffer too, and Node would use the slower `writev`.
 */
export function sendBody(
  response: Response,
  data: string | Uint8Array | undefined,
  connection: Connection | undefined,
): void {
  if (data !== undefined) {
    response.cork();
    // ASCII has the same bytes in both encodings, and Node writes latin1 faster.
    const isAscii = Buffer.byteLength(data) === data.length;
    response.write(data, isAscii ? 'latin1' : 'utf8');
    response.uncork();
  }
  if (response.shouldKeepAlive || response.req.complete || connection === undefined) {
    response.end();
  } else {
    // Node would close the connection at once, and so reset it while the rest of the request arrives.
    response.flushHeaders();
    connection.endAfterRest(response.req);
  }
}
