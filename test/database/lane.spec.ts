import { setImmediate as endOfTurn } from 'node:timers/promises';
import { type Clock, install } from '@sinonjs/fake-timers';
import type { PoolClient } from 'pg';
import { Lane, type LaneOptions } from '../../src/database/lane.js';
import { DATABASE_LIMITS } from '../../src/database/limits.js';
import { inTransaction, withSession } from '../../src/database/statement.js';

/** Ends after whatever this turn of the event loop leaves for the end of it. */
async function turn(): Promise<void> {
  await endOfTurn();
  await endOfTurn();
}

/** A lane whose statements stay under way until a test ends them, and sessions that it gets when a test opens them. */
function manual(options: LaneOptions<number> = {}, isOpen = true) {
  const calls: { answer(): void; reject(error: unknown): void }[] = [];
  const sent: number[][] = [];
  const sessions = { used: 0, released: [] as (Error | undefined)[] };
  const session = {
    release: (error?: Error) => sessions.released.push(error),
    query: async () => ({}),
  } as unknown as PoolClient;
  const opening: { open(): void; fail(error: Error): void }[] = [];
  const connect = () =>
    new Promise<PoolClient>((resolve, fail) => {
      const open = () => {
        sessions.used += 1;
        resolve(session);
      };
      opening.push({ open, fail });
      if (isOpen) {
        open();
      }
    });
  const lane = new Lane<number, string>(
    { connect },
    (requests) => {
      sent.push(requests);
      return new Promise((resolve, reject) => {
        calls.push({ answer: () => resolve(requests.map(answerTo)), reject });
      });
    },
    options,
  );
  /** Answers whatever is under way until nothing is. */
  const drain = async () => {
    for (let done = 0; done < calls.length; await turn()) {
      calls.slice(done).forEach(({ answer }) => answer());
      done = calls.length;
    }
  };
  /** By default, asks for what may wait for 10 seconds. */
  const ask = (request: number, time = 10_000) => lane.ask(request, performance.now() + time);
  const askAll = (requests: number[]) =>
    Promise.allSettled(requests.map((request) => ask(request)));
  return { lane, ask, askAll, calls, sent, drain, opening, sessions };
}

const answerTo = (request: number) => `answer ${request}`;
const upTo = (count: number) => Array.from({ length: count }, (_, i) => i);
const answered = (request: number) => ({ status: 'fulfilled', value: answerTo(request) });
const UNAVAILABLE = { code: 'unavailable', options: { because: 'database_slow' } };

