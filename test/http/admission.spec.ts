import { EventEmitter } from 'node:events';
import { Admission } from '../../src/http/admission.js';
import { HttpLimits } from '../../src/http/limits.js';
import { until } from '../support/until.js';

const upTo = (count: number) => Array.from({ length: count }, (_, i) => i);

describe('Admission', () => {
  const limits = Object.assign(new HttpLimits(), { handled: 3, requests: 10, queueTime: 20 });
  let admission: Admission;
  let responses: any[];
  /** The requests in their handlers, by their numbers. */
  let started: number[];
  let rejected: unknown[];
  beforeEach(() => {
    admission = new Admission(limits);
    [responses, started, rejected] = [[], [], []];
  });

  function come(count: number, url = '/v1/pets'): void {
    // Requests of an earlier test may still wait.
    const [entered, refused] = [started, rejected];
    for (let i = 0; i < count; i += 1) {
      const id = responses.length;
      const req = { socket: { destroyed: false } };
      responses.push(Object.assign(new EventEmitter(), { req }));
      admission.middleware({ url } as any, responses[id], (error?: unknown) =>
        error === undefined ? entered.push(id) : refused.push(error),
      );
    }
  }

  function end(id: number): void {
    responses[id].req.socket.destroyed = true;
    responses[id].emit('close');
  }

  it('lets in as many requests as may be handled, and one more for each that ends', () => {
    come(8);
    expect(started).toEqual(upTo(3));
    expect(admission.load).toEqual({ handled: 3, waiting: 5 });
    end(0);
    end(1);
    expect(started).toEqual(upTo(5));
    expect(admission.load).toEqual({ handled: 3, waiting: 3 });
  });

  it('passes over a request whose client left while it waited', () => {
    come(5);
    end(3);
    end(0);
    expect(started).toEqual([0, 1, 2, 4]);
    expect(admission.load).toEqual({ handled: 3, waiting: 0 });
  });

  it('lets in requests that have waited long, although none ends', async () => {
    come(5);
    const start = performance.now();
    await until('they are in', () => started.length === 5);
    expect(performance.now() - start).toBeGreaterThanOrEqual(limits.queueTime - 1);
    expect(started).toEqual(upTo(5));
    expect(admission.load).toEqual({ handled: 5, waiting: 0 });
    come(1);
    [0, 1, 2].forEach(end);
    expect(started).toEqual(upTo(6));
  });

  it('rejects a request beyond the limit, whether others are handled or wait', () => {
    come(10);
    expect(rejected).toEqual([]);
    come(1);
    expect(rejected).toMatchObject([{ code: 'unavailable' }]);
    end(0);
    come(1);
    expect(rejected).toHaveLength(1);
  });

  it('lets in every probe', () => {
    come(10);
    come(1, '/health/ready');
    expect(started).toEqual([...upTo(3), 10]);
  });
});
