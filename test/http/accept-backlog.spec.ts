import { jest } from '@jest/globals';
import { setImmediate as turn } from 'node:timers/promises';
import { AcceptBacklog } from '../../src/http/accept-backlog.js';
import { AdmissionQueue } from '../../src/http/admission-queue.js';
import { HTTP_LIMITS } from '../../src/http/limits.js';

describe('AcceptBacklog', () => {
  let now: number;
  let backlog: AcceptBacklog;
  let queue: AdmissionQueue;
  /** How many requests were handled. */
  let handled: number;
  beforeEach(() => {
    jest.useFakeTimers({ doNotFake: ['setImmediate', 'performance'] });
    now = 0;
    jest.spyOn(performance, 'now').mockImplementation(() => now);
    queue = new AdmissionQueue();
    backlog = new AcceptBacklog(queue);
    handled = 0;
  });
  afterEach(() => {
    jest.restoreAllMocks();
    jest.useRealTimers();
  });

  const request = () => queue.enter(() => (handled += 1));

  /** Some turns of the event loop, the first of which takes `milliseconds`. */
  async function turns(milliseconds: number, count = 5): Promise<void> {
    now += milliseconds;
    for (let i = 0; i < count; i += 1) {
      await turn();
    }
  }

  /** A connection comes while turns are long, and more come without end. */
  async function crowd(): Promise<void> {
    backlog.connected();
    now += HTTP_LIMITS.longTurn;
    for (let came = 0; came < 10; came += 1) {
      await turn();
      backlog.connected();
    }
  }

  it('holds no request while turns are short', async () => {
    backlog.connected();
    await turns(HTTP_LIMITS.longTurn - 1, 2);
    request();
    expect(handled).toBe(1);
  });

  it('holds requests while connections come in long turns, and handles them when none came', async () => {
    await crowd();
    request();
    expect(handled).toBe(0);
    await turns(0);
    expect(handled).toBe(1);
  });

  it('holds them no longer than the limit', async () => {
    await crowd();
    request();
    now += HTTP_LIMITS.acceptTime;
    backlog.connected();
    await turn();
    expect(handled).toBe(1);
  });

  it('holds none afterwards for as long as it held them', async () => {
    await crowd();
    await turns(HTTP_LIMITS.acceptTime);
    await crowd();
    request();
    expect(handled).toBe(1);
    jest.advanceTimersByTime(HTTP_LIMITS.acceptTime);
    await crowd();
    request();
    expect(handled).toBe(1);
    await turns(0);
    expect(handled).toBe(2);
  });
});
