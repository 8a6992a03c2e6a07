import type { Socket } from 'node:net';
import { setImmediate as turn } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import type { ExecutionContext } from '@nestjs/common';
import { AdmissionGuard } from '../../src/gate/admission.guard.js';
import { Gate } from '../../src/gate/gate.js';
import type { Response } from '../../src/http/express-classes.js';
import { HttpLimits } from '../../src/http/limits.js';
import { Turns } from '../../src/gate/turns.js';
import { FakeResponse, FakeSocket } from '../support/fake-response.js';

const limits = new HttpLimits();
let gate: Gate;

beforeEach(() => {
  Object.assign(limits, new HttpLimits(), { places: 4, admittedRequests: 200, requestsPerTurn: 4 });
  gate = new Gate(limits);
});

const times = (count: number, name: string) => Array<string>(count).fill(name);

describe('a turn of the event loop', () => {
  let handled: string[];
  beforeEach(() => {
    const own: string[] = [];
    handled = own;
    gate.recognize = ({ keyHash }) => keyHash;
    gate.handle = (response) => void own.push((response as unknown as FakeResponse).name);
  });

  /** Requests of a connection, by name. */
  function arrive(names: string[], network: string, keyHash?: string) {
    const socket = { writable: true };
    for (const name of names) {
      const response = new FakeResponse(name, socket, undefined, keyHash);
      response.req.network = network;
      gate.arrive(response as unknown as Response);
    }
    return socket;
  }

  it('handles a few requests if handlers have no places, and else as many as there are', async () => {
    limits.places = 10;
    arrive(times(18, 'any'), 'network', '1');
    await turn();
    expect(handled).toHaveLength(10);
    const inHandlers = times(10, 'in its handler').map((name) => new FakeResponse(name));
    inHandlers.forEach((one) => void gate.admit(one as unknown as Response, '1', 'GET', 1));
    await turn();
    expect(handled).toHaveLength(14);
    inHandlers.forEach((one) => one.end());
    await turn();
    expect(handled).toHaveLength(18);
  });

  it('handles a few requests if those of the last one took long, also a while ago, and else as many as places are free, whatever is read in between', async () => {
    limits.places = 100;
    let time = 0;
    let each = 5;
    const now = jest.spyOn(performance, 'now').mockImplementation(() => time);
    // A handler goes on when the turn is over.
    gate.handle = () => queueMicrotask(() => ((time += each), handled.push('any')));
    const turns: number[] = [];
    for (const took of [5, 5, 0.1, 0.1]) {
      arrive(times(30, 'any'), 'network', '1');
      each = took;
      const before = handled.length;
      await turn();
      turns.push(handled.length - before);
      // What has come is handled in further turns.
      while (handled.length % 30 > 0) {
        await turn();
      }
      time += 1_000;
    }
    // What takes long at once ends a turn.
    gate.handle = () => void ((time += 15), handled.push('any'));
    arrive(times(4, 'any'), 'network', '1');
    for (let before = handled.length; handled.length < 124; before = handled.length) {
      await turn();
      turns.push(handled.length - before);
    }
    now.mockRestore();
    expect(turns).toEqual([30, 4, 4, 30, 2, 2]);
  });

  it('goes on with large bodies of keys in turns, but not for clients that have left', async () => {
    limits.places = 3;
    limits.requestsPerTurn = 3;
    const goOn = (name: string, keyId: string) => {
      const response = new FakeResponse(name);
      gate.inTurn(response as unknown as Response, keyId, () => handled.push(name));
      return response;
    };
    ['first', 'left', 'second', 'third', 'fourth'].map((name) => goOn(name, '1'))[1]!.close();
    goOn('of another key', '2');
    await turn();
    expect(handled).toEqual(['first', 'of another key', 'second']);
    await turn();
    expect(handled.slice(3)).toEqual(['third', 'fourth']);
  });

  it('handles fewer requests of a network too if those of the last one took long', async () => {
    let time = 0;
    const now = jest.spyOn(performance, 'now').mockImplementation(() => time);
    gate.handle = () => queueMicrotask(() => ((time += 20), handled.push('any')));
    arrive(times(8, 'any'), 'network');
    const turns: number[] = [];
    for (let before = 0; before < 8; before = handled.length) {
      await turn();
      turns.push(handled.length - before);
    }
    now.mockRestore();
    expect(turns).toEqual([4, 2, 2]);
  });

  it('goes on with large bodies without a key in turns of their networks, beside keys', async () => {
    Object.assign(limits, { places: 8, requestsPerTurn: 8 });
    for (const network of ['a', 'a', 'a', 'b', 'b']) {
      const response = new FakeResponse(network);
      response.req.network = network;
      gate.inTurn(response as unknown as Response, undefined, () => handled.push(network));
    }
    arrive(['of a key'], 'any', '1');
    await turn();
    expect(handled.slice(0, 3).toSorted()).toEqual(['a', 'b', 'of a key']);
    expect(handled.slice(3)).toEqual(['a', 'b', 'a']);
  });

  it('is short if a connection was accepted in it, but handles a request of each key and of a few networks', async () => {
    limits.requestsPerTurn = 5;
    arrive(times(30, 'of a flood'), 'a');
    gate.accepted();
    await turn();
    expect(handled).toEqual(['of a flood']);
    ['b', 'c', 'd', 'e'].forEach((network) => arrive(times(2, network), network));
    arrive(times(3, 'of a key'), 'a', '1');
    gate.accepted();
    await turn();
    expect(handled.slice(1).toSorted()).toEqual([...'bcde', 'of a flood', 'of a key']);
  });

  it('handles requests of keys and of networks in turns, from whatever network a key comes', async () => {
    limits.requestsPerTurn = 10;
    arrive(times(5, 'without'), 'a');
    arrive(times(2, 'of a key'), 'a', '1');
    arrive(['of a key'], 'b', '1');
    arrive(['of another key'], 'a', '2');
    arrive(['of another network'], 'b');
    await turn();
    const rounds = [4, 6, 8, 10].map((end, i) => handled.slice([0, 4, 6, 8][i], end).toSorted());
    expect(rounds).toEqual([
      ['of a key', 'of another key', 'of another network', 'without'],
      ['of a key', 'without'],
      ['of a key', 'without'],
      ['without', 'without'],
    ]);
  });

  it('handles those of a key among the first, however many networks send others', async () => {
    for (let i = 0; i < 100; i += 1) {
      arrive(times(2, 'without'), `network ${i}`);
    }
    gate.accepted();
    arrive(['of a key'], 'a', '1');
    await turn();
    expect(handled).toHaveLength(1 + limits.requestsPerTurn);
    expect(handled).toContain('of a key');
  });

  it('handles no request without a remembered key while it is not known how much clients have not read', async () => {
    gate.crowded(true);
    arrive(times(3, 'without'), 'a');
    arrive(times(2, 'of a key'), 'a', '1');
    await turn();
    expect(handled).toEqual(times(2, 'of a key'));
    gate.crowded(false);
    await turn();
    expect(handled.slice(2)).toEqual(times(3, 'without'));
  });

  it('handles few requests without a remembered key, whose responses may be large, however many places are free', async () => {
    limits.places = 40;
    arrive(times(30, 'without'), 'a');
    await turn();
    expect(handled).toHaveLength(4);
  });

  it('handles no request of a connection that is closed', async () => {
    limits.requestsPerTurn = 10;
    arrive(times(10, 'left'), 'a').writable = false;
    arrive(times(10, 'any'), 'a');
    await turn();
    expect(handled).toEqual(times(10, 'any'));
  });

  it('keeps nothing of a request whose client leaves while it waits', async () => {
    gate.crowded(true);
    /** Not a variable of the test itself, which would keep the response. */
    const comeAndLeave = () => {
      const response = new FakeResponse('left');
      gate.arrive(response as unknown as Response);
      response.close();
      return new WeakRef(response);
    };
    const left = comeAndLeave();
    // A WeakRef holds until the end of its turn.
    await turn();
    setFlagsFromString('--expose-gc');
    (runInNewContext('gc') as () => void)();
    expect(left.deref()).toBeUndefined();
  });

  it('reads one connection that waits, of each network in turn', async () => {
    const sockets = [...'aaab'].map((network) => {
      const socket = new FakeSocket();
      gate.read(socket as unknown as Socket, network);
      return socket;
    });
    const areRead = () => sockets.map(({ isRead }) => isRead);
    const untilRead = async (count: number) => {
      while (areRead().filter(Boolean).length < count) {
        await turn();
      }
    };
    await untilRead(1);
    expect(areRead()).toEqual([true, false, false, false]);
    await untilRead(2);
    expect(areRead()).toEqual([true, false, false, true]);
    await untilRead(4);
  });

  it.each([0, 1])(
    'keeps no connection that is closed while it waits, of a network of which %d were read before',
    async (count) => {
      const sockets = Array.from({ length: 3 }, () => new FakeSocket());
      sockets.forEach((socket) => gate.read(socket as unknown as Socket, 'a'));
      const waiting = () => sockets.filter(({ isRead }) => !isRead);
      while (waiting().length > 3 - count) {
        await turn();
      }
      waiting().forEach((socket) => gate.left(socket as unknown as Socket, 'a'));
      expect(gate.mustWait('a')).toBe(false);
      await turn();
      expect(waiting()).toHaveLength(3 - count);
    },
  );

  it('reads none for a while after a flood', async () => {
    jest.useFakeTimers({ doNotFake: ['setImmediate', 'performance'] });
    const socket = new FakeSocket();
    gate.flooded();
    gate.read(socket as unknown as Socket, 'a');
    await turn();
    await turn();
    jest.advanceTimersByTime(limits.floodPause - 1);
    expect(socket.isRead).toBe(false);
    jest.advanceTimersByTime(1);
    expect(socket.isRead).toBe(true);
    jest.useRealTimers();
  });
});

