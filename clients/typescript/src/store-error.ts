import type { components } from './schema.js';

type ErrorBody = components['schemas']['Error'];

/** A response that is no success. */
export class StoreError extends Error {
  /** What to branch on; `unknown` if the response is not the service's own. */
  readonly code: string;
  readonly status: number;
  /** What to name when the error is reported. */
  readonly requestId: string | null;

  constructor(body: Partial<ErrorBody> | undefined, { status, statusText, headers }: Response) {
    super(body?.message ?? `${status} ${statusText}`);
    this.name = 'StoreError';
    this.code = body?.code ?? 'unknown';
    this.status = status;
    this.requestId = headers.get('X-Request-Id');
  }
}