describe('Lane', () => {
  let clock: Clock;
  beforeEach(() => {
    clock = install({ toFake: ['setTimeout', 'clearTimeout', 'performance'] });
  });
  afterEach(() => clock.uninstall());

  it('sends at most 256 requests in a statement, and the rest as it returns, failed or not', async () => {
    const { askAll, calls, sent, drain } = manual();
    const answers = askAll(upTo(257));
    await turn();
    calls[0]!.reject(new Error('gone'));
    await turn();
    expect(sent.map(({ length }) => length)).toEqual([256, 1]);
    await drain();
    const failed = { status: 'rejected', reason: new Error('gone') };
    expect(await answers).toEqual([...Array(256).fill(failed), answered(256)]);
  });

  it('sends the halves of what PostgreSQL refused before what came later', async () => {
    const { askAll, calls, sent, drain } = manual();
    const first = askAll(upTo(4));
    await turn();
    const later = askAll([4, 5]);
    calls[0]!.reject({ code: '23514' });
    await turn();
    expect(sent).toEqual([upTo(4), [0, 1]]);
    await drain();
    expect(sent.slice(2)).toEqual([
      [2, 3],
      [4, 5],
    ]);
    await Promise.all([first, later]);
  });

  it('sends what is asked in one turn of the event loop together, in the same turn', async () => {
    const { askAll, sent, drain } = manual();
    const answers = askAll(upTo(2));
    await new Promise<void>((resolve) => setImmediate(resolve));
    expect(sent).toEqual([[0, 1]]);
    await drain();
    await answers;
  });

  it('waits 25 ms for the response to the last batch, sends at most three at a time, and equal requests again', async () => {
    const { ask, calls, sent, drain } = manual();
    const answers = [ask(0)];
    await turn();
    calls.shift()!.answer();
    answers.push(ask(1));
    await turn();
    for (const next of [2, 3]) {
      answers.push(ask(1));
      clock.tick(24);
      await turn();
      expect(calls).toHaveLength(next - 1);
      clock.tick(1);
      await turn();
      expect(calls).toHaveLength(next);
    }
    answers.push(ask(4), ask(5));
    clock.tick(25);
    await turn();
    expect(calls).toHaveLength(3);
    calls[1]!.answer();
    await turn();
    expect(sent).toEqual([[0], [1], [1], [1], [4, 5]]);
    await drain();
    expect(await Promise.all(answers)).toEqual([0, 1, 1, 1, 4, 5].map(answerTo));
  });

  it('sends no batch for the response to an earlier one than the last', async () => {
    const { ask, calls, sent, drain } = manual();
    const answers = [ask(0)];
    await turn();
    clock.tick(25);
    answers.push(ask(1));
    await turn();
    answers.push(ask(2));
    calls[0]!.answer();
    await turn();
    expect(sent).toEqual([[0], [1]]);
    await drain();
    expect(await Promise.all(answers)).toEqual([0, 1, 2].map(answerTo));
  });

  it('asks for equal requests once, and for rows up to a limit that only one request alone may exceed', async () => {
    const options = { keyOf: (n: number) => n, rowsOf: (n: number) => n, rowsPerStatement: 100 };
    const { askAll, sent, drain } = manual(options);
    const requests = [60, 40, 60, 40, 41, 60, 101, 1, 2];
    const answers = askAll(requests);
    await turn();
    await drain();
    expect(sent).toEqual([[60, 40], [41], [60], [101], [1, 2]]);
    expect(await answers).toEqual(requests.map(answered));
  });

  describe('while it has no session', () => {
    it('does not blame the database for a request that comes after its deadline', async () => {
      const { ask, sent } = manual();
      const overdue = { code: 'unavailable', options: { because: 'overdue' } };
      await expect(ask(1, 0)).rejects.toMatchObject(overdue);
      await turn();
      expect(sent).toEqual([]);
    });

    it('rejects each request at its deadline, and sends the others', async () => {
      const { ask, sent, drain, opening, sessions } = manual({}, false);
      const outcomes: string[] = [];
      const note = (name: string, answer: Promise<string>) =>
        answer.then(
          () => outcomes.push(`${name} is answered`),
          ({ code }) => outcomes.push(`${name} is ${code}`),
        );
      const pending = [
        note('second', ask(2, 200)),
        note('first', ask(1, 100)),
        note('too late', ask(0, 0)),
        note('last', ask(3, 201)),
      ];
      await turn();
      clock.tick(1);
      await turn();
      expect(outcomes).toEqual(['too late is unavailable']);
      clock.tick(98);
      await turn();
      expect(outcomes).toHaveLength(1);
      clock.tick(1);
      await turn();
      expect(outcomes.slice(1)).toEqual(['first is unavailable']);
      clock.tick(100);
      await turn();
      expect(outcomes.slice(2)).toEqual(['second is unavailable']);
      opening.forEach(({ open }) => open());
      await turn();
      expect(sent).toEqual([[3]]);
      await drain();
      await Promise.all(pending);
      expect(outcomes.slice(3)).toEqual(['last is answered']);
      expect(sessions.released).toEqual(opening.map(() => undefined));
    });

    it('sends nothing for a request that is overdue when a session comes, though no timer has said so', async () => {
      const { ask, sent, opening } = manual({}, false);
      const late = expect(ask(1, 100)).rejects.toMatchObject(UNAVAILABLE);
      await turn();
      // The event loop was busy.
      const now = jest.spyOn(performance, 'now').mockReturnValue(performance.now() + 100);
      opening[0]!.open();
      await turn();
      now.mockRestore();
      expect(sent).toEqual([]);
      await late;
    });

    it('asks for another one after 25 ms, three at a time, and returns at once what comes too late', async () => {
      const { ask, sent, drain, opening, sessions } = manual({}, false);
      const late = ask(0, 100);
      await turn();
      for (const count of [1, 2, 3, 3]) {
        clock.tick(24);
        await turn();
        expect(opening).toHaveLength(count);
        clock.tick(1);
        await turn();
      }
      await expect(late).rejects.toMatchObject(UNAVAILABLE);
      opening[0]!.open();
      opening[1]!.open();
      await turn();
      expect([sent, sessions.released]).toEqual([[], [undefined, undefined]]);
      const next = ask(1);
      await turn();
      opening[2]!.open();
      await turn();
      await drain();
      expect(await next).toBe('answer 1');
      expect(sent).toEqual([[1]]);
      opening.slice(3).forEach(({ open }) => open());
      await turn();
      expect(sessions.released).toHaveLength(sessions.used);
    });

    it('fails all that wait if there is none, and asks again for the next request', async () => {
      // Those too that the next statement would leave to others.
      const { ask, askAll, drain, opening } = manual({ requestsPerStatement: 1 }, false);
      const failed = askAll([0, 1]);
      await turn();
      opening[0]!.fail(new Error('away'));
      await turn();
      expect(opening).toHaveLength(1);
      const outcome = { status: 'rejected', reason: new Error('away') };
      expect(await failed).toEqual([outcome, outcome]);
      const next = ask(2);
      await turn();
      opening[1]!.open();
      await turn();
      await drain();
      expect(await next).toBe('answer 2');
    });
  });

  it('has no request wait longer for a statement that came after one with a nearer deadline', async () => {
    const { ask, sent, drain } = manual({ statementsPerLane: 1 });
    const first = ask(0);
    await turn();
    const far = ask(1);
    const near = ask(2, 10);
    clock.tick(10);
    await expect(near).rejects.toMatchObject(UNAVAILABLE);
    await drain();
    expect(await Promise.all([first, far])).toEqual([0, 1].map(answerTo));
    expect(sent).toEqual([[0], [1]]);
  });

  describe('of a batch in which PostgreSQL refuses values', () => {
    /** Asks for so many. @returns the outcomes, the sizes of all batches, and how many statements ran at a time. */
    async function run(count: number, refused: (request: number) => boolean, code = '23514') {
      const sizes: number[] = [];
      const released: unknown[] = [];
      let running = 0;
      let most = 0;
      const session = { release: (e: unknown) => released.push(e), query: async () => ({}) };
      const connect = async () => session as unknown as PoolClient;
      const lane = new Lane<number, string>({ connect }, async (requests) => {
        sizes.push(requests.length);
        running += 1;
        most = Math.max(most, running);
        await endOfTurn();
        running -= 1;
        if (requests.some(refused)) {
          throw { code };
        }
        return requests.map(answerTo);
      });
      const later = performance.now() + 10_000;
      const asked = upTo(count).map((request) => lane.ask(request, later));
      const outcomes = await Promise.allSettled(asked);
      expect(released).toHaveLength(sizes.length);
      expect(most).toBeLessThanOrEqual(DATABASE_LIMITS.statementsPerLane);
      const expected = upTo(count).map((request) =>
        refused(request) ? { status: 'rejected', reason: { code } } : answered(request),
      );
      return { outcomes, expected, sizes, released };
    }

    it.each([2, 3, 100, 250, 256])('of %d, one costs twice the halvings', async (count) => {
      for (const one of [0, 1, Math.floor(count / 2), count - 1]) {
        const { outcomes, expected, sizes, released } = await run(count, (it) => it === one);
        expect(outcomes).toEqual(expected);
        expect(sizes.length).toBeLessThanOrEqual(2 * Math.ceil(Math.log2(count)) + 1);
        // The sessions stay open.
        expect(released.filter(Boolean)).toEqual([]);
      }
    });

    it.each([
      ['25', (request: number) => request % 10 === 3],
      ['all', () => true],
      ['half', (request: number) => request % 2 === 0],
    ])('of 250, %s fail alone, with fewer than 500 statements', async (_which, refused) => {
      const { outcomes, expected, sizes } = await run(250, refused);
      expect(outcomes).toEqual(expected);
      expect(sizes.length).toBeLessThanOrEqual(2 * 250 - 1);
    });

    it('all fail for another error, sent once, and their session is closed', async () => {
      const { outcomes, sizes, released } = await run(3, (request) => request === 1, '57014');
      const failed = { status: 'rejected', reason: { code: '57014' } };
      expect(outcomes).toEqual([failed, failed, failed]);
      expect(sizes).toEqual([3]);
      expect(released).toEqual([{ code: '57014' }]);
    });

    it('the halves are not sent if their deadline is too near then', async () => {
      const { ask, calls, sent } = manual();
      const both = Promise.allSettled([ask(0, 100), ask(1, 100)]);
      await turn();
      clock.tick(100);
      calls[0]!.reject({ code: '23514' });
      expect(await both).toMatchObject([{ reason: UNAVAILABLE }, { reason: UNAVAILABLE }]);
      expect(sent).toEqual([[0, 1]]);
    });
  });
});

