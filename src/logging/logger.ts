import type { LoggerService } from '@nestjs/common';
import { type DestinationStream, type Logger, pino } from 'pino';
import sonicBoom from 'sonic-boom';

export type { Logger };

/** Injection token of the process's one logger. */
export const LOGGER = Symbol('Logger');

/** The values of `LOG_LEVEL`. Each one logs more than the one before. */
export const LOG_LEVELS = ['silent', 'fatal', 'error', 'warn', 'info', 'debug', 'trace'] as const;

export type LogLevel = (typeof LOG_LEVELS)[number];

/**
 * A logger that writes one JSON object a line. Lines are gathered in a buffer of 15 KiB, which is written when full,
 * every second and at exit, so that a request does not wait for the log.
 *
 * @param stream where lines go; standard output unless a test listens.
 */
export function createLogger(
  level: LogLevel,
  stream: DestinationStream = bufferedStandardOutput(),
): Logger {
  const formatters = { level: (name: string) => ({ level: name }) };
  const timestamp = pino.stdTimeFunctions.isoTime;
  return pino({ level, base: undefined, timestamp, formatters }, stream);
}

/** Nest's own messages, and those of modules that use its Logger, in the same log. Nest's `log` becomes `debug`. */
export function nestLogger(logger: Logger): LoggerService {
  const at =
    (level: Exclude<LogLevel, 'silent'>) =>
    (message: unknown, ...details: unknown[]) => {
      const context = details.pop();
      const err = message instanceof Error ? message : undefined;
      logger[level](
        { context, err, details: details.length > 0 ? details : undefined },
        String(message),
      );
    };
  const [fatal, error, warn] = [at('fatal'), at('error'), at('warn')];
  return { fatal, error, warn, log: at('debug'), debug: at('debug'), verbose: at('trace') };
}

/**
 * Standard output. On a terminal outside production, pino-pretty formats the lines, if it is installed. It is a
 * development dependency. Otherwise the lines are JSON.
 */
export async function standardOutput(isProduction: boolean): Promise<DestinationStream> {
  const pretty =
    !isProduction && process.stdout.isTTY
      ? await import('pino-pretty').catch(() => undefined)
      : undefined;
  if (pretty === undefined) {
    return bufferedStandardOutput();
  }
  const colorize = process.stdout.hasColors();
  const prettify = pretty.prettyFactory({ colorize, singleLine: true });
  // Writes to a terminal are synchronous, so no line is lost if the process ends abruptly.
  return { write: (line) => process.stdout.write(prettify(line)) };
}

/** Milliseconds for which the process tries to write the last lines if standard output does not accept them. */
const LAST_TRIES = 2_000;

/**
 * Standard output behind a buffer of 15 KiB. All lines of one turn of the event loop are added to it together, as bytes:
 * SonicBoom would measure all text in the buffer for each line, which copies it.
 *
 * If the reader is gone or slow, or the disk is full, lines are lost, but the service keeps running and stops as usual.
 * `pino.destination` would block the exit in these cases.
 */
export function bufferedStandardOutput(): DestinationStream {
  let endOfTries = Infinity;
  let isBroken = false;
  const output = new sonicBoom.SonicBoom({
    fd: 1,
    sync: false,
    minLength: 15 * 1024,
    // What waits while standard output accepts nothing. Further lines are dropped.
    maxLength: 12 * 1024 * 1024,
    periodicFlush: 1000,
    contentMode: 'buffer',
    retryEAGAIN: () => performance.now() < endOfTries,
  });
  // After an error other than EAGAIN, `flushSync` would try forever.
  output.on('error', () => (isBroken = true)).on('write', () => (isBroken = false));

  let lines = '';
  const handOver = () => {
    if (lines !== '') {
      // The types lack the content mode.
      output.write(Buffer.from(lines) as unknown as string);
      lines = '';
    }
  };
  const end = () => {
    handOver();
    endOfTries = Math.min(endOfTries, performance.now() + LAST_TRIES);
  };
  process.once('exit', () => {
    end();
    try {
      if (!isBroken) {
        output.flushSync();
      }
    } catch {
      // Standard output accepts no more.
    }
  });
  return {
    write: (line) => {
      if (lines === '') {
        setImmediate(handOver);
      }
      lines += line;
    },
    flush: (done?: (error?: Error) => void) => {
      end();
      output.flush(done);
    },
  } as DestinationStream;
}
