import { type CanActivate, type ExecutionContext, Injectable } from '@nestjs/common';
import { Reflector } from '@nestjs/core';
import { parse } from 'lossless-json';
import { ApiError, overloaded } from '../errors/api-error.js';
import { ErrorFilter } from '../errors/error.filter.js';
import { numberFromJson } from '../int64.js';
import type { Request, Response } from './express-classes.js';
import { HttpLimits } from './limits.js';

/** What decides whose work is next. */
export abstract class Scheduler {
  /** Calls `work` in the request's turn among those of its key, or else of its network, unless its client has left. */
  abstract inTurn(response: Response, keyId: string | undefined, work: () => void): void;
}

/** The handler rejects `multipart/form-data` with 415. */
export const JsonOnly = Reflector.createDecorator<void, true>({ transform: () => true });

/** The bytes of a JSON body that the handler accepts, in place of {@link HttpLimits.bodyBytes}. */
export const BodyBytes = Reflector.createDecorator<number>();

/**
 * Reads a JSON body into `request.body`, except for GET and HEAD. It is a guard so that the key's guard runs first. It
 * leaves `multipart/form-data` to an interceptor of the handler, such as Nest's `FileInterceptor`, which sets its size.
 */
@Injectable()
export class BodyGuard implements CanActivate {
  constructor(
    private readonly limits: HttpLimits,
    private readonly errors: ErrorFilter,
    private readonly scheduler: Scheduler,
  ) {}

  /**
   * @throws ApiError `unsupported_media_type`, `payload_too_large`, `invalid_json`, `request_timeout`, `unavailable`, or
   *   `invalid_request` if the body is nested too deep, is not well-formed HTTP, or is incomplete.
   */
  canActivate(context: ExecutionContext): boolean | Promise<boolean> {
    if (context.getType() !== 'http') {
      return true;
    }
    const request = context.getArgByIndex<Request>(0);
    return request.method === 'GET' || request.method === 'HEAD' || this.read(request, context);
  }

  private async read(request: Request, context: ExecutionContext): Promise<boolean> {
    const { 'content-type': type, 'content-encoding': coding = '', expect } = request.headers;
    const { 'transfer-encoding': transfer = '', 'content-length': length = 0 } = request.headers;
    const hasBody = transfer !== '' || Number(length) > 0;
    const handler = context.getHandler();
    const most: number = Reflect.getMetadata(BodyBytes.KEY, handler) ?? this.limits.bodyBytes;
    const isForm =
      /^multipart\/form-data[ \t]*;/i.test(type ?? '') &&
      Reflect.getMetadata(JsonOnly.KEY, handler) === undefined;
    if (type === undefined ? hasBody : !isForm && !JSON_IN_UTF8.test(type)) {
      const message = 'The body must be JSON in UTF-8: send Content-Type: application/json.';
      throw new ApiError('unsupported_media_type', message);
    }
    if (request.bodyError !== undefined) {
      throw request.bodyError;
    }
    // Others that do not end in chunked are malformed, so Node's parser has rejected them (RFC 9112, section 6.3).
    const isCoded = transfer.includes(',') && /chunked$/i.test(transfer);
    if (isCoded || !/^(identity)?$/i.test(coding)) {
      throw new ApiError(
        'unsupported_media_type',
        'The body must be sent without a coding: omit Content-Encoding, and every Transfer-Encoding except chunked.',
        { headers: { 'Accept-Encoding': 'identity' } },
      );
    }
    if (Number(length) > most && !isForm) {
      throw tooLarge(most);
    }
    // A middleware of a module, such as Express's `json`, may have read it.
    if (hasBody && !request.readableEnded) {
      // RFC 9110, section 10.1.1. Node joins repeated headers.
      if (request.httpVersion === '1.1' && /(?:^|,) *100-continue *(?:,|$)/i.test(expect ?? '')) {
        request.res!.writeContinue();
      }
      if (isForm) {
        // A response that has ended stays as it is: to destroy it would take it from the client.
        request.onBodyError = (error) =>
          request.res!.writableEnded || this.errors.catch(error, context);
      } else {
        const body = await readBody(request, most);
        request.body =
          body.length > this.limits.bodyBytesAtOnce
            ? await this.parseInTurn(body, request)
            : parseJson(body, this.limits);
      }
    }
    return true;
  }

