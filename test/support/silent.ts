import { createLogger } from '../../src/logging/logger.js';

/** A logger that writes nothing. With its default stream, it would keep a timer. */
export const SILENT = createLogger('silent', { write: () => {} });
