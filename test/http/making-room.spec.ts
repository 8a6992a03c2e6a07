import { EventEmitter } from 'node:events';
import type { Socket } from 'node:net';
import { setImmediate as turn } from 'node:timers/promises';
import fc from 'fast-check';
import { Gate } from '../../src/gate/gate.js';
import { Connections } from '../../src/http/connections.js';
import type { Response } from '../../src/http/express-classes.js';
import { HttpLimits } from '../../src/http/limits.js';
import { ListenerErrors } from '../../src/http/listener-errors.js';

const limits = Object.assign(new HttpLimits(), { connections: 3, pendingRequests: 4 });

/** What a request waits for: its own body, its handler, or its client, which does not read the response. */
const STATES = ['its body', 'its handler', 'its client'] as const;
type State = (typeof STATES)[number];

/** What is used of a response and its request. */
class FakeResponse extends EventEmitter {
  readonly headersSent = false;
  readonly req;

  constructor(socket: FakeSocket) {
    super();
    const counts = { headBytes: 0, bodyBytes: 0, chunks: 0, readableLength: 0 };
    const head = { headers: {}, httpVersion: '1.1', receivedAt: performance.now() };
    this.req = { ...counts, ...head, socket, complete: false };
  }

  isEnded = false;
  closed = false;

  get writableEnded(): boolean {
    return this.isEnded;
  }

  get writableNeedDrain(): boolean {
    return false;
  }

  setHeader(): void {}

  noteClosed(): void {}

  become(state: State): void {
    this.req.complete = state !== 'its body';
    this.isEnded = state === 'its client';
  }
}

/** What is used of a socket. */
class FakeSocket extends EventEmitter {
  readonly bytesRead = 0;
  bytesWritten = 0;
  writable = true;
  isRead = true;
  destroyed = false;
  upgraded = false;
  usedAt = performance.now();
  readonly responses: FakeResponse[] = [];

  constructor(readonly remoteAddress = '127.0.0.1') {
    super();
  }

  setTimeout(): void {}

  isPaused = () => !this.isRead;

  pause(): this {
    this.isRead = false;
    return this;
  }

  resume(): void {
    this.isRead = true;
    this.emit('resume');
  }

  end(): this {
    this.writable = false;
    return this;
  }

  resetAndDestroy(): void {
    this.destroy();
  }

  destroySoon(): void {
    this.destroy();
  }

  /** Node emits `close` later. */
  destroy(): void {
    this.destroyed = true;
    this.writable = false;
  }

  waitsFor(state: State): boolean {
    return this.responses.every(({ req, isEnded }) =>
      state === 'its client' ? isEnded : !req.complete || isEnded,
    );
  }
}

const states = fc.constantFrom(...STATES);
const which = fc.nat(20);
const steps = fc.oneof(
  { weight: 4, arbitrary: fc.record({ act: fc.constant('connect' as const) }) },
  { weight: 5, arbitrary: fc.record({ act: fc.constant('send' as const), which, state: states }) },
  {
    weight: 3,
    arbitrary: fc.record({ act: fc.constant('become' as const), which, state: states }),
  },
  { weight: 2, arbitrary: fc.record({ act: fc.constant('complete' as const), which }) },
  { weight: 1, arbitrary: fc.record({ act: fc.constant('upgrade' as const), which }) },
  { weight: 1, arbitrary: fc.record({ act: fc.constant('leave' as const), which }) },
  { weight: 1, arbitrary: fc.record({ act: fc.constant('tell' as const) }) },
);

/** Milliseconds between two steps. Connections are in the order in which they were last used, by the second. */
const STEP = 800;

const readers = { read() {}, left() {}, mustWait: () => false, flooded() {}, crowded() {} };

const started: Connections[] = [];
afterEach(() => started.splice(0).forEach((connections) => connections.stopWatching()));

let now: jest.SpyInstance;
beforeEach(() => {
  now = jest.spyOn(performance, 'now').mockReturnValue(10_000);
});
afterEach(() => {
  now.mockRestore();
  jest.useRealTimers();
});

