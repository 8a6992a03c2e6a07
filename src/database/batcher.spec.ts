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
  const answer = (call: Call) => call.resolve(call.requests.map(answerTo));
  const sent = () => calls.map(({ requests }) => requests);
  /** Answers whatever is under way until nothing is. */
  const drain = async () => {
    for (let done = 0; done < calls.length; await turn()) {
      for (; done < calls.length; done += 1) {
        answer(calls[done]!);
      }
    }
  };
  return { batcher, calls, answer, sent, drain };
}

/** A batcher that fails, with `error`, every batch that has an odd request. */
function failing(error: unknown) {
  const sent: number[][] = [];
  const batcher = new Batcher<number, string>('numbers', async (requests) => {
    sent.push(requests);
    if (requests.some((request) => request % 2 === 1)) {
      throw error;
    }
    return requests.map(answerTo);
  });
  return { batcher, sent };
}

const answerTo = (request: number) => `answer ${request}`;
const upTo = (count: number) => Array.from({ length: count }, (_, i) => i);
const askAll = (batcher: Batcher<number, string>, requests: number[]) =>
  Promise.allSettled(requests.map((request) => batcher.ask(request)));
const answered = (request: number) => ({ status: 'fulfilled', value: answerTo(request) });
const UNAVAILABLE = {
  code: 'unavailable',
  message: 'The database did not respond in time; try again.',
};

describe('Batcher', () => {
  let clock: Clock;
  beforeEach(() => {
    clock = install({ toFake: ['setTimeout', 'performance'] });
  });
  afterEach(() => clock.uninstall());

  it.each([[[1]], [[3, 1, 2, 1]]])(
    'asks once, at the end of the turn, for all its requests: %j',
    async (requests) => {
      const { batcher, sent, drain } = manual();
      const answers = askAll(batcher, requests);
      expect(sent()).toEqual([]);
      await turn();
      expect(sent()).toEqual([requests]);
      await drain();
      expect(await answers).toEqual(requests.map(answered));
    },
  );

  it('asks again for what was asked before, and adds nothing to a batch that has left', async () => {
    const { batcher, calls, answer, sent, drain } = manual();
    const first = batcher.ask(1);
    await turn();
    const second = askAll(batcher, [1, 2]);
    await turn();
    expect(sent()).toEqual([[1]]);
    answer(calls[0]!);
    await turn();
    expect(sent()).toEqual([[1], [1, 2]]);
    await drain();
    expect([await first, await second]).toEqual(['answer 1', [1, 2].map(answered)]);
  });

  it('sends at most 256 requests in a statement, and the rest as it returns, failed or not', async () => {
    const { batcher, calls, sent, drain } = manual();
    const answers = askAll(batcher, upTo(257));
    await turn();
    calls[0]!.reject(new Error('gone'));
    await turn();
    expect(sent().map(({ length }) => length)).toEqual([256, 1]);
    await drain();
    const failed = { status: 'rejected', reason: new Error('gone') };
    expect(await answers).toEqual([...Array(256).fill(failed), answered(256)]);
  });

  it('waits 25 ms for the response to the last batch, and sends at most three at a time', async () => {
    const { batcher, calls, answer, sent, drain } = manual();
    const answers = [batcher.ask(1)];
    await turn();
    for (const next of [2, 3]) {
      answers.push(batcher.ask(next));
      clock.tick(24);
      await turn();
      expect(calls).toHaveLength(next - 1);
      clock.tick(1);
      await turn();
      expect(calls).toHaveLength(next);
    }
    answers.push(batcher.ask(4), batcher.ask(5));
    clock.tick(25);
    await turn();
    expect(calls).toHaveLength(3);
    answer(calls[1]!);
    await turn();
    expect(sent()).toEqual([[1], [2], [3], [4, 5]]);
    await drain();
    expect(await Promise.all(answers)).toEqual([1, 2, 3, 4, 5].map(answerTo));
  });

  it('lets each batch leave as the last one returns, while an earlier one is stuck', async () => {
    const { batcher, calls, answer, sent } = manual();
    void batcher.ask(0);
    await turn();
    void batcher.ask(1);
    clock.tick(25);
    await turn();
    for (let n = 2; n < 10; n += 1) {
      void batcher.ask(n);
      answer(calls.at(-1)!);
      await turn();
      expect(sent()).toEqual(upTo(n + 1).map((request) => [request]));
    }
  });

  it('rejects as unavailable what waited longer than 750 ms, and sends what came later', async () => {
    const { batcher, sent, drain } = manual();
    const requests = [batcher.ask(0)];
    await turn();
    for (const next of [1, 2]) {
      requests.push(batcher.ask(next));
      clock.tick(25);
      await turn();
    }
    const overdue = batcher.ask(-1);
    clock.tick(1);
    requests.push(batcher.ask(3));
    clock.tick(750);
    void batcher.ask(4);
    await expect(overdue).rejects.toMatchObject(UNAVAILABLE);
    await drain();
    expect(await Promise.all(requests)).toEqual(upTo(4).map(answerTo));
    expect(sent()).toEqual([[0], [1], [2], [3, 4]]);
  });

  it('rejects as unavailable a request for which too many wait, and takes requests again after that', async () => {
    const { batcher, sent, drain } = manual();
    const waiting = askAll(batcher, upTo(BATCH_LIMITS.waiting));
    await expect(batcher.ask(-1)).rejects.toMatchObject(UNAVAILABLE);
    await turn();
    const next = batcher.ask(-2);
    await drain();
    expect(await waiting).toEqual(upTo(BATCH_LIMITS.waiting).map(answered));
    expect(await next).toBe('answer -2');
    expect(sent().flat()).not.toContain(-1);
  });

  it('asks for each request alone if a value is refused', async () => {
    const { batcher, sent } = failing({ code: '23514' });
    const refused = { status: 'rejected', reason: { code: '23514' } };
    const outcomes = [answered(0), refused, answered(2), refused];
    expect(await askAll(batcher, [0, 1, 2, 3])).toEqual(outcomes);
    expect(sent).toEqual([[0, 1, 2, 3], [0], [1], [2], [3]]);
  });

  it('does not ask again for a lone request that was refused', async () => {
    const { batcher, sent } = failing({ code: '23514' });
    await expect(batcher.ask(1)).rejects.toEqual({ code: '23514' });
    expect(sent).toEqual([[1]]);
  });

  it.each([new Error('Connection terminated'), { code: '57014' }, { code: 'ECONNRESET' }])(
    'fails all requests of a batch, asked once, for another error: %j',
    async (error) => {
      const { batcher, sent } = failing(error);
      const failed = { status: 'rejected', reason: error };
      expect(await askAll(batcher, [0, 1, 2])).toEqual([failed, failed, failed]);
      expect(sent).toEqual([[0, 1, 2]]);
      expect(await batcher.ask(2)).toBe('answer 2');
    },
  );
});