  private parseInTurn(body: Buffer, request: Request): Promise<unknown> {
    return new Promise((resolve, reject) => {
      const parse = () => {
        try {
          if (request.deadline < performance.now()) {
            throw overloaded('overdue');
          }
          resolve(parseJson(body, this.limits));
        } catch (error) {
          reject(error as Error);
        }
      };
      this.scheduler.inTurn(request.res as Response, request.user?.keyId, parse);
    });
  }
}

const TOKEN = "[!#$%&'*+.^_`|~0-9A-Za-z-]+";

/** `application/json`, once, where each `charset` among its parameters is UTF-8 (RFC 9110, sections 5.6.6 and 8.3.1). */
const JSON_IN_UTF8 = new RegExp(
  `^application/json[ \\t]*(?:;[ \\t]*(?:(?:charset=(?:utf-?8|"utf-?8")|` +
    `(?!charset=)${TOKEN}=(?:${TOKEN}|"(?:[^"\\\\]|\\\\.)*"))[ \\t]*)?)*$`,
  'i',
);

/** Rejects if the body has more bytes, is malformed or late, or if the connection ends before the body does. */
function readBody(request: Request, most: number): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let bytes = 0;
    const fail = (error: ApiError) => {
      request.off('data', take).resume();
      reject(error);
    };
    const take = (chunk: Buffer) => {
      bytes += chunk.length;
      chunks.push(chunk);
      if (bytes > most || request.isFull) {
        fail(tooLarge(most));
      }
    };
    request.onBodyError = fail;
    request
      .on('data', take)
      .once('end', () => resolve(chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks)))
      .once('error', (cause) =>
        fail(new ApiError('invalid_request', 'The body ended before its length.', { cause })),
      );
  });
}

const tooLarge = (bytes: number) =>
  new ApiError('payload_too_large', `The body is over ${bytes} bytes, or has too many chunks.`);

/** Skips a leading BOM (RFC 8259, section 8.1). */
const utf8 = new TextDecoder('utf-8', { fatal: true });

/** Numbers are as {@link numberFromJson} reads them. If a key is repeated, its last value counts, as with JSON.parse. */
export function parseJson(bytes: Uint8Array, { jsonDepth }: HttpLimits): unknown {
  let text: string;
  let value: unknown;
  try {
    text = utf8.decode(bytes);
    value = JSON.parse(text);
  } catch (cause) {
    throw new ApiError('invalid_json', 'The body is not JSON in UTF-8.', { cause });
  }
  if (isDeeper(value, jsonDepth)) {
    throw tooDeep(jsonDepth);
  }
  if (!MAY_BE_ROUNDED.test(text)) {
    return value;
  }
  const onDuplicateKey = ({ newValue }: { newValue: unknown }) => newValue;
  try {
    return parse(text, null, { parseNumber: numberFromJson, onDuplicateKey });
  } catch (cause) {
    // JSON.parse has accepted it. A value that a later one of its key replaces is too deep for the stack.
    throw tooDeep(jsonDepth, cause);
  }
}

const tooDeep = (levels: number, cause?: unknown) =>
  new ApiError('invalid_request', `The body is nested deeper than ${levels} levels.`, { cause });

/** In JSON without it, JSON.parse rounds no number. */
const MAY_BE_ROUNDED = /[0-9](?:[.eE]|[0-9]{15})/;

const isDeeper = (value: unknown, levels: number): boolean =>
  value instanceof Object &&
  (levels === 0 || Object.values(value).some((inner) => isDeeper(inner, levels - 1)));
