import type { Socket } from 'node:net';
import { setImmediate as turn } from 'node:timers/promises';
import { Gate } from '../../src/gate/gate.js';
import type { Response } from '../../src/http/express-classes.js';
import { HttpLimits } from '../../src/http/limits.js';

const limits = Object.assign(new HttpLimits(), { handlers: 10, requestsPerTurn: 4 });
let handled: string[];
const ends: (() => void)[] = [];
let gate: Gate;

beforeEach(() => {
  const own: string[] = [];
  handled = own;
  gate = new Gate(limits);
  gate.recognize = ({ keyHash }) => keyHash;
  gate.handle = ({ statusMessage, onceEnded }) => {
    own.push(statusMessage);
    ends.push(...onceEnded);
  };
});

/** Requests of a connection, by name. */
function arrive(names: string[], network: string, keyHash?: string): Socket {
  const socket = { destroyed: false } as Socket;
  for (const statusMessage of names) {
    const response = { statusMessage, req: { socket, keyHash }, onceEnded: [] };
    gate.arrive(response as unknown as Response, network);
  }
  return socket;
}

const times = (count: number, name: string) => Array<string>(count).fill(name);

it('a turn of the event loop handles a few requests if many are in progress, and else as many as may be', async () => {
  arrive(times(18, 'any'), 'network', '1');
  await turn();
  expect(handled).toHaveLength(10);
  await turn();
  expect(handled).toHaveLength(14);
  ends.forEach((end) => end());
  await turn();
  expect(handled).toHaveLength(18);
});

it('a turn in which a connection was accepted is short, but handles two requests of each caller', async () => {
  arrive(times(30, 'of a flood'), 'a');
  gate.accepted();
  await turn();
  expect(handled).toHaveLength(2);
  ['b', 'c', 'd', 'e'].forEach((network) => arrive(times(2, network), network));
  gate.accepted();
  await turn();
  expect(handled.slice(2).toSorted()).toEqual([
    'b',
    'b',
    'c',
    'c',
    'd',
    'd',
    'e',
    'e',
    'of a flood',
    'of a flood',
  ]);
});

it('keys take turns with each other and with networks, from whatever network they come', async () => {
  arrive(times(5, 'without'), 'a');
  arrive(times(2, 'of a key'), 'a', '1');
  arrive(['of a key'], 'b', '1');
  arrive(['of another key'], 'a', '2');
  arrive(['of another network'], 'b');
  await turn();
  expect(handled.slice(0, 4)).toEqual([
    'without',
    'of a key',
    'of another key',
    'of another network',
  ]);
  expect(handled.slice(4)).toEqual([
    'without',
    'of a key',
    'without',
    'of a key',
    'without',
    'without',
  ]);
});

it('requests of a connection that is closed are not handled', async () => {
  Object.assign(arrive(times(10, 'left'), 'a'), { destroyed: true });
  gate.left(10);
  arrive(times(10, 'any'), 'a');
  await turn();
  expect(handled).toEqual(times(10, 'any'));
});
