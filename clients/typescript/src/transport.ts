import { abortable, sleep } from './abortable.js';
import { createGate, type Visitor } from './gate.js';
import { errorOf, noResponse, rootOf, StoreError } from './store-error.js';

/** Worth another attempt. 409 is `idempotency_key_in_use`; 502 and 504 come from proxies. */
const RETRIED: readonly number[] = [408, 409, 429, 502, 503, 504];

/** Milliseconds after which an attempt without a response is given up. */
const ATTEMPT_TIMEOUT = 20_000;

/** Milliseconds of the first and of the longest backoff. */
const BACKOFF = { first: 500, longest: 5_000 };

/** Milliseconds for which a server that only sends 429 is waited for: the service's limit resets within a minute. */
const PATIENCE = 180_000;

/** What `fetch` throws if the network fails. Whatever else it throws is a mistake in a program. */
const FAILURE = /^(Type|Timeout|Network|Abort)Error$/;

/** Codes of OpenSSL and Node: the server is another one, or not trusted. No later attempt changes that. */
const NOT_TRUSTED = /CERT|SIGNATURE|UNABLE_TO|HOSTNAME|WRONG_VERSION|PACKET_LENGTH|EPROTO/;

/** A request that is about to be sent again. */
export interface Retry {
  /** Method and path: `POST /pets`. */
  operation: string;
  /** How many attempts there were: 1 before the first retry. */
  attempt: number;
  /** Milliseconds until the next attempt. After a 429, it may be later: others come first. */
  wait: number;
  error: StoreError;
}

export interface TransportOptions {
  /** Called before each attempt, or once for a call with an Idempotency-Key. */
  apiKey: () => string | Promise<string>;
  /** Milliseconds. */
  retryFor: number;
  onRetry: ((retry: Retry) => void) | undefined;
  onResponse: (response: Response, call: Call) => void;
  fetch: typeof globalThis.fetch;
}

/** What is sent, and what the OpenAPI document promises. */
export interface Call extends Omit<Visitor, 'order'> {
  operation: string;
  /** The status of success. */
  promised: number;
}

/**
 * Sends the requests of a client: attempts, the gate that all share, and cancellation.
 *
 * @throws RangeError if `retryFor` is negative or not a number.
 */
export function createTransport(options: TransportOptions) {
  const { apiKey, retryFor, onRetry, onResponse, fetch } = options;
  if (typeof retryFor !== 'number' || !(retryFor >= 0)) {
    throw new RangeError('retryFor must be milliseconds, 0 or more.');
  }
  const patience = retryFor === 0 ? 0 : PATIENCE;
  const gate = createGate(patience, ATTEMPT_TIMEOUT);
  let calls = 0;

  /**
   * Sends a request again until `retryFor` milliseconds have passed, and a last time then, for which it takes a tenth of
   * that time more at most. Between attempts it waits for as long as `Retry-After` says, at least for an exponential
   * backoff, and for a jitter of up to another backoff. Waits at the gate count as if the clock stood still. The request
   * must be safe to repeat.
   *
   * @returns the promised response, with its whole body.
   * @throws StoreError with the last other response, or if there was none; the signal's reason, at once.
   */
  async function send(request: Request, call: Call): Promise<Response> {
    const { signal, operation } = call;
    const visitor = { ...call, order: (calls += 1) };
    let end = performance.now() + retryFor;
    let first: ReturnType<typeof apiKey> | undefined;
    // The service knows an Idempotency-Key of its API key: with another one, a second pet would be created.
    const keyOf = call.idempotencyKey === undefined ? apiKey : () => (first ??= apiKey());
    for (let attempt = 1, backoff = BACKOFF.first; ; attempt += 1) {
      const cameAt = performance.now();
      await gate.enter(visitor);
      end += performance.now() - cameAt;
      const rest = end - performance.now();
      const isLast = rest <= 0;
      const limit = Math.min(isLast ? retryFor / 10 || ATTEMPT_TIMEOUT : rest, ATTEMPT_TIMEOUT);
      try {
        return await attemptWithin(limit, request, call, keyOf);
      } catch (error) {
        // Its reason may be the error of another call.
        signal?.throwIfAborted();
        if (!(error instanceof StoreError) || !isWorthRetrying(error)) {
          throw error;
        }
        const now = performance.now();
        const retryAfter = 1000 * (error.retryAfter ?? 0);
        let wait = Math.max(retryAfter, backoff) + Math.random() * backoff;
        backoff = Math.min(2 * backoff, BACKOFF.longest);
        const isLimit = error.status === 429;
        let isOver = isLast || (retryAfter > 0 && now + retryAfter > end);
        if (isLimit) {
          isOver = gate.close(error, wait);
        } else {
          wait = Math.min(wait, Math.max(0, end - now));
        }
        if (isOver) {
          throw error;
        }
        onRetry?.({ operation, attempt, wait, error });
        if (!isLimit) {
          await sleep(wait, signal);
        }
      }
    }
  }

  /** @param limit milliseconds. */
  const attemptWithin = (limit: number, request: Request, call: Call, keyOf: typeof apiKey) =>
    abortable<Response>(call.signal, (resolve, reject) => {
      const controller = new AbortController();
      const late = () => {
        const reason = new DOMException('none in time', 'TimeoutError');
        controller.abort(reason);
        // The function of the key may not end, nor a `fetch` that ignores the signal.
        reject(noResponse(reason, call));
      };
      const timer = setTimeout(late, Math.ceil(limit));
      const exchange = exchangeOnce(request, call, keyOf, controller.signal);
      const over = () => clearTimeout(timer);
      exchange.then(resolve, reject).finally(over);
      return () => {
        over();
        controller.abort();
      };
    });

  /** @throws StoreError if the response is not the promised one, or there is none. */
  async function exchangeOnce(
    request: Request,
    call: Call,
    keyOf: typeof apiKey,
    signal: AbortSignal,
  ) {
    const sent = request.clone();
    const key = await keyOf();
    signal.throwIfAborted();
    // Fetch would put it in the message of its error.
    if (!/^[!-~]+$/.test(key)) {
      throw new TypeError('The API key is not visible ASCII.');
    }
    sent.headers.set('Authorization', `Bearer ${key}`);
    let response: Response;
    let text: string;
    try {
      response = await fetch(sent, { signal });
      // The body is read here because the connection may break in it, too.
      text = await response.text();
    } catch (cause) {
      const { name, code } = Object(cause) as { name: string; code?: unknown };
      const isFailure = typeof code === 'string' || FAILURE.test(name);
      throw isFailure ? noResponse(cause, call) : cause;
    }
    onResponse(response, call);
    const { status } = response;
    if (status !== 429) {
      gate.note(response);
    }
    if (status !== call.promised || response.redirected) {
      throw errorOf(response, text, call);
    }
    // Not its status text, which may have characters that a Response may not.
    return new Response(text, { status, headers: response.headers });
  }

  return send;
}

const isWorthRetrying = ({ status, code, cause }: StoreError) =>
  code === 'no_response' ? !NOT_TRUSTED.test(`${rootOf(cause).code}`) : RETRIED.includes(status);
