import { jest } from '@jest/globals';
import { setImmediate as turn } from 'node:timers/promises';
import type { Admission } from '../../src/http/admission.js';
import { HTTP_LIMITS } from '../../src/http/limits.js';
import { Newcomers } from '../../src/http/newcomers.js';

describe('Newcomers', () => {
  let now: number;
  let door: ('shut' | 'open')[];
  let newcomers: Newcomers;
  beforeEach(() => {
    jest.useFakeTimers({ doNotFake: ['setImmediate', 'performance'] });
    now = 0;
    jest.spyOn(performance, 'now').mockImplementation(() => now);
    door = [];
    const admission = { shut: () => door.push('shut'), open: () => door.push('open') };
    newcomers = new Newcomers(admission as unknown as Admission);
  });
  afterEach(() => {
    jest.restoreAllMocks();
    jest.useRealTimers();
  });

  /** Some turns of the event loop, the first of which takes `milliseconds`. */
  async function turns(milliseconds: number): Promise<void> {
    now += milliseconds;
    for (let i = 0; i < 5; i += 1) {
      await turn();
    }
  }

  it('do not shut the door where turns are short', async () => {
    newcomers.arrived();
    await turns(HTTP_LIMITS.longTurn - 1);
    expect(door).toEqual([]);
  });

  it('shut it where turns are long, until a turn brought none of them', async () => {
    newcomers.arrived();
    await turns(HTTP_LIMITS.longTurn);
    expect(door).toEqual(['shut', 'open']);
  });

  it('keep it shut while they come, but not for ever', async () => {
    newcomers.arrived();
    await turns(HTTP_LIMITS.longTurn);
    jest.advanceTimersByTime(HTTP_LIMITS.acceptPause);
    door = [];

    newcomers.arrived();
    now += HTTP_LIMITS.longTurn;
    for (let came = 0; came < 50; came += 1) {
      await turn();
      newcomers.arrived();
    }
    expect(door).toEqual(['shut']);
    now += HTTP_LIMITS.acceptTime;
    await turn();
    expect(door).toEqual(['shut', 'open']);
  });

  it('leave it open afterwards for as long as it was shut', async () => {
    newcomers.arrived();
    now += HTTP_LIMITS.longTurn;
    for (let came = 0; came < 5; came += 1) {
      await turn();
      newcomers.arrived();
    }
    await turns(HTTP_LIMITS.acceptTime);
    expect(door).toEqual(['shut', 'open']);

    jest.advanceTimersByTime(HTTP_LIMITS.acceptTime - 1);
    newcomers.arrived();
    await turns(HTTP_LIMITS.longTurn);
    expect(door).toEqual(['shut', 'open']);
    jest.advanceTimersByTime(1);
    newcomers.arrived();
    await turns(HTTP_LIMITS.longTurn);
    expect(door).toEqual(['shut', 'open', 'shut', 'open']);
  });
});
