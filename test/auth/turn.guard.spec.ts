import { HttpLimits } from '../../src/http/limits.js';
import { TurnGuard } from '../../src/auth/turn.guard.js';
import { FakeResponse } from '../support/fake-response.js';

describe('TurnGuard', () => {
  const limits = Object.assign(new HttpLimits(), { handlers: 4 });
  let guard: TurnGuard;
  /** The names of the requests in their handlers, in the order in which they came in. */
  let started: string[];
  const responses = new Map<string, FakeResponse>();
  beforeEach(() => {
    guard = new TurnGuard(limits);
    started = [];
  });

  /** Requests come. @param names a letter for the key, and a number. */
  async function come(names: string, method = 'GET', destroyed = false): Promise<void> {
    for (const name of names.split(' ')) {
      const user = { keyId: name[0] };
      const request = { method, route: { path: '/v1/pets' }, user, socket: { destroyed } };
      responses.set(name, new FakeResponse());
      const context = { getArgByIndex: (i: number) => [request, responses.get(name)][i] };
      void Promise.resolve(guard.canActivate(context as any)).then(() => started.push(name));
    }
    await settled();
  }

  async function end(names: string): Promise<void> {
    names.split(' ').forEach((name) => responses.get(name)!.end());
    await settled();
  }

  const settled = () => new Promise((resolve) => setImmediate(resolve));
  const expectStarted = (names: string) => expect(started).toEqual(names.split(' '));

  it('lets in as many requests as may be handled, and one more for each that ends', async () => {
    await come('a1 a2 a3 a4 a5 a6 a7');
    expectStarted('a1 a2 a3 a4');
    expect(guard.load).toEqual({ places: 4, waiting: 3 });
    await end('a2 a1');
    expectStarted('a1 a2 a3 a4 a5 a6');
    expect(guard.load).toEqual({ places: 4, waiting: 1 });
  });

  it('passes over a request whose client has left, before it came or while it waited', async () => {
    await come('a0', 'GET', true);
    await come('a1 a2 a3 a4 a5 a6');
    responses.get('a5')!.close();
    expect(guard.load).toEqual({ places: 4, waiting: 1 });
    await end('a1');
    expectStarted('a1 a2 a3 a4 a6');
  });

  it('lets in a key that has less than its share at once, though another has all places', async () => {
    await come('a1 a2 a3 a4 a5 b1 b2 b3');
    expectStarted('a1 a2 a3 a4 b1 b2');
  });

  it('lets keys take turns, whichever has more requests', async () => {
    await come('a1 a2 a3 a4 a5 a6 a7 b1 b2 b3 b4');
    await end('a1 a2 a3 a4');
    await end('b1 b2');
    expectStarted('a1 a2 a3 a4 b1 b2 a5 b3 a6 b4');
  });

  it('lets in the lists of a key whose creates have all places', async () => {
    await come('a1 a2 a3 a4 a5', 'POST');
    await come('a6 a7 a8');
    expectStarted('a1 a2 a3 a4 a6 a7');
  });

  it('lets in fewer requests of an operation whose responses are large, for a minute, and as many others', async () => {
    jest.useFakeTimers({ doNotFake: ['setImmediate'] });
    limits.handlers = 8;
    await come('a1 a2 a3 a4 a5 a6 a7 a8');
    responses.get('a1')!.bytes = limits.placeBytes + 1;
    await end('a1 a2 a3 a4 a5 a6 a7 a8');
    await come('a9 aa ab ac ad');
    await come('b1 b2 b3 b4 b5');
    expect(started.slice(8)).toEqual('a9 aa ab ac b1 b2 b3 b4'.split(' '));
    await end('a9 aa ab ac ad b1 b2 b3 b4 b5');
    jest.advanceTimersByTime(limits.sizeTimeout);
    started = [];
    await come('c1 a1 a2 a3 a4 a5 a6 a7 a8');
    expectStarted('c1 a1 a2 a3 a4 a5 a6 a7');
    jest.useRealTimers();
    limits.handlers = 4;
  });

  it('forgets keys that have no requests', async () => {
    await come('a1 a2 a3 a4 b1 c1');
    await end('b1 c1');
    await come('d1 d2 d3');
    expectStarted('a1 a2 a3 a4 b1 c1 d1 d2');
  });
});