it('in any order of what clients do, room is made by a connection that waits for its client alone, the idlest, and counts return', () => {
  const play = (played: (typeof steps extends fc.Arbitrary<infer Step> ? Step : never)[]) => {
    const errors = new ListenerErrors();
    const connections = new Connections(limits, errors, readers, () => false);
    started.push(connections);
    let open: FakeSocket[] = [];
    const all: FakeSocket[] = [];
    const closed = (sockets: FakeSocket[]) => sockets.filter(({ destroyed }) => destroyed);
    /** Expects that one of these was closed, and none that was used much later than another one, if there are any. */
    const expectRoom = (mayGo: FakeSocket[], otherwise: FakeSocket[]) => {
      const gone = closed(open);
      if (mayGo.length === 0) {
        expect(gone).toEqual(otherwise);
      } else {
        expect(gone).toHaveLength(1);
        expect(mayGo).toContain(gone[0]);
        const oldest = Math.min(...mayGo.map(({ usedAt }) => usedAt));
        expect(gone[0]!.usedAt).toBeLessThanOrEqual(oldest + 1_000);
      }
    };
    const tellClosed = () => closed(all).forEach((socket) => socket.emit('close'));
    for (const step of played) {
      now.mockReturnValue(performance.now() + STEP);
      const socket = open['which' in step ? step.which % (open.length || 1) : 0]!;
      if (step.act === 'tell') {
        tellClosed();
      } else if (step.act === 'connect') {
        const isFull = open.length === limits.connections;
        const idle = open.filter((one) => !one.upgraded && one.waitsFor('its body'));
        const next = new FakeSocket();
        open.push(next);
        all.push(next);
        connections.accept(next as unknown as Socket);
        if (isFull) {
          expectRoom(idle, [next]);
        } else {
          expect(closed(open)).toEqual([]);
        }
      } else if (open.length === 0 || (socket.upgraded && step.act !== 'leave')) {
        continue;
      } else if (step.act === 'send') {
        const pending = open.reduce((sum, { responses }) => sum + responses.length, 0);
        const idle = open.filter(
          (one) =>
            one !== socket &&
            !one.upgraded &&
            one.responses.length > 0 &&
            one.waitsFor('its client'),
        );
        const response = new FakeResponse(socket);
        socket.usedAt = performance.now();
        socket.responses.push(response);
        const connection = connections.get(socket as unknown as Socket)!;
        const isTaken = connections.noteRequest(response as unknown as Response, connection);
        if (pending >= limits.pendingRequests) {
          expectRoom(idle, socket.responses.length > 1 ? [socket] : []);
        } else {
          expect(closed(open)).toEqual([]);
        }
        expect(isTaken).toBe(!socket.destroyed);
        response.become(step.state);
      } else if (step.act === 'become') {
        socket.responses.at(-1)?.become(step.state);
      } else if (step.act === 'complete') {
        const response = socket.responses.shift();
        if (response !== undefined) {
          response.become('its client');
          socket.usedAt = performance.now();
          response.closed = true;
          response.emit('close');
        }
      } else if (step.act === 'upgrade' && socket.responses.length === 0) {
        socket.upgraded = true;
        connections.upgrade(socket as unknown as Socket);
      } else if (step.act === 'leave') {
        socket.destroy();
        // Of a client that leaves, the service knows then.
        socket.emit('close');
      }
      open = open.filter(({ destroyed }) => !destroyed);
    }
    open.forEach((socket) => socket.destroy());
    tellClosed();
    expect(all.some((socket) => connections.get(socket as unknown as Socket))).toBe(false);
    expect(errors.counts).toEqual({});
  };
  fc.assert(fc.property(fc.array(steps, { minLength: 10, maxLength: 60 }), play), {
    numRuns: 600,
  });
});

it('what clients hold is looked at each second, however many they are, until the server is closed', () => {
  jest.useFakeTimers();
  const connections = new Connections(limits, new ListenerErrors(), readers, () => false);
  const watch = jest.spyOn(connections.held, 'watch');
  for (let i = 0; i < limits.connections; i += 1) {
    connections.accept(new FakeSocket() as unknown as Socket);
  }
  jest.advanceTimersByTime(3_000);
  expect(watch).toHaveBeenCalledTimes(3);
  connections.stopWatching();
  jest.advanceTimersByTime(3_000);
  expect(watch).toHaveBeenCalledTimes(3);
});

