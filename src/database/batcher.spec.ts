import { setImmediate as endOfTurn } from 'node:timers/promises';
import { type Clock, install } from '@sinonjs/fake-timers';
import { Batcher, BATCH_LIMITS } from './batcher.js';

/** Ends after whatever this turn of the event loop leaves for the end of it. */
async function turn(): Promise<void> {
  await endOfTurn();
  await endOfTurn();
}

interface Call {
  requests: number[];
  resolve(answers: string[]): void;
  reject(error: unknown): void;
}

/** A batcher whose statements stay under way until a test ends them. */
function manual() {
  const calls: Call[] = [];
  const batcher = new Batcher<number, string>(
    'numbers',
    (requests) => new Promise((resolve, reject) => void calls.push({ requests, resolve, reject })),
  );
  const answer = (call: Call) => call.resolve(call.requests.map((request) => `answer ${request}`));
  /** Answers whatever is under way until nothing is. */
  const drain = async () => {
    for (let done = 0; done < calls.length; await turn()) {
      for (; done < calls.length; done += 1) {
        answer(calls[done]!);
      }
    }
  };
  return { batcher, calls, answer, drain };
}

/** A batcher that fails, with `error`, every batch that has an odd request. */
function failing(error: unknown) {
  const calls: number[][] = [];
  const batcher = new Batcher<number, string>('numbers', async (requests) => {
    calls.push(requests);
    if (requests.some((request) => request % 2 === 1)) {
      throw error;
    }
    return requests.map((request) => `answer ${request}`);
  });
  return { batcher, calls };
}

const upTo = (count: number) => Array.from({ length: count }, (_, i) => i);
const askAll = (batcher: Batcher<number, string>, requests: number[]) =>
  Promise.allSettled(requests.map((request) => batcher.ask(request)));
const answered = (request: number) => ({ status: 'fulfilled', value: `answer ${request}` });

const refused = Object.assign(new Error('check'), { code: '23514' });

