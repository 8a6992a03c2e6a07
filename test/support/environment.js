import { setImmediate, setTimeout as wait } from 'node:timers/promises';
import { promisify } from 'node:util';
import { TestEnvironment } from 'jest-environment-node';

/** What a file must close, by the names of `process.getActiveResourcesInfo`. */
const KINDS = ['Timeout', 'TCPServerWrap', 'TCPSocketWrap', 'ProcessWrap', 'MessagePort'];

/** Milliseconds within which everything that a file has ended is closed. */
const PATIENCE = 5_000;

/**
 * Node with two additions. A failure shows what `evidence.ts` has collected. A test that leaves a service running, and a
 * file that leaves a timer, a server or a process, fail by their names, and show where it was started.
 */
export default class Environment extends TestEnvironment {
  /** Each timer and the error whose stack shows where it was started. */
  timers = new Map();

  async setup() {
    await super.setup();
    this.before = counts();
    this.handles = activeHandles();
    for (const name of ['setTimeout', 'setInterval']) {
      const original = globalThis[name];
      const noting = (...args) => {
        const timer = original(...args);
        this.note(timer, name);
        return timer;
      };
      const { [promisify.custom]: promisified } = original;
      this.global[name] = Object.assign(noting, promisified && { [promisify.custom]: promisified });
    }
  }

  note(timer, name) {
    const { Error } = this.global;
    const { stackTraceLimit } = Error;
    Error.stackTraceLimit = 10;
    this.timers.set(timer, new Error(`${name} was not cleared`));
    Error.stackTraceLimit = stackTraceLimit;
    if (this.timers.size % 1_000 === 0) {
      this.timersLeft();
    }
  }

  timersLeft() {
    for (const timer of this.timers.keys()) {
      if (timer._destroyed) {
        this.timers.delete(timer);
      }
    }
    const endless = ([timer]) => timer.hasRef() || timer._repeat !== null;
    return [...this.timers].filter(endless).map(([, error]) => error);
  }

  async handleTestEvent(event, state) {
    const { evidence } = this.global;
    const { name, test } = event;
    if (name === 'test_start') {
      evidence.begin(performance.now());
    } else if (name === 'test_fn_failure' || name === 'hook_failure') {
      const { asyncError } = event.hook ?? test;
      const explained = evidence.explained(event.error, asyncError);
      const pairs = [
        ...state.unhandledErrors.filter(Array.isArray),
        ...errorsOf(test ?? event.describeBlock),
      ];
      for (const pair of pairs.filter(([error]) => error === event.error)) {
        pair[0] = explained;
      }
    } else if (name === 'test_done') {
      const left = await evidence.stopRest();
      // A test that failed had no time to stop it.
      test.errors.push(...(test.errors.length > 0 ? [] : left.map((error) => [error])));
    } else if (name === 'run_finish') {
      evidence.begin(0);
      const left = [...(await evidence.stopRest()), ...(await this.closeRest())];
      // A test that failed had no time to close what it opened.
      const hasFailed = errorsOf(state.rootDescribeBlock).length + state.unhandledErrors.length > 0;
      state.unhandledErrors.push(...(hasFailed ? [] : left.map((error) => [error, error])));
    }
  }

  /** Closes what is open and was not before the file. @returns an error for each. */
  async closeRest() {
    const deadline = performance.now() + PATIENCE;
    while ((await this.open()).length > 0 && performance.now() < deadline) {
      await wait(10);
    }
    const open = await this.open();
    [...this.timers.keys()].forEach(clearTimeout);
    const handles = activeHandles().filter((handle) => !this.handles.includes(handle));
    handles.forEach((handle) => (handle.destroy ?? handle.kill ?? handle.close).call(handle));
    return open.map((error) => this.global.evidence.explained(error));
  }

  async open() {
    // A timer that has called back is open until then.
    await setImmediate();
    const now = counts();
    const timers = this.timersLeft();
    const kinds = KINDS.filter((kind) => now[kind] > this.before[kind]);
    const others = kinds
      .filter((kind) => kind !== 'Timeout' || timers.length === 0)
      .map((kind) => {
        const handles = activeHandles().filter((handle) => !this.handles.includes(handle));
        const names = handles.map(nameOf).filter(Boolean);
        const error = new this.global.Error(`${kind} was not closed: ${names.join(', ')}`);
        return Object.assign(error, { stack: error.message });
      });
    return [...timers, ...others];
  }
}

function counts() {
  const all = process.getActiveResourcesInfo();
  return Object.fromEntries(
    KINDS.map((kind) => [kind, all.filter((each) => each === kind).length]),
  );
}

/** Servers, sockets and processes. Node documents only what counts them. */
const activeHandles = () => process._getActiveHandles?.() ?? [];

function nameOf(handle) {
  const { spawnargs, localPort, remotePort } = handle;
  return localPort === undefined
    ? (spawnargs?.join(' ') ?? JSON.stringify(handle.address?.()))
    : `from port ${localPort} to ${remotePort}`;
}

function errorsOf({ errors, children = [] }) {
  return errors ?? children.flatMap(errorsOf);
}
