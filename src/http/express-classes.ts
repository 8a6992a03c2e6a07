import { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { StreamableFile } from '@nestjs/common';
import express, { type Express } from 'express';
import { parse, stringify } from 'lossless-json';
import type { ApiError } from '../errors/api-error.js';
import type { HttpLimits } from './limits.js';

/*
 * Express sets the prototype of each request and response, which slows down all later accesses to them: on Node 20 it
 * takes three times the CPU. Node constructs these classes, which have Express's prototypes already.
 */

const ExpressRequest = IncomingMessage as unknown as new (socket: Socket) => express.Request;

const ExpressResponse = ServerResponse as unknown as new (request: Request) => express.Response;

export class Request extends ExpressRequest {
  /** The client's `X-Request-Id` if it is well-formed and contains no API key, otherwise a generated one. */
  id = '';
  /** Its client's, or the one that a trusted proxy names: `networkOf`. Empty if the proxy names none. */
  network = '';
  /** `performance.now()` when its headers had arrived, in milliseconds. */
  receivedAt = performance.now();
  /** Whose API key it has: `api_keys.id`, an int64 in decimal. The guard sets it. */
  override user?: { keyId: string } = undefined;
  /** The id of its API key if that is expired or revoked: for the log. */
  rejectedKey?: string = undefined;
  /** SHA-256 of its bearer token, if that looks like one. */
  keyHash?: string = undefined;
  /** Bytes of its method, target and header fields, without what surrounds them. */
  headBytes = 0;
  /** `performance.now()` when it had arrived, its body too. */
  arrivedAt?: number = undefined;
  /** Bytes and chunks of its body that have arrived. */
  bodyBytes = 0;
  chunks = 0;
  /** Why Node rejects its body. */
  bodyError?: ApiError = undefined;
  /** Called with {@link bodyError}, while the body is read. */
  onBodyError?: (error: ApiError) => void = undefined;
  declare readonly limits: HttpLimits;

  /** `performance.now()` until which it may wait for its turn, its key, its place, and the use of a session. */
  get deadline(): number {
    return (this.arrivedAt ?? performance.now()) + this.limits.deadline;
  }

  /** Joins what waits for a reader: Node makes an object of 450 bytes of each chunk, and that may have one byte. */
  override push(chunk: Buffer | null): boolean {
    if (chunk === null) {
      this.arrivedAt ??= performance.now();
    } else {
      this.bodyBytes += chunk.length;
      if (++this.chunks % 64 === 0 && this.readableFlowing === null) {
        this.unshift(this.read(this.readableLength) ?? '');
      }
    }
    return super.push(chunk) && !this.isFull;
  }

  /** Node aborts each request of a connection that closes, which takes 4 µs. Nobody knows one that is not handled yet. */
  override destroy(error?: Error): this {
    return this.id === '' ? this : super.destroy(error);
  }

  override _read(size: number): void {
    if (!this.isFull) {
      super._read(size);
    }
  }

  /** Whether no more is read, whoever reads it: a chunk takes 2 µs, whatever its size. */
  get isFull(): boolean {
    return this.chunks > Math.max(this.limits.bodyChunks, this.bodyBytes / 64);
  }
}

Object.setPrototypeOf(Request.prototype, express.request);

/** A response. Its acts are not listeners of events, which would take a tenth of a request's time. */
export class Response extends ExpressResponse {
  declare req: Request;
  /** Called with its `Content-Length` when its headers are complete, and it has a body. */
  declare readonly note: (bytes: number) => void;
  /** Called once when the handler ends or destroys it. If its client has left, a handler may do neither. */
  readonly onceEnded: (() => void)[] = [];
  /** Called once when the client has it, or has left. */
  readonly onceClosed: (() => void)[] = [];

  override end(...content: any[]): this {
    this.noteEnded();
    if (!this.req.complete || this.req.readableLength > 0) {
      // Node would read the rest without limit if nobody did, and keep what has come until the client has the response.
      this.req.resume();
    }
    return super.end(...content);
  }

  /** Node calls it too, before the first bytes of a body. */
  override writeHead(...head: any[]): this {
    if (this.req.method !== 'HEAD') {
      this.note(Number(this.getHeader('Content-Length') ?? 0));
    }
    return super.writeHead(...(head as [number]));
  }

  /** Nest's filter, or the pipeline of a stream, when the rest of it cannot be had or sent. */
  override destroy(error?: NodeJS.ErrnoException): this {
    // From Node 24 on, Node does so with those that wait for others, if the client leaves: their handlers still work.
    if (error?.code !== 'ECONNRESET' || !this.req.socket.destroyed) {
      this.noteEnded();
      // While it waits for others, Node from 24 on would forget it, and never send those behind it.
      this.once('socket', (socket: Socket) => socket.destroy(error));
    }
    return super.destroy(error);
  }

  private noteEnded(): void {
    this.onceEnded.splice(0).forEach((act) => act());
  }

  noteClosed(): void {
    this.onceClosed.splice(0).forEach((act) => act());
  }
}

Object.setPrototypeOf(Response.prototype, express.response);

/** Express's `json`, for bodies with bigints too: an int64 is written in digits. */
function json(this: express.Response, body: unknown): express.Response {
  const text = stringify(body);
  if (!this.hasHeader('Content-Type')) {
    this.type('json');
  }
  return this.send(text);
}

/** @returns the classes of which Node constructs the requests and responses of `app`. */
export function classesFor(
  app: Express,
  limits: HttpLimits,
  note: Response['note'],
): { IncomingMessage: typeof Request; ServerResponse: typeof Response } {
  class AppRequest extends Request {}
  class AppResponse extends Response {}
  app.request = Object.assign(AppRequest.prototype, { app, limits }) as unknown as express.Request;
  app.response = Object.assign(AppResponse.prototype, {
    app,
    json,
    note,
  }) as unknown as express.Response;
  return { IncomingMessage: AppRequest, ServerResponse: AppResponse };
}

/** A response body that is JSON text already, which the adapter sends. As StreamableFiles, no serializer changes it. */
export class JsonText {
  constructor(readonly text: string) {}

  /** For {@link json}, if an interceptor made the text a part of another body. Each number keeps its digits. */
  toJSON(): unknown {
    return parse(this.text);
  }
}

Object.setPrototypeOf(JsonText.prototype, StreamableFile.prototype);