describe('Batcher', () => {
  let clock: Clock;
  beforeEach(() => {
    clock = install({ toFake: ['setTimeout', 'performance'] });
  });
  afterEach(() => clock.uninstall());

  it('asks once for all requests of a turn and gives each its own answer', async () => {
    const { batcher, calls, drain } = manual();
    const answers = askAll(batcher, [3, 1, 2, 1]);
    await turn();
    expect(calls.map(({ requests }) => requests)).toEqual([[3, 1, 2, 1]]);
    await drain();
    expect(await answers).toEqual([3, 1, 2, 1].map(answered));
  });

  it('asks for a lone request without waiting for another', async () => {
    const { batcher, calls, drain } = manual();
    const answer = batcher.ask(1);
    await turn();
    expect(calls).toHaveLength(1);
    await drain();
    expect(await answer).toBe('answer 1');
  });

  it('never adds a request to a batch that has left', async () => {
    const { batcher, calls, answer, drain } = manual();
    const first = batcher.ask(1);
    await turn();
    const second = batcher.ask(1);
    await turn();
    expect(calls.map(({ requests }) => requests)).toEqual([[1]]);
    answer(calls[0]!);
    await turn();
    expect(calls.map(({ requests }) => requests)).toEqual([[1], [1]]);
    await drain();
    expect(await Promise.all([first, second])).toEqual(['answer 1', 'answer 1']);
  });

  it('asks again for a request that was answered before', async () => {
    const { batcher, calls, drain } = manual();
    for (const times of [1, 2]) {
      const answer = batcher.ask(1);
      await turn();
      expect(calls).toHaveLength(times);
      await drain();
      await answer;
    }
  });

  it('sends at most 256 requests in a statement, and the rest as it returns', async () => {
    const { batcher, calls, answer, drain } = manual();
    const answers = askAll(batcher, upTo(BATCH_LIMITS.size + 1));
    await turn();
    expect(calls.map(({ requests }) => requests.length)).toEqual([256]);
    answer(calls[0]!);
    await turn();
    expect(calls.map(({ requests }) => requests.length)).toEqual([256, 1]);
    await drain();
    expect(await answers).toEqual(upTo(BATCH_LIMITS.size + 1).map(answered));
  });

  it('waits 25 ms for the response to the last batch, and sends at most three at a time', async () => {
    const { batcher, calls, answer, drain } = manual();
    const answers = [batcher.ask(1)];
    await turn();
    for (const sent of [2, 3]) {
      answers.push(batcher.ask(sent));
      clock.tick(24);
      await turn();
      expect(calls).toHaveLength(sent - 1);
      clock.tick(1);
      await turn();
      expect(calls).toHaveLength(sent);
    }
    answers.push(batcher.ask(4), batcher.ask(5));
    clock.tick(25);
    await turn();
    expect(calls).toHaveLength(3);
    answer(calls[1]!);
    await turn();
    expect(calls.map(({ requests }) => requests)).toEqual([[1], [2], [3], [4, 5]]);
    await drain();
    expect(await Promise.all(answers)).toEqual([1, 2, 3, 4, 5].map((n) => `answer ${n}`));
  });

  it('lets each batch leave as the last one returns, while an earlier one is stuck', async () => {
    const { batcher, calls, answer } = manual();
    void batcher.ask(0);
    await turn();
    void batcher.ask(1);
    clock.tick(25);
    await turn();
    expect(calls).toHaveLength(2);
    for (let n = 2; n < 10; n += 1) {
      void batcher.ask(n);
      answer(calls.at(-1)!);
      await turn();
      expect(calls.at(-1)!.requests).toEqual([n]);
    }
  });

  it('sends all that came meanwhile together when a statement returns, failed or not', async () => {
    const { batcher, calls } = manual();
    const failure = batcher.ask(1);
    await turn();
    for (const request of [2, 3]) {
      void batcher.ask(request);
      await turn();
    }
    expect(calls).toHaveLength(1);
    calls[0]!.reject(new Error('gone'));
    await expect(failure).rejects.toThrow('gone');
    await turn();
    expect(calls[1]!.requests).toEqual([2, 3]);
  });

  it('refuses as unavailable what waited too long, and sends what came later', async () => {
    const { batcher, calls, answer, drain } = manual();
    const first = batcher.ask(1);
    await turn();
    const overdue = batcher.ask(2);
    const now = performance.now();
    const clock = jest.spyOn(performance, 'now').mockReturnValue(now + BATCH_LIMITS.waitingTime);
    try {
      const later = batcher.ask(3);
      clock.mockReturnValue(now + BATCH_LIMITS.waitingTime + 1);
      answer(calls[0]!);
      await expect(overdue).rejects.toMatchObject({
        code: 'unavailable',
        message: 'The service is overloaded; try again.',
      });
      expect(await first).toBe('answer 1');
      await drain();
      expect(await later).toBe('answer 3');
    } finally {
      clock.mockRestore();
    }
  });

  it.each([
    ['does not answer', 'The database cannot be reached', undefined],
    ['ends the connection', 'The database cannot be reached', new Error('Connection terminated')],
    ['responds with an error', 'The service is overloaded', { code: '42P01' }],
  ])('refuses what waited too long if the database %s: %s', async (_what, message, error) => {
    const { batcher, calls } = manual();
    batcher.ask(1).catch(() => {});
    await turn();
    const overdue = batcher.ask(2);
    const now = performance.now();
    const clock = jest
      .spyOn(performance, 'now')
      .mockReturnValue(now + BATCH_LIMITS.waitingTime + 1);
    try {
      if (error === undefined) {
        void batcher.ask(3);
      } else {
        calls[0]!.reject(error);
      }
      await expect(overdue).rejects.toMatchObject({
        code: 'unavailable',
        message: `${message}; try again.`,
      });
    } finally {
      clock.mockRestore();
    }
  });

  it('says of one request too many that the service is overloaded, or the database away if it is', async () => {
    const { batcher } = manual();
    const refusal = async () => {
      const error = await batcher.ask(-1).catch((it: Error) => it);
      return (error as Error).message;
    };
    void askAll(batcher, upTo(BATCH_LIMITS.waiting));
    expect(await refusal()).toBe('The service is overloaded; try again.');
    await turn();
    void askAll(batcher, upTo(BATCH_LIMITS.size));
    expect(await refusal()).toBe('The service is overloaded; try again.');
    // The next batch leaves meanwhile. What counts is how long the first one has had no response.
    clock.tick(BATCH_LIMITS.waitingTime);
    await turn();
    void askAll(batcher, upTo(BATCH_LIMITS.waiting));
    expect(await refusal()).toBe('The service is overloaded; try again.');
    clock.tick(1);
    expect(await refusal()).toBe('The database cannot be reached; try again.');
  });

  it('refuses a request as unavailable where too many wait, and takes requests again after that', async () => {
    const { batcher, calls, drain } = manual();
    const waiting = askAll(batcher, upTo(BATCH_LIMITS.waiting));
    await expect(batcher.ask(-1)).rejects.toMatchObject({ code: 'unavailable' });
    await turn();
    expect(calls).toHaveLength(1);
    await drain();
    expect(await waiting).toEqual(upTo(BATCH_LIMITS.waiting).map(answered));
    expect(calls.flatMap(({ requests }) => requests)).not.toContain(-1);
    const later = batcher.ask(7);
    await turn();
    calls.at(-1)!.resolve(['answer 7']);
    expect(await later).toBe('answer 7');
  });

  it.each([
    ['of a check', refused],
    ['of a unique index', { code: '23505' }],
    ['of a number out of range', { code: '22003' }],
  ])('fails a refused value for its own request alone: %s', async (_what, error) => {
    const { batcher } = failing(error);
    expect(await askAll(batcher, [0, 1, 2, 3, 4])).toEqual([
      answered(0),
      { status: 'rejected', reason: error },
      answered(2),
      { status: 'rejected', reason: error },
      answered(4),
    ]);
  });

  it('asks again for parts of a refused batch, and for each request of a refused part alone', async () => {
    const { batcher, calls } = failing(refused);
    await askAll(batcher, [0, 2, 4, 6, 8, 10, 12, 14, 15]);
    const parts = [[0, 2, 4], [6, 8, 10], [12, 14, 15], [12], [14], [15]];
    expect(calls).toEqual([[0, 2, 4, 6, 8, 10, 12, 14, 15], ...parts]);
  });

  it('asks little more often than each alone where all are refused', async () => {
    const { batcher, calls } = failing(refused);
    await askAll(batcher, Array(BATCH_LIMITS.size).fill(1));
    expect(calls).toHaveLength(1 + Math.sqrt(BATCH_LIMITS.size) + BATCH_LIMITS.size);
  });

  it('does not ask again for a lone request that was refused', async () => {
    const { batcher, calls } = failing(refused);
    await expect(batcher.ask(1)).rejects.toBe(refused);
    expect(calls).toEqual([[1]]);
  });

  it.each([
    ['no code', new Error('Connection terminated')],
    ['a lost connection', { code: '08006' }],
    ['a time-out', { code: '57014' }],
    ['a missing table', { code: '42P01' }],
    ['a code of the socket', { code: 'ECONNRESET' }],
  ])('fails all requests of a batch, asked once, for %s', async (_what, error) => {
    const { batcher, calls } = failing(error);
    expect(await askAll(batcher, [0, 1, 2])).toEqual(
      Array(3).fill({ status: 'rejected', reason: error }),
    );
    expect(calls).toEqual([[0, 1, 2]]);
    expect(await batcher.ask(2)).toBe('answer 2');
  });
});
