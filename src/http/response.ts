import { ServerResponse } from 'node:http';
import express from 'express';
import type { ErrorCode } from '../errors/errors.js';
import type { Request } from './request.js';

/** Header fields by name, spelled as they are sent. */
export type Headers = Record<string, string | number>;

/** Its type has the members that Express adds. {@link Response} has them at run time. */
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