it.each([
  ['once PostgreSQL has rolled back', () => ({}), undefined],
  ['closed, if it does not respond', () => Promise.reject(new Error('lost')), expect.any(Error)],
])(
  'a session on which PostgreSQL refused a value is returned %s',
  async (_when, respond, error) => {
    const released: unknown[] = [];
    let rollBack = () => {};
    const session = {
      query: () => new Promise((resolve) => (rollBack = () => resolve(respond()))),
      release: (reason?: Error) => released.push(reason),
    };
    const sessions = { connect: async () => session as unknown as PoolClient };
    const refused = Object.assign(new Error('refused'), { code: '23514' });
    const used = withSession(sessions, () => Promise.reject(refused));
    await turn();
    expect(released).toEqual([]);
    rollBack();
    await expect(used).rejects.toBe(refused);
    expect(released).toEqual([error]);
  },
);

const REFUSED = new Error('refused');

it.each<[string, () => Promise<unknown>, string]>([
  ['committed, if its work has a result', async () => 'a result', 'commit'],
  ['rolled back, if it has none', async () => undefined, 'rollback'],
  ['rolled back, if it fails', () => Promise.reject(REFUSED), 'rollback'],
])('a transaction is %s, before that is told', async (_what, work, end) => {
  const done: string[] = [];
  const query = (sql: string) => endOfTurn().then(() => done.push(sql));
  const session = { query } as unknown as PoolClient;
  const told = (outcome: Promise<unknown>) => outcome.catch((error: unknown) => error);
  expect(await told(inTransaction(session, work))).toBe(await told(work()));
  expect(done).toEqual(['begin', end]);
});