/** A request of a key comes to its handler. @param name a letter for the key, and a number. */
class Coming extends FakeResponse {
  state: 'waiting' | 'in' | 'refused' | 'left' = 'waiting';
  error?: unknown;

  constructor(
    name: string,
    rows = 1,
    readonly operation = 'GET /v1/pets',
    deadline?: number,
  ) {
    super(name, undefined, deadline);
    try {
      const admitted = gate.admit(this as unknown as Response, name[0]!, operation, rows);
      if (admitted === true) {
        this.state = 'in';
      } else {
        admitted.then(
          () => (this.state = 'in'),
          (error) => this.refuse(error),
        );
      }
    } catch (error) {
      this.refuse(error);
    }
  }

  private refuse(error: unknown): void {
    this.state = 'refused';
    this.error = error;
    // The filter responds with 503.
    super.end();
  }

  override end(): void {
    super.end();
    this.state = 'left';
  }
}

describe('handlers', () => {
  let all: Map<string, Coming>;
  beforeEach(() => {
    all = new Map();
  });

  async function come(names: string, rows?: number, operation?: string): Promise<void> {
    names.split(' ').forEach((name) => all.set(name, new Coming(name, rows, operation)));
    await turn();
  }

  async function end(names: string): Promise<void> {
    names.split(' ').forEach((name) => all.get(name)!.end());
    await turn();
  }

  const are = (state: Coming['state']) =>
    [...all.values()].filter((one) => one.state === state).map(({ name }) => name);
  const expectIn = (names: string) => expect(are('in').join(' ')).toBe(names);

  it('have as many requests as there are places, and one more for each that ends', async () => {
    await come('a1 a2 a3 a4 a5 a6 a7');
    expectIn('a1 a2 a3 a4');
    expect(gate.load).toEqual({ inHandlers: 4, waiting: 3 });
    await end('a2 a1');
    expectIn('a3 a4 a5 a6');
    expect(gate.load).toEqual({ inHandlers: 4, waiting: 1 });
  });

  it('are not entered by a request whose client has left while it waited', async () => {
    await come('a1 a2 a3 a4 a5 a6');
    all.get('a5')!.close();
    expect(gate.load).toEqual({ inHandlers: 4, waiting: 1 });
    await end('a1');
    expectIn('a2 a3 a4 a6');
  });

  it('are left when the work for a client that has left ends, or at the deadline of its request', async () => {
    jest.useFakeTimers({ doNotFake: ['setImmediate'] });
    await come('a1 a2 a3 a4 a5 a6 a7');
    all.get('a1')!.close();
    all.get('a2')!.close();
    await turn();
    expectIn('a1 a2 a3 a4');
    await end('a2');
    expectIn('a1 a3 a4 a5');
    jest.advanceTimersByTime(4_999);
    await turn();
    expect(gate.load.inHandlers).toBe(4);
    ['a6', 'a7'].forEach((name) => all.get(name)!.close());
    await come('b1');
    jest.advanceTimersByTime(1);
    expect(gate.load.inHandlers).toBe(4);
    jest.useRealTimers();
  });

  it('are shared by those that have some, however many had some before', async () => {
    for (let i = 0; i < 20; i += 1) {
      await come('a1 b1');
      await end('a1 b1');
    }
    all.clear();
    await come('a1 a2 a3 a4 a5 b1 b2 b3');
    expectIn('a1 a2 a3 a4 b1 b2');
  });

  it('are entered at once by a key that has less than its share, though another has all places', async () => {
    await come('a1 a2 a3 a4 a5 b1 b2 b3');
    expectIn('a1 a2 a3 a4 b1 b2');
  });

  it('are entered by a request that waits when its key has less than its share, though another has all places', async () => {
    await come('a1 a2 a3 a4 b1 b2 b3 b4 b5');
    await end('b1 b2');
    expectIn('a1 a2 a3 a4 b3 b4');
  });

  it('are entered by keys in turns, whichever has more requests', async () => {
    await come('a1 a2 a3 a4 a5 a6 a7 b1 b2 b3 b4');
    await end('a1 a2 a3 a4');
    await end('b1 b2');
    expectIn('a5 a6 b3 b4');
  });

  it('are entered by the lists of a key whose creates have all places', async () => {
    await come('a1 a2 a3 a4 a5', 1, 'POST /v1/pets');
    await come('a6 a7 a8');
    expectIn('a1 a2 a3 a4 a6 a7');
  });

  it('have fewer requests that ask for many rows, and as many others', async () => {
    limits.places = 8;
    await come('a1 a2 a3 a4 a5', limits.rowsPerPlace * 2);
    await come('b1 b2 b3 b4 b5');
    expectIn('a1 a2 a3 a4 b1 b2 b3 b4');
    await end('a1 a2');
    expectIn('a3 a4 b1 b2 b3 b4');
    await end('b1');
    expectIn('a3 a4 a5 b2 b3 b4 b5');
    await end('b2 b3');
    expectIn('a3 a4 a5 b4 b5');
    expect(gate.load).toEqual({ inHandlers: 5, waiting: 0 });
  });

  it('are left to a request until its deadline, not longer: 503', async () => {
    jest.useFakeTimers({ doNotFake: ['setImmediate'] });
    await come('a1 a2 a3 a4');
    all.set('a5', new Coming('a5', 1, undefined, performance.now() + 1_100));
    all.set('a6', new Coming('a6', 1, undefined, performance.now() + 3_000));
    jest.advanceTimersByTime(1_000);
    await turn();
    expect(are('waiting')).toEqual(['a5', 'a6']);
    jest.advanceTimersByTime(100);
    await turn();
    expect(are('refused')).toEqual(['a5']);
    await end('a1');
    expect(are('in')).toContain('a6');
    jest.useRealTimers();
  });

  it('are not waited for beyond the deadline either after a while in which no request waited', async () => {
    jest.useFakeTimers({ doNotFake: ['setImmediate'] });
    await come('a1 a2 a3 a4 a5');
    await end('a1');
    jest.advanceTimersByTime(1_000);
    all.set('a6', new Coming('a6', 1, undefined, performance.now() + 1_000));
    jest.advanceTimersByTime(1_000);
    await turn();
    jest.useRealTimers();
    expect(are('refused')).toEqual(['a6']);
  });
});

