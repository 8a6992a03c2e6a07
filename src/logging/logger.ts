import type { LoggerService } from '@nestjs/common';
import { type DestinationStream, destination, type Logger, pino } from 'pino';

export type { Logger };

/** Injection token of the process's one logger. */
export const LOGGER = Symbol('Logger');

/** Log levels that `LOG_LEVEL` takes, least to most. */
export const LOG_LEVELS = ['silent', 'fatal', 'error', 'warn', 'info', 'debug', 'trace'] as const;

export type LogLevel = (typeof LOG_LEVELS)[number];

/**
 * A logger that writes one JSON object a line. Lines are gathered in a buffer of 15 KiB, which is written when
 * full, every second and at exit, so that a request does not wait for the log.
 *
 * @param stream where lines go; standard output unless a test listens.
 */
export function createLogger(
  level: LogLevel,
  stream: DestinationStream = bufferedStandardOutput(),
): Logger {
  return pino({ level, base: undefined, timestamp: isoTime }, stream);
}

let latest = { at: NaN, text: '' };

/** The time to the millisecond, written once for all lines of a millisecond. */
function isoTime(): string {
  const at = Date.now();
  if (at !== latest.at) {
    latest = { at, text: `,"time":"${new Date(at).toISOString()}"` };
  }
  return latest.text;
}

/** Bytes of lines that wait while standard output takes none; more are dropped. */
const MOST_WAITING = 16 * 1024 * 1024;

/** Milliseconds for which the last lines are tried to be written where standard output takes none. */
const LAST_TRIES = 2_000;

/**
 * Standard output behind a buffer of 15 KiB. All lines of a turn of the event loop go into it at once, and as bytes: of
 * text, it would copy all that it has gathered each time, to measure it.
 *
 * A reader that is gone, or slow, and a full disk cost lines and not the service, nor its end.
 */
export function bufferedStandardOutput(): DestinationStream {
  let lines = '';
  const handOver = () => {
    if (lines !== '') {
      writeBytes(Buffer.from(lines));
      lines = '';
    }
  };
  let endOfTries = Infinity;
  const end = () => {
    handOver();
    endOfTries = Math.min(endOfTries, performance.now() + LAST_TRIES);
  };
  // Comes before the destination's own listener, which writes what it was given.
  process.once('exit', end);
  const output = destination({
    dest: 1,
    sync: false,
    minLength: 15 * 1024,
    maxLength: MOST_WAITING,
    periodicFlush: 1000,
    contentMode: 'buffer',
    retryEAGAIN: () => performance.now() < endOfTries,
  });
  const flushSync = output.flushSync.bind(output);
  const tryFlushSync = () => {
    try {
      flushSync();
    } catch {
      // Standard output takes no more.
    }
  };
  output.flushSync = tryFlushSync;
  // Without a listener the process would die. The next write tries again, but that at exit would do so for ever.
  output.on('error', () => (output.flushSync = () => undefined));
  output.on('write', () => (output.flushSync = tryFlushSync));
  const writeBytes = output.write.bind(output) as unknown as (bytes: Buffer) => boolean;
  const stream = {
    write: (line: string) => {
      if (lines === '') {
        setImmediate(handOver);
      }
      lines += line;
    },
    flush: (done?: (error?: Error) => void) => {
      end();
      output.flush(done);
    },
  };
  return stream;
}

/** Nest's own messages, in the same log. Its start-up chatter is `debug`. */
export class NestLogger implements LoggerService {
  constructor(private readonly logger: Logger) {}

  log(message: unknown, context?: unknown): void {
    this.logger.debug({ context }, String(message));
  }

  error(message: unknown, ...details: unknown[]): void {
    const err = message instanceof Error ? message : undefined;
    this.logger.error({ err, details: details.filter(Boolean) }, String(message));
  }

  warn(message: unknown, context?: unknown): void {
    this.logger.warn({ context }, String(message));
  }

  fatal(message: unknown, ...details: unknown[]): void {
    this.logger.fatal({ details }, String(message));
  }
}
