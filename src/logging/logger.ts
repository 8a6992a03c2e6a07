import type { LoggerService } from '@nestjs/common';
import { type DestinationStream, type Logger, pino } from 'pino';
import sonicBoom from 'sonic-boom';

export type { Logger };

export const LOGGER = Symbol('Logger');

/** The values of `LOG_LEVEL`. Each one logs more than the one before. */
export const LOG_LEVELS = ['silent', 'fatal', 'error', 'warn', 'info', 'debug', 'trace'] as const;

export type LogLevel = (typeof LOG_LEVELS)[number];

let standardOutput: ReturnType<typeof bufferedStandardOutput> | undefined;

/** All loggers of a process share one buffer, so that the last act of one writes the lines of all. */
export function createLogger(
  level: LogLevel,
  stream: DestinationStream = (standardOutput ??= bufferedStandardOutput()),
): Logger {
  const formatters = { level: (name: string) => ({ level: name }) };
  const timestamp = pino.stdTimeFunctions.isoTime;
  const serializers = { err: loggable, details: loggable };
  return pino({ level, base: undefined, timestamp, formatters, serializers }, stream);
}

/** Writes what waits, if this process has a log: the last act of a process. */
export async function flushStandardOutput(): Promise<void> {
  await new Promise<unknown>((resolve) =>
    standardOutput === undefined ? resolve(undefined) : standardOutput.flush(resolve),
  );
}

/** How many values the log has of an error or another object at most, and how deep. */
const [VALUES, LEVELS] = [1_000, 8];

/** What the log has of an error, or of an object that a module logs, with the errors in it. */
function loggable(whole: unknown): unknown {
  let values = 0;
  const part = (value: unknown, level: number): unknown => {
    if (typeof value !== 'object' || value === null) {
      return value;
    }
    if (level === LEVELS) {
      return '…';
    }
    const fields: object = 'stack' in value ? fieldsOf(value as Error) : value;
    if ('toJSON' in fields && typeof fields.toJSON === 'function') {
      return part(fields.toJSON(), level + 1);
    }
    const copy: any = Array.isArray(fields) ? [] : {};
    for (const [name, one] of Object.entries(fields)) {
      if (++values > VALUES) {
        break;
      }
      copy[name] = part(one, level + 1);
    }
    return copy;
  };
  return part(whole, 0);
}

/** What PostgreSQL's errors have values of bodies in, TypeORM's the values of a statement, or both and Nest's the cause again. */
const LEFT_OUT = ['detail', 'where', 'internalQuery', 'parameters', 'driverError', 'options'];

function fieldsOf(error: Error & { errors?: unknown }): object {
  const { message, stack, cause, errors } = error;
  const own = { type: error.constructor?.name, message, stack, cause, errors };
  return Object.assign(own, error, Object.fromEntries(LEFT_OUT.map((name) => [name, undefined])));
}

/** Nest's own messages, and those of modules that use its Logger, in the same log. Nest's `log` becomes `debug`. */
export function nestLogger(logger: Logger): LoggerService {
  const at =
    (level: Exclude<LogLevel, 'silent'>) =>
    (message: unknown, ...rest: unknown[]) => {
      const context = typeof rest.at(-1) === 'string' ? rest.pop() : undefined;
      const err = message instanceof Error ? message : undefined;
      const isObject = err === undefined && typeof message === 'object';
      const given = [isObject ? message : undefined, ...rest].filter((one) => one !== undefined);
      const details = given.length > 0 ? given : undefined;
      logger[level]({ context, err, details }, isObject ? 'See details' : String(message));
    };
  const [fatal, error, warn] = [at('fatal'), at('error'), at('warn')];
  return { fatal, error, warn, log: at('debug'), debug: at('debug'), verbose: at('trace') };
}

/** Since the start: lines that were lost, and attempts to write that failed. Now: bytes that are not written yet. */
export const logLosses = { lines: 0, errors: 0, waiting: 0 };

/** Milliseconds for which the process tries to write the last lines if standard output does not accept them. */
const LAST_TRIES = 2_000;

/** Milliseconds for the last lines, after which the process is killed: a write that nobody reads holds even its exit. */
const LAST_LINES = 3_000;

/**
 * Standard output behind a buffer, which is written when it has 15 KiB, every second and at exit, so that no request waits
 * for the log. If the reader is gone or slow, or the disk is full, lines are lost, but the service keeps running and
 * stops as usual. `pino.destination` would block the exit in these cases. As soon as there is room, a line says how many.
 */
export function bufferedStandardOutput() {
  let endOfTries = Infinity;
  let isBroken = false;
  let reported = 0;
  const output = new sonicBoom.SonicBoom({
    fd: 1,
    sync: false,
    contentMode: 'buffer',
    minLength: 15 * 1024,
    // What waits while standard output accepts nothing. Further lines are dropped.
    maxLength: 12 * 1024 * 1024,
    periodicFlush: 1000,
    retryEAGAIN: () => performance.now() < endOfTries,
  });
  // As text, SonicBoom would copy what it holds for each line. Its types do not know buffers.
  const write = (line: string) => {
    const bytes = Buffer.from(line);
    logLosses.waiting += bytes.length;
    output.write(bytes as unknown as string);
  };
  const reportLost = () => {
    const known = logLosses.lines;
    if (known > reported) {
      const lines = known - reported;
      const line = { level: 'warn', time: new Date(), lines, msg: 'Lines of the log were lost' };
      write(`${JSON.stringify(line)}\n`);
      // Otherwise there was no room for this line, which then counts as lost, too.
      reported = logLosses.lines === known ? known : reported;
    }
  };
  output.on('drop', (line) => {
    logLosses.lines += 1;
    logLosses.waiting -= line.length;
  });
  output.on('write', (bytes) => {
    logLosses.waiting -= bytes;
    isBroken = false;
    process.nextTick(reportLost);
  });
  // After an error other than EAGAIN, `flushSync` would try forever.
  output.on('error', () => {
    isBroken = true;
    logLosses.errors += 1;
  });
  const end = () => (endOfTries = Math.min(endOfTries, performance.now() + LAST_TRIES));
  process.once('exit', () => {
    end();
    try {
      if (!isBroken) {
        output.flushSync();
        reportLost();
        output.flushSync();
      }
    } catch {
      // Standard output accepts no more. Standard error may be the same.
    }
  });
  /** The last act of a process. */
  const flush = (done?: (error?: Error) => void) => {
    end();
    const kill = setTimeout(() => process.kill(process.pid, 'SIGKILL'), LAST_LINES).unref();
    output.flush((error?: Error) => {
      clearTimeout(kill);
      done?.(error);
    });
  };
  return { write, flush };
}
