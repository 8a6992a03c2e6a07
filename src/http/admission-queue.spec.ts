import { AdmissionQueue } from './admission-queue.js';
import { HTTP_LIMITS } from './limits.js';

/** A queue that `count` requests entered, whose handlers answer when a test says so. */
function queueOf(count: number) {
  const started: number[] = [];
  const queue = new AdmissionQueue();
  for (let id = 0; id < count; id += 1) {
    queue.enter(() => started.push(id));
  }
  const answer = (answers: number) => {
    for (let i = 0; i < answers; i += 1) {
      queue.leave();
    }
    queue.letIn();
  };
  return { queue, started, answer };
}

const upTo = (count: number) => Array.from({ length: count }, (_, i) => i);
const MOST = HTTP_LIMITS.handled;

describe('AdmissionQueue', () => {
  let now = 0;
  beforeEach(() => void jest.spyOn(performance, 'now').mockImplementation(() => now));
  afterEach(() => void jest.restoreAllMocks());

  it('lets in as many requests as may be handled, and one more for each that is answered', () => {
    const { queue, started, answer } = queueOf(MOST + 10);
    expect(started).toEqual(upTo(MOST));
    expect(queue.load).toEqual({ handled: MOST, waiting: 10 });
    answer(3);
    expect(started).toEqual(upTo(MOST + 3));
    answer(MOST);
    expect(started).toEqual(upTo(MOST + 10));
    expect(queue.load).toEqual({ handled: 10 - 3, waiting: 0 });
  });

  it('lets in a request that has waited long, although nothing is answered', () => {
    const { queue, started } = queueOf(MOST + 10);
    queue.letInOverdue(now + HTTP_LIMITS.queueTime);
    expect(started).toEqual(upTo(MOST));
    queue.letInOverdue(now + HTTP_LIMITS.queueTime + 1);
    expect(started).toEqual(upTo(MOST + 10));
  });

  it('is full with as many requests as the limit, whether they wait or not', () => {
    expect(queueOf(HTTP_LIMITS.requests - 1).queue.isFull).toBe(false);
    const { queue, answer } = queueOf(HTTP_LIMITS.requests);
    expect(queue.isFull).toBe(true);
    answer(1);
    expect(queue.isFull).toBe(false);
  });
});
