import { KEY_PREFIX } from '../../src/api-key.js';

/** A line of a service's log, parsed. */
interface LogLine {
  level: string;
  time: string;
  msg?: string;
  reason?: unknown;
  err?: { message?: string; code?: string; stack?: string };
}

/** Something that runs until it is stopped. Its stack shows where it was started. */
class Running extends Error {
  readonly since = performance.now();

  constructor(
    what: string,
    readonly stop: () => Promise<unknown>,
  ) {
    super(what);
  }
}

/** Responses, and warnings and errors, of which a failure shows the last ones. */
const SHOWN = 4;

const SPEC = /spec\.ts:\d+/;
const HELPER = /\/test\/support\//;

/**
 * What a failure shows beside its message. The environment of the tests (environment.js) asks it.
 *
 * The code frame is that of the first line of the stack, so lines of a test come before those of helpers.
 */
class Evidence {
  private readonly waits = new Set<Error>();
  private readonly running = new Set<Running>();
  private readonly requests = new Set<{ target: string }>();
  private lines: LogLine[] = [];
  private responses: string[] = [];
  private since = 0;

  /** A test begins, or the end of the file. */
  begin(since: number): void {
    this.since = since;
    this.lines = [];
    this.responses = [];
  }

  /** Waits for `work`. If the test has no time left meanwhile, its failure says `what` it waits for, and where. */
  async awaiting<T>(what: string, work: () => PromiseLike<T>): Promise<T> {
    const done = this.wait(what);
    try {
      return await work();
    } finally {
      done();
    }
  }

  /** As {@link awaiting}. @returns what ends it. */
  wait(what: string): () => void {
    const wait = new Error(what);
    this.waits.add(wait);
    return () => this.waits.delete(wait);
  }

  /** Notes something that must be stopped before the test ends. @returns what says that it was stopped. */
  start(what: string, stop: () => Promise<unknown>): () => void {
    const one = new Running(what, stop);
    this.running.add(one);
    return () => this.running.delete(one);
  }

  /** Stops what was started since {@link begin} and not stopped. @returns an error for each. */
  async stopRest(): Promise<Error[]> {
    const left = [...this.running].filter(({ since }) => since >= this.since);
    left.forEach((one) => this.running.delete(one));
    await Promise.allSettled(left.map(({ stop }) => stop()));
    return left.map((one) => this.explained(one));
  }

  log(line: string): void {
    // TypeORM's module warns of a second service.
    if (/"level":"(?:warn|error|fatal)"(?!.*DataSourceNameRegistry)/.test(line)) {
      this.lines.push(JSON.parse(line) as LogLine);
    }
  }

  /** Notes a request. @returns what notes its response, or that it gets none. */
  request(target: string): (status?: number, text?: string) => void {
    const request = { target };
    this.requests.add(request);
    return (status, text = '') => {
      if (this.requests.delete(request) && status !== undefined) {
        this.responses = [
          ...this.responses.slice(1 - SHOWN),
          `${target} → ${status} ${shortened(text)}`,
        ];
      }
    };
  }

  /** The error that says why a test or a hook failed, which has thrown `thrown`. */
  explained(thrown: any, asyncError?: Error): Error {
    const isError = typeof thrown?.stack === 'string';
    const waits = isError ? [] : [...this.waits].toReversed();
    const error: Error = isError ? thrown : new Error(String(thrown).split('\n', 1)[0]);
    const [head, frames] = partsOf(error);
    const places = [frames, ...waits.map((wait) => partsOf(wait)[1]), partsOf(asyncError)[1]];
    const place = places.find((each) => each.some(isOfSpec)) ?? frames;
    const told = [
      ...listed('It waits for', waits.map(messageOf)),
      ...listed(
        'Requests without a response',
        isError ? [] : Array.from(this.requests, ({ target }) => target),
      ),
      ...listed('Last responses', this.responses),
      ...listed('Last warnings and errors', this.lines.slice(-SHOWN).map(summaryOf)),
    ];
    const text = [head.trimEnd(), ...(told.length > 0 ? ['', ...told] : [])].join('\n');
    const isHelper = (frame: string) => HELPER.test(frame);
    const others = place.filter((frame) => !isHelper(frame));
    const stack = [text, ...others, ...place.filter(isHelper)].join('\n');
    error.stack = stack.replaceAll(new RegExp(`${KEY_PREFIX}[\\w-]+`, 'g'), `${KEY_PREFIX}…`);
    return error;
  }
}

const messageOf = ({ message }: Error) => message;
const isOfSpec = (frame: string) => SPEC.test(frame);

const listed = (title: string, items: string[]): string[] =>
  items.length === 0 ? [] : [`${title}:`, ...items.map((item) => `  ${item}`)];

function shortened(text: string, length = 300): string {
  const start = text.slice(0, length).replaceAll(/\s+/g, ' ');
  return text.length > length ? `${start}… (${text.length} characters)` : start;
}

/** The message of an error, and the lines of its stack. */
export function partsOf(error?: Error): [string, string[]] {
  const stack = error?.stack ?? '';
  const [frames = ''] = /(?:(?:\n|^)(?:\s+at .*|----))+\s*$/.exec(stack) ?? [];
  return [stack.slice(0, stack.length - frames.length), frames.split('\n').filter(Boolean)];
}

/** A warning or an error in one line, and the lines of the service's code that threw it. */
function summaryOf({ level, time, msg, err, ...others }: LogLine): string {
  const cause = err && [err.code, err.message].filter(Boolean).join(' ');
  const code = Array.from(err?.stack?.matchAll(/\/(src\/[^()]+?:\d+)/g) ?? [], ([, line]) => line);
  return [
    `${time} ${level} ${msg}`,
    cause && `: ${cause}`,
    ` ${shortened(JSON.stringify(others))}`,
    code.length > 0 ? ` from ${code.slice(0, 3).join(', ')}` : '',
  ].join('');
}

declare global {
  var evidence: Evidence;
}

export const evidence = (globalThis.evidence ??= new Evidence());
