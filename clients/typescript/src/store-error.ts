/** A response that is no success, or none: then `cause` is what `fetch` threw. */
export class StoreError extends Error {
  /** What to branch on; `no_response`, or `unknown` if the response is not the service's own. */
  readonly code: string;
  /** 0 without a response. */
  readonly status: number;
  /** What to name when the error is reported. */
  readonly requestId: string | null;

  constructor(
    body: { code?: string; message?: string } | undefined,
    { response, cause }: { response?: Response; cause?: unknown },
  ) {
    super(body?.message ?? `${response?.status} ${response?.statusText}`, { cause });
    this.name = 'StoreError';
    this.code = body?.code ?? 'unknown';
    this.status = response?.status ?? 0;
    this.requestId = response?.headers.get('X-Request-Id') ?? null;
  }
}
