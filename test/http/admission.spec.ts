import { EventEmitter } from 'node:events';
import { ApiError } from '../../src/errors/api-error.js';
import { Admission } from '../../src/http/admission.js';
import type { Request, Response } from '../../src/http/express-classes.js';
import { HttpLimits } from '../../src/http/limits.js';

/** Requests that came in turn. `started` has those in their handlers, and `rejected` the others' errors. */
class Requests {
  readonly started: number[] = [];
  readonly rejected: unknown[] = [];
  private readonly responses: Response[] = [];

  constructor(readonly admission: Admission) {}

  come(count: number, url = '/v1/pets'): void {
    for (let i = 0; i < count; i += 1) {
      const id = this.responses.length;
      const response = Object.assign(new EventEmitter(), {
        req: { socket: { destroyed: false } },
      }) as never as Response;
      this.responses.push(response);
      this.admission.middleware({ url } as Request, response, (error?: unknown) =>
        error === undefined ? this.started.push(id) : this.rejected.push(error),
      );
    }
  }

  end(id: number): void {
    const response = this.responses[id]!;
    Object.assign(response.req.socket, { destroyed: true });
    response.emit('close');
  }
}

const upTo = (count: number) => Array.from({ length: count }, (_, i) => i);

describe('Admission', () => {
  const limits = Object.assign(new HttpLimits(), { handled: 3, requests: 10, queueTime: 20 });
  let requests: Requests;
  beforeEach(() => {
    requests = new Requests(new Admission(limits));
  });

  it('lets in as many requests as may be handled, and one more for each that ends', () => {
    requests.come(8);
    expect(requests.started).toEqual(upTo(3));
    expect(requests.admission.load).toEqual({ handled: 3, waiting: 5 });
    requests.end(0);
    requests.end(1);
    expect(requests.started).toEqual(upTo(5));
    expect(requests.admission.load).toEqual({ handled: 3, waiting: 3 });
  });

  it('passes over a request whose client left while it waited', () => {
    requests.come(5);
    requests.end(3);
    requests.end(0);
    expect(requests.started).toEqual([0, 1, 2, 4]);
    expect(requests.admission.load).toEqual({ handled: 3, waiting: 0 });
  });

  it('lets in requests that have waited long, although none ends', async () => {
    requests.come(5);
    const start = performance.now();
    while (requests.started.length < 5) {
      await new Promise(setImmediate);
    }
    expect(performance.now() - start).toBeGreaterThanOrEqual(limits.queueTime - 1);
    expect(requests.started).toEqual(upTo(5));
  });

  it('rejects a request beyond the limit, whether others are handled or wait', () => {
    requests.come(10);
    expect(requests.rejected).toEqual([]);
    requests.come(1);
    expect(requests.rejected).toEqual([expect.any(ApiError)]);
    expect(requests.rejected[0]).toMatchObject({ code: 'unavailable' });
    requests.end(0);
    requests.come(1);
    expect(requests.rejected).toHaveLength(1);
  });

  it('lets in every probe', () => {
    requests.come(10);
    requests.come(5, '/health/ready');
    expect(requests.started).toEqual([0, 1, 2, 10, 11, 12, 13, 14]);
  });
});