describe('a request with a key', () => {
  const handler = () => {};
  const enter = (url: string, writable = true) => {
    const query = Object.fromEntries(new URL(url, 'http://test').searchParams);
    const request = { user: { keyId: '1' }, socket: { writable }, url, query };
    const context = {
      getType: () => 'http',
      getHandler: () => handler,
      getArgByIndex: (index: number) => [request, new FakeResponse('any')][index],
    };
    void new AdmissionGuard(gate).canActivate(context as unknown as ExecutionContext);
  };

  it.each([
    ['/v1/pets', 1],
    ['/v1/pets?limit=100', 101],
    ['/v1/pets?%6cimit=100', 101],
    ['/v1/pets?limit=-100', 1],
    ['/v1/pets?limit=x', 1],
    // Nobody has found out yet that it is too high.
    ['/v1/pets?limit=1000000', 1_001],
  ])('to %s comes to its handler as one that asks for %i rows', (url, rows) => {
    const admit = jest.spyOn(gate, 'admit');
    enter(url);
    expect(admit.mock.calls).toEqual([[expect.anything(), '1', handler, rows]]);
  });

  it('takes nothing if its client has left before', () => {
    enter('/v1/pets', false);
    expect(gate.load).toEqual({ inHandlers: 0, waiting: 0 });
  });
});

