import type { components } from './schema.js';

type Schemas = components['schemas'];
type ErrorName = Exclude<Extract<keyof Schemas, `${string}Error`>, 'Error'>;

/**
 * What to branch on: the codes of the OpenAPI document; `no_response`; or `unknown` if the response is not one that the
 * document promises, such as a proxy's. A later version of the service may send codes that are not listed here.
 */
export type StoreErrorCode =
  | Schemas[ErrorName]['code']
  // Of paths and methods that the document does not have.
  | 'route_not_found'
  | 'method_not_allowed'
  | 'no_response'
  | 'unknown';

/** What was sent. */
export interface Sent {
  idempotencyKey?: string | undefined;
  requestId?: string | null | undefined;
}

interface Details extends Sent {
  code: StoreErrorCode;
  message: string;
  response?: Response | null;
  /** Seconds; by default what the response says. */
  retryAfter?: number | null;
  cause?: unknown;
}

/** A response other than the promised one, or none: then `cause` is what `fetch` threw. */
export class StoreError extends Error {
  readonly code: StoreErrorCode;
  /** 0 without a response, and for a redirect in a browser, which hides its status. */
  readonly status: number;
  /** What to name when the error is reported: the response's, or else the one that was sent. */
  readonly requestId: string | null;
  /** Seconds until another attempt makes sense, if the response says so. */
  readonly retryAfter: number | null;
  /** Of createPet. Call it again with this key to create the pet once, whether or not this attempt created it. */
  readonly idempotencyKey: string | null;
  /** With its headers; its body has been read. */
  readonly response: Response | null;

  constructor({ code, message, response = null, cause, ...details }: Details) {
    super(message, { cause });
    this.name = 'StoreError';
    this.code = code;
    this.status = response?.status ?? 0;
    this.requestId = response?.headers.get('X-Request-Id') ?? details.requestId ?? null;
    this.retryAfter = details.retryAfter ?? secondsOf(response?.headers.get('Retry-After'));
    this.idempotencyKey = details.idempotencyKey ?? null;
    this.response = response;
  }
}

/** @param retryAfter seconds or a date (RFC 9110, section 10.2.3). */
function secondsOf(retryAfter: string | null | undefined): number | null {
  const seconds = Number(retryAfter ?? NaN);
  const rest = Number.isNaN(seconds) ? (Date.parse(retryAfter ?? '') - Date.now()) / 1000 : seconds;
  return Number.isNaN(rest) ? null : Math.max(0, rest);
}

/** The error of a response that is not the promised one. */
export function errorOf(response: Response, text: string, sent: Sent): StoreError {
  const { status, statusText, type } = response;
  let code: StoreErrorCode = 'unknown';
  let message = `Not a response of the service: ${status || type} ${statusText}`.trim();
  try {
    const body = JSON.parse(text) as Schemas['Error'];
    if (status >= 400 && body.status === status && typeof body.code === 'string') {
      code = body.code as StoreErrorCode;
      message = body.message;
    }
  } catch {
    // Not JSON, or `null`.
  }
  return new StoreError({ ...sent, code, message, response });
}

/** The innermost cause: Fetch itself says "fetch failed". */
export function rootOf(error: unknown): {
  name?: string;
  message?: string;
  code?: string | number;
} {
  const { cause, errors } = Object(error);
  // Several addresses of a host were tried.
  const inner = cause ?? errors?.[0];
  return inner === undefined ? Object(error) : rootOf(inner);
}

/** The error of an attempt without a response. */
export function noResponse(cause: unknown, sent: Sent): StoreError {
  const { name, message, code } = rootOf(cause);
  const what = `No response: ${typeof code === 'string' ? code : name} ${message}`;
  return new StoreError({ ...sent, code: 'no_response', message: what, cause });
}
