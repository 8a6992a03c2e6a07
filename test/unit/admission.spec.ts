import { jest } from '@jest/globals';
import { Admission } from '../../src/http/admission.js';
import { HTTP_LIMITS } from '../../src/http/limits.js';
import type { Response } from '../../src/http/response.js';

/** An admission whose handlers answer when a test says so. */
function admission(count: number) {
  const started: number[] = [];
  const admission = new Admission((request) => started.push(Number(request.id)));
  for (let id = 0; id < count; id += 1) {
    const request = { id: String(id), receivedAt: performance.now() };
    admission.arrived();
    admission.enter({ req: request } as unknown as Response);
  }
  const answer = (answers: number) => {
    for (let i = 0; i < answers; i += 1) {
      admission.answered();
    }
    admission.letIn();
  };
  return { admission, started, answer };
}

const upTo = (count: number) => Array.from({ length: count }, (_, i) => i);

describe('Admission', () => {
  beforeEach(() => void jest.useFakeTimers());
  afterEach(() => void jest.useRealTimers());

  it('lets in as many requests as may be handled, and one more for each that is answered', () => {
    const { started, answer } = admission(HTTP_LIMITS.handled + 10);
    expect(started).toEqual(upTo(HTTP_LIMITS.handled));
    answer(3);
    expect(started).toEqual(upTo(HTTP_LIMITS.handled + 3));
    answer(HTTP_LIMITS.handled);
    expect(started).toEqual(upTo(HTTP_LIMITS.handled + 10));
  });

  it('lets in whoever has waited long, although nothing is answered', () => {
    const { started } = admission(HTTP_LIMITS.handled + 10);
    jest.advanceTimersByTime(HTTP_LIMITS.doorTime - 1);
    expect(started).toEqual(upTo(HTTP_LIMITS.handled));
    jest.advanceTimersByTime(HTTP_LIMITS.doorTime);
    expect(started).toEqual(upTo(HTTP_LIMITS.handled + 10));
    expect(jest.getTimerCount()).toBe(0);
  });

  it('lets in nobody while it is shut, those who wait long neither, and goes on when it opens', () => {
    const { admission: shut, started, answer } = admission(HTTP_LIMITS.handled + 10);
    shut.shut();
    answer(3);
    jest.advanceTimersByTime(HTTP_LIMITS.doorTime * 2);
    expect(started).toEqual(upTo(HTTP_LIMITS.handled));
    shut.open();
    expect(started).toEqual(upTo(HTTP_LIMITS.handled + 3));
    jest.advanceTimersByTime(HTTP_LIMITS.doorTime);
    expect(started).toEqual(upTo(HTTP_LIMITS.handled + 10));
  });

  it('is full when too many are under way, whether they wait or not', () => {
    expect(admission(HTTP_LIMITS.underWay).admission.isFull).toBe(false);
    const { admission: full, answer } = admission(HTTP_LIMITS.underWay + 1);
    expect(full.isFull).toBe(true);
    answer(1);
    expect(full.isFull).toBe(false);
  });
});