describe('a share', () => {
  const overloaded = { code: 'unavailable', message: 'The service is overloaded; try again.' };
  const comeOften = (count: number, key: string) =>
    Array.from({ length: count }, (_, i) => new Coming(key + i));
  const states = (requests: Coming[]) => new Set(requests.map(({ state }) => state));

  it('is half of all requests if a key is alone, and with others as much as one more would get', async () => {
    const those = comeOften(100, 'a');
    expect(new Coming('a').error).toMatchObject(overloaded);
    const others = comeOften(67, 'b');
    await turn();
    expect(states([...those, ...others])).toEqual(new Set(['in', 'waiting']));
    expect(new Coming('b').error).toMatchObject(overloaded);
    those[0]!.end();
    expect(new Coming('a').error).toMatchObject(overloaded);
  });

  it('is never refused, however many greedy keys there are: the newest requests of the greediest go', async () => {
    const greedy = [...'abcdef'].map((key) => comeOften(100, key));
    const modest = comeOften(20, 'm');
    await turn();
    expect(states(modest)).toEqual(new Set(['in', 'waiting']));
    const inAll = [...greedy, modest].flat().filter(({ state }) => /in|waiting/.test(state));
    expect(inAll).toHaveLength(200);
    // Those that came first stay, also of those that wait.
    const first = greedy[0]!.map(({ state }) => state);
    expect([first[0], first.at(-1)]).toEqual(['in', 'refused']);
    expect(first.lastIndexOf('waiting')).toBeLessThan(first.indexOf('refused'));
    for (const requests of greedy) {
      const [first, last] = [requests[0]!.state, requests.at(-1)!.state];
      expect([first, last]).not.toEqual(['refused', 'waiting']);
    }
  });

  it('has its newest request taken, of whatever operation', async () => {
    const [lists, creates] = ['GET', 'POST'].map((operation) =>
      Array.from({ length: 50 }, (_, i) => new Coming(`a${i}`, 1, operation)),
    ) as [Coming[], Coming[]];
    const others = [...comeOften(67, 'b'), ...comeOften(34, 'c')];
    await turn();
    const refused = [...lists, ...creates, ...others].filter(({ state }) => state === 'refused');
    expect(refused).toEqual([creates.at(-1)]);
  });

  it('is forgotten with the last request of its key', async () => {
    [...'abcdef'].forEach((key) => comeOften(10, key).forEach((one) => one.end()));
    expect(comeOften(101, 'x').filter(({ state }) => state === 'refused')).toHaveLength(1);
  });
});

