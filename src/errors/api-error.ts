import type { ErrorCode } from './errors.js';

/**
 * An error that is sent to the client. `message` is sent too: it says what went wrong, and never contains a stack
 * trace, SQL or a message of the database driver. `cause` is for the log.
 *
 * @param options.headers response headers, in addition to those of the code.
 * @param options.isExpected whether an operator need not see it in the log.
 */
export class ApiError extends Error {
  readonly headers: Readonly<Record<string, string>>;
  readonly isExpected: boolean;

  constructor(
    readonly code: ErrorCode,
    message: string,
    options: { cause?: unknown; headers?: Record<string, string>; isExpected?: boolean } = {},
  ) {
    super(message, { cause: options.cause });
    this.headers = options.headers ?? {};
    this.isExpected = options.isExpected ?? false;
  }
}
