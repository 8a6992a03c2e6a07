import { ServerResponse } from 'node:http';
import express from 'express';
import type { Request } from './request.js';

/** Header fields by name, in the spelling in which they are sent. */
export type Headers = Record<string, string | number>;

/** Its type has what Express adds; {@link Response} has it at run time. */
const ExpressResponse = ServerResponse as unknown as Pick<
  typeof ServerResponse,
  keyof typeof ServerResponse
> &
  (new (request: Request) => express.Response);

/** A response on its way to the adapter, which sends it. Express's members are on its prototypes: see {@link Request}. */
export class Response extends ExpressResponse {
  declare req: Request;
  /** What {@link addHeaders} was given. */
  addedHeaders?: Headers = undefined;
  /** Whether it was given to {@link HttpAdapter.reply}. */
  isReplied?: boolean = undefined;
  /** Whether its request was let into its handler. */
  isAdmitted?: boolean = undefined;
  /** Whether it is for the preflight of an allowed origin, which needs no route. */
  isPreflight?: boolean = undefined;
}

Object.setPrototypeOf(Response.prototype, express.response);

/**
 * Gives a response more headers. They are kept until the adapter sends the response, all in one: Node's own `setHeader`
 * checks and copies each of them, which costs as much as a good part of the rest.
 */
export function addHeaders(response: Response, headers: Readonly<Headers>): void {
  Object.assign((response.addedHeaders ??= {}), headers);
}

/** Says that a response depends on the request's header `field` too (RFC 9110, section 12.5.5). */
export function varyBy(response: Response, field: string): void {
  const others = response.addedHeaders?.['Vary'];
  addHeaders(response, { Vary: others === undefined ? field : `${others}, ${field}` });
}