/** Expects that of the requests of a key's operation none waits for one that came later. */
function expectInOrder(present: Coming[]): void {
  const states = new Map<string, string>();
  for (const { name, operation, state } of present) {
    const queue = `${name[0]} ${operation}`;
    states.set(queue, `${states.get(queue) ?? ''} ${state}`);
  }
  expect([...states.values()].filter((each) => /waiting.* in/.test(each))).toEqual([]);
}

/** @returns what gives integers from 0, below a count. */
function randomBelow(seed: number) {
  let random = seed;
  return (count: number) => {
    random = (random * 1_103_515_245 + 12_345) % 2 ** 31;
    return Math.floor((random / 2 ** 31) * count);
  };
}

it.each([1, 2, 3, 4, 5])(
  'in any order, each request that stays is handled once and in its turn, none without a remembered key amid a check (seed %i)',
  async (seed) => {
    const below = randomBelow(seed);
    const faults: string[] = [];
    const callers = ['key 1', 'key 2', 'net 1', 'net 2', 'net 3', 'net 4'];
    /** Of each caller, in the order in which they came. */
    const present = new Map<string, FakeResponse[]>(callers.map((caller) => [caller, []]));
    /** How often others were handled since the caller was, or had nothing that may be handled. */
    const others = new Map<string, number>();
    let isCrowded = false;
    gate.recognize = ({ keyHash }) => keyHash;
    gate.handle = (response) => {
      const one = response as unknown as FakeResponse;
      const { name } = one;
      const position = present.get(name)!.indexOf(one);
      if (position !== 0) {
        faults.push(`${name} had request ${position} of those that wait handled`);
      }
      present.get(name)!.splice(position, 1);
      if (isCrowded && name.startsWith('net')) {
        faults.push(`${name} had a request handled amid a check`);
      }
      for (const caller of callers) {
        const waits = present.get(caller)!.length > 0 && (!isCrowded || caller.startsWith('key'));
        const count = caller === name || !waits ? 0 : (others.get(caller) ?? 0) + 1;
        others.set(caller, count);
        if (count > 4 * callers.length) {
          faults.push(`${caller} waited while others had ${count} requests handled`);
        }
      }
    };
    for (let step = 0; step < 3_000; step += 1) {
      const caller = callers[below(callers.length)]!;
      const own = present.get(caller)!;
      for (let i = below(30) === 0 ? 40 : 1; i > 0; i -= 1) {
        const keyHash = caller.startsWith('key') ? caller : undefined;
        const one = new FakeResponse(caller, { writable: true }, undefined, keyHash);
        one.req.network = caller;
        own.push(one);
        const response = one as unknown as Response;
        if (below(2) === 0) {
          gate.arrive(response);
        } else {
          // A large body that is complete.
          gate.inTurn(response, keyHash, () => gate.handle(response));
        }
      }
      if (below(4) === 0) {
        const [one] = own.splice(below(own.length), 1);
        one!.close();
      }
      if (below(10) === 0) {
        gate.accepted();
      }
      if (below(25) === 0) {
        isCrowded = !isCrowded;
        gate.crowded(isCrowded);
      }
      if (below(2) === 0) {
        await turn();
      }
    }
    gate.crowded((isCrowded = false));
    for (let turns = 0; turns < 3_000 && [...present.values()].flat().length > 0; turns += 1) {
      await turn();
    }
    expect(faults).toEqual([]);
    expect([...present.values()].flat()).toEqual([]);
  },
);

