import { setImmediate as endOfTurn } from 'node:timers/promises';
import { type Clock, install } from '@sinonjs/fake-timers';
import { Batcher, BATCH_LIMITS } from '../../src/database/batcher.js';

/** Ends after whatever this turn of the event loop leaves for the end of it. */
async function turn(): Promise<void> {
  await endOfTurn();
  await endOfTurn();
}

/** A batcher whose statements stay under way until a test ends them. */
function manual() {
  const calls: { answer(): void; reject(error: unknown): void }[] = [];
  const sent: number[][] = [];
  const batcher = new Batcher<number, string>((requests) => {
    sent.push(requests);
    return new Promise((resolve, reject) => {
      calls.push({ answer: () => resolve(requests.map(answerTo)), reject });
    });
  });
  /** Answers whatever is under way until nothing is. */
  const drain = async () => {
    for (let done = 0; done < calls.length; await turn()) {
      calls.slice(done).forEach(({ answer }) => answer());
      done = calls.length;
    }
  };
  return { batcher, calls, sent, drain };
}

const answerTo = (request: number) => `answer ${request}`;
const upTo = (count: number) => Array.from({ length: count }, (_, i) => i);
const askAll = (batcher: Batcher<number, string>, requests: number[]) =>
  Promise.allSettled(requests.map((request) => batcher.ask(request)));
const answered = (request: number) => ({ status: 'fulfilled', value: answerTo(request) });
const UNAVAILABLE = { code: 'unavailable' };

describe('Batcher', () => {
  let clock: Clock;
  beforeEach(() => {
    clock = install({ toFake: ['setTimeout', 'performance'] });
  });
  afterEach(() => clock.uninstall());

  it('sends at most 256 requests in a statement, and the rest as it returns, failed or not', async () => {
    const { batcher, calls, sent, drain } = manual();
    const answers = askAll(batcher, upTo(257));
    await turn();
    calls[0]!.reject(new Error('gone'));
    await turn();
    expect(sent.map(({ length }) => length)).toEqual([256, 1]);
    await drain();
    const failed = { status: 'rejected', reason: new Error('gone') };
    expect(await answers).toEqual([...Array(256).fill(failed), answered(256)]);
  });

  it('sends what is asked in one turn of the event loop together, in the same turn', async () => {
    const { batcher, sent, drain } = manual();
    const answers = askAll(batcher, upTo(2));
    await new Promise<void>(process.nextTick);
    expect(sent).toEqual([[0, 1]]);
    await drain();
    await answers;
  });

  it('waits 25 ms for the response to the last batch, sends at most three at a time, and equal requests again', async () => {
    const { batcher, calls, sent, drain } = manual();
    const answers = [batcher.ask(0)];
    await turn();
    calls.shift()!.answer();
    answers.push(batcher.ask(1));
    await turn();
    for (const next of [2, 3]) {
      answers.push(batcher.ask(1));
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
    calls[1]!.answer();
    await turn();
    expect(sent).toEqual([[0], [1], [1], [1], [4, 5]]);
    await drain();
    expect(await Promise.all(answers)).toEqual([0, 1, 1, 1, 4, 5].map(answerTo));
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
    expect(sent).toEqual([[0], [1], [2], [3, 4]]);
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
    expect(sent.flat()).not.toContain(-1);
  });

  const failed = (code: string) => ({ status: 'rejected', reason: { code } });
  it.each([
    [
      'asks for each request alone, once, if a value is refused',
      '23514',
      [answered(0), failed('23514'), answered(2)],
      [[0, 1, 2], [0], [1], [2], [4]],
    ],
    [
      'fails all requests of a batch, asked once, for another error',
      '57014',
      [failed('57014'), failed('57014'), failed('57014')],
      [[0, 1, 2], [4]],
    ],
  ])('%s', async (_title, code, outcomes, statements) => {
    const sent: number[][] = [];
    const batcher = new Batcher<number, string>(async (requests) => {
      sent.push(requests);
      if (requests.includes(1)) {
        throw { code };
      }
      return requests.map(answerTo);
    });
    expect(await askAll(batcher, [0, 1, 2])).toEqual(outcomes);
    expect(await batcher.ask(4)).toBe('answer 4');
    expect(sent).toEqual(statements);
  });
});