it('a connection that Node is done with makes room as any other one, if it is the idlest', () => {
  jest.useFakeTimers();
  const connections = new Connections(limits, new ListenerErrors(), new Gate(limits), () => false);
  started.push(connections);
  const sockets = Array.from({ length: limits.connections }, () => new FakeSocket());
  for (const socket of sockets) {
    connections.accept(socket as unknown as Socket);
    const response = new FakeResponse(socket);
    const connection = connections.get(socket as unknown as Socket)!;
    connections.noteRequest(response as unknown as Response, connection);
    response.emit('close');
  }
  const [done] = sockets as [FakeSocket];
  done.bytesWritten = 10_000;
  done.destroy();
  expect(done.destroyed).toBe(false);
  connections.accept(new FakeSocket() as unknown as Socket);
  expect(sockets.filter(({ destroyed }) => destroyed)).toEqual([done]);
  jest.useRealTimers();
});

describe('a flood: requests after the last one of a connection', () => {
  const own = Object.assign(new HttpLimits(), { excessPerConnection: 3, excess: 5 });
  let gate: Gate;
  let connections: Connections;
  beforeEach(() => {
    jest.useFakeTimers({ doNotFake: ['nextTick', 'performance', 'setImmediate'] });
    gate = new Gate(own);
    const isProxy = (address: string) => address === '10.0.0.9';
    connections = new Connections(own, new ListenerErrors(), gate, isProxy);
    started.push(connections);
  });

  const open = (address: string) => {
    const socket = new FakeSocket(address);
    connections.accept(socket as unknown as Socket);
    return socket;
  };
  /** @returns a connection with an unfinished request and so many after its last one, and its response. */
  const flood = (excess: number) => {
    const socket = open('10.0.0.1');
    const connection = connections.get(socket as unknown as Socket)!;
    const response = new FakeResponse(socket);
    connections.noteRequest(response as unknown as Response, connection);
    connection.end(() => 'its last words');
    for (let i = 0; i < excess; i += 1) {
      connections.noteExcess(socket as unknown as Socket);
    }
    return { socket, response };
  };

  it('has the connections of its network read in turns, after a pause, and new ones too, but no others', async () => {
    const sockets = ['10.0.0.1', '10.0.0.1', '10.0.0.2', '10.0.0.9'].map(open);
    const areRead = () => sockets.map(({ isRead }) => isRead);
    flood(2);
    expect(areRead()).toEqual([true, true, true, true]);
    flood(3);
    sockets.push(open('10.0.0.1'));
    await turn();
    await turn();
    expect(areRead()).toEqual([false, false, true, true, false]);
    // It waits no longer.
    sockets[0]!.emit('close');
    jest.advanceTimersByTime(own.floodPause);
    expect(areRead()).toEqual([false, true, true, true, false]);
    sockets[4]!.emit('close');
    expect(gate.mustWait('10.0.0.1')).toBe(false);
  });

  it('is one too if its connection was closed, because there are too many of all, or too many requests', async () => {
    const others = ['10.0.0.3', '10.0.0.1'].map(open);
    flood(2);
    flood(2);
    // The sixth of all closes its connection, of whose packet two more are parsed.
    expect(flood(1).socket.destroyed).toBe(false);
    const { socket } = flood(1);
    expect(socket.destroyed).toBe(true);
    expect(others.map(({ isRead }) => isRead)).toEqual([true, true]);
    connections.noteExcess(socket as unknown as Socket);
    connections.noteExcess(socket as unknown as Socket);
    expect(others.map(({ isRead }) => isRead)).toEqual([true, false]);
    socket.emit('close');
    // None of a closed connection is counted.
    expect(flood(0).socket.destroyed).toBe(false);
    expect(flood(1).socket.destroyed).toBe(true);
  });

  it('is not read on, and ends at once after the responses before it', () => {
    const [few, many] = [flood(1), flood(3)];
    for (const { socket, response } of [few, many]) {
      // As Node does when it has sent what waited.
      socket.resume();
      expect(socket.isRead).toBe(false);
      response.emit('close');
      // What still comes is discarded: a reset might take the response from the client.
      expect(socket.isRead).toBe(true);
    }
    expect([few, many].map(({ socket }) => [socket.writable, socket.destroyed])).toEqual([
      [false, false],
      [false, true],
    ]);
  });

  it('is closed at once if there are too many in all, which counts none of those that are closed', () => {
    for (let i = 0; i < 3; i += 1) {
      const { socket } = flood(5);
      expect(socket.destroyed).toBe(false);
      const other = flood(1).socket;
      expect(other.destroyed).toBe(true);
      other.emit('close');
      socket.emit('close');
    }
  });
});