it.each([1, 2, 3, 4, 5])(
  'in any order, no request of a modest key is refused or forgotten, and all that was taken returns (seed %i)',
  async (seed) => {
    const below = randomBelow(seed);
    const KEYS = 'abcdefghijklm';
    const present = new Set<Coming>();
    // Tens of thousands of calls of `expect` take most of this test's time.
    const faults: string[] = [];
    for (let step = 0; step < 3_000; step += 1) {
      const isBurst = below(20) === 0;
      const key = KEYS[below(isBurst ? 12 : 13)]!;
      for (let i = 0; i < (isBurst ? 60 : 1); i += 1) {
        const own = [...present].filter(({ name, state }) => name[0] === key && state !== 'left');
        const one = new Coming(key, [1, 21, 101][below(3)], ['GET', 'POST'][below(2)]);
        present.add(one);
        if (own.length < limits.admittedRequests / (KEYS.length + 2) && one.error !== undefined) {
          faults.push(
            `step ${step}: a request of ${key}, which had ${own.length}: ${(one.error as Error).message}`,
          );
        }
      }
      if (below(3) === 0) {
        await turn();
      }
      if (step % 30 === 0) {
        await turn();
        expectInOrder([...present]);
      }
      for (const one of [...present].filter(() => below(15) === 0)) {
        one.end();
        present.delete(one);
      }
      for (const one of present) {
        if (one.state === 'refused') {
          present.delete(one);
        }
      }
      const { waiting, inHandlers } = gate.load;
      if (present.size > limits.admittedRequests || (inHandlers === 0 && waiting > 0)) {
        faults.push(`step ${step}: ${present.size} present, ${inHandlers} in, ${waiting} waiting`);
      }
    }
    expect(faults).toEqual([]);
    present.forEach((one) => one.end());
    await turn();
    expect(gate.load).toEqual({ inHandlers: 0, waiting: 0 });
    expect(new Coming('z').state).toBe('in');
    expect(gate.load).toEqual({ inHandlers: 1, waiting: 0 });
  },
);

