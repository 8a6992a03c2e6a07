import type { ErrorCode } from './errors.js';

/**
 * An error that is sent to the client. `message` is sent too: it says what went wrong, and never contains a stack
 * trace, SQL or a message of the database driver. `cause` is for the log.
 *
 * @param options.headers response headers that belong to this error, such as `WWW-Authenticate`.
 */
export class ApiError extends Error {
  readonly headers: Readonly<Record<string, string>>;

  constructor(
    readonly code: ErrorCode,
    message: string,
    options: { cause?: unknown; headers?: Record<string, string> } = {},
  ) {
    super(message, { cause: options.cause });
    this.headers = options.headers ?? {};
  }
}