it.each([1, 2, 3])(
  'in any order, queues of thousands of items take turns, each with its oldest item (seed %i)',
  (seed) => {
    const below = randomBelow(seed);
    const turns = new Turns<string, number>();
    const queues = new Map<string, number[]>();
    /** Also the turn after which a queue has its next one. */
    const rest = (name: string, queue: number[]) => {
      queues.delete(name);
      if (queue.length > 0) {
        queues.set(name, queue);
      }
    };
    for (let item = 1; item <= 9_000; item++) {
      // It grows to thousands, and ends.
      const isGrowing = item < 4_000;
      const name = 'abc'[Math.floor(below(9) / 4)]!;
      const queue = queues.get(name) ?? [];
      const act = below(10);
      if (act < (isGrowing ? 8 : 1)) {
        turns.add(name, item);
        queues.set(name, [...queue, item]);
      } else if (act < 9) {
        const [first] = act === 8 ? [name] : queues.keys();
        const expected = queues.get(first!)?.shift();
        rest(first!, queues.get(first!) ?? []);
        expect(act === 8 ? turns.next(name) : turns.next()).toBe(expected);
      } else {
        const position = below(queue.length + 1);
        turns.delete(name, queue[position] ?? -1);
        queue.splice(position, 1);
        if (queue.length === 0) {
          queues.delete(name);
        }
      }
      expect(turns.queueCount).toBe(queues.size);
      expect(turns.size).toBe([...queues.values()].reduce((sum, { length }) => sum + length, 0));
    }
    expect([...turns.newest()]).toEqual([...queues.values()].map((queue) => queue.at(-1)));
  },
);
