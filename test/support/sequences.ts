import { once } from 'node:events';
import { connect } from 'node:net';
import { setImmediate as turn, setTimeout as wait } from 'node:timers/promises';
import fc from 'fast-check';
import { exchange, request } from './raw-http.js';

/**
 * What a client does on one connection. `send`: bytes, in which `{id}` stands for the id of each request; those of several
 * in a row share a packet. `apart`: what follows is another packet. `late`: it reads nothing until it has sent all, and
 * others that came later have had their responses.
 */
type Piece =
  | {
      send: string;
      /** Whether what follows may become a part of it, so that requests get no response of their own. */
      isOpen: boolean;
    }
  | 'apart'
  | 'late'
  | 'half-close'
  | 'reset';

const of = (line: string, headers: string[] = [], body?: string) =>
  request(line, ['X-Request-Id: {id}', ...headers], body);

/** Pieces of requests and of what is none. @param target a path that responds to GET. */
function pieces(target: string, key: string): fc.Arbitrary<Piece> {
  const auth = `Authorization: Bearer ${key}`;
  const json = 'Content-Type: application/json';
  const chunked = 'Transfer-Encoding: chunked';
  const rex = '{"name":"Rex","categoryId":7}';
  const chunk = (text: string) => `${text.length.toString(16)}\r\n${text}\r\n`;
  const get = of(`GET ${target}`);
  const whole: fc.Arbitrary<Piece> = fc
    .constantFrom(
      get,
      of(`HEAD ${target}`),
      of('GET /v1/pets?limit=2', [auth]),
      of('GET /v1/pets'),
      of('GET /no'),
      // More than a closed connection may leave to the system.
      of('GET /openapi.json'),
      of('GET /openapi.json', ['Connection: close']),
      of('POST /v1/pets', [auth, json], rex),
      of('POST /v1/pets', [json], rex),
      of('POST /v1/pets', [auth, json, 'Expect: 100-continue'], rex),
      of('POST /v1/pets', [auth, json, chunked]) + chunk(rex) + chunk(''),
      of('POST /v1/pets', [auth, json, chunked]) + '1\r\n{\r\n'.repeat(1_500) + chunk(''),
      of('POST /v1/pets', [auth, json], 'x'.repeat(20_000)),
      of(`GET ${target}`, ['Connection: close']),
      of(`GET ${target}`, ['Upgrade: h2c', 'Connection: Upgrade']),
      of(`GET ${target}`).replace('1.1', '1.0'),
      of(`GET ${target}`, ['Connection: keep-alive']).replace('1.1', '1.0'),
      of('POST /v1/pets', [auth, json, chunked]).replace('1.1', '1.0') + chunk(rex) + chunk(''),
      of(`GET ${target}`, Array<string>(260).fill('a:')),
      of(`GET ${target}`).replace('Host: test', 'Host: a b'),
    )
    .map((send) => ({ send, isOpen: false }));
  const many: fc.Arbitrary<Piece> = fc
    .constantFrom(2, 3, 18, 19, 20, 21, 22, 119, 130, 400)
    .map((count) => ({ send: get.repeat(count), isOpen: false }));
  const broken: fc.Arbitrary<Piece> = fc
    .constantFrom(
      'garbage\r\n\r\n',
      'CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n',
      'CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\nmore',
      `GET ${target} HTTP/1.1\r\nHost: te`,
      `GET /${'x'.repeat(20_000)} HTTP/1.1\r\n\r\n`,
      'PRI * HTTP/2.0\r\n\r\n',
      '\r\n\r\n',
      '\x16\x03\x01\x02\x00\x01\x00',
      of('POST /v1/pets', [auth, json, chunked]) + 'zz\r\n',
      of('POST /v1/pets', [json, chunked]) + 'zz\r\n',
      of('POST /v1/pets', [auth, json, 'Content-Length: 100']) + '{"name"',
      of('POST /v1/pets', [json, 'Content-Length: 2000000']) + 'x'.repeat(100_000),
    )
    .map((send) => ({ send, isOpen: true }));
  return fc.oneof(
    { arbitrary: whole, weight: 8 },
    { arbitrary: many, weight: 4 },
    { arbitrary: broken, weight: 3 },
    { arbitrary: fc.constant<Piece>('apart'), weight: 4 },
    { arbitrary: fc.constant<Piece>('late'), weight: 1 },
    { arbitrary: fc.constant<Piece>('half-close'), weight: 1 },
    { arbitrary: fc.constant<Piece>('reset'), weight: 1 },
  );
}

/** What each of 30 connections at once does. */
export const sequences = (target: string, key: string) =>
  fc.array(fc.array(pieces(target, key), { minLength: 1, maxLength: 8 }), {
    minLength: 30,
    maxLength: 30,
  });

let last = 0;

/**
 * Does what `all` say, each on a connection of its own. Throws if a response is malformed, out of order, doubled or missing,
 * if there are more than 20 and an error of a packet, or if a connection does not end in `patience` ms after its client
 * said that it would send nothing more.
 */
export async function converse(port: number, all: Piece[][], patience: number): Promise<void> {
  await Promise.all(all.map((each) => converseOn(port, each, patience)));
}

async function converseOn(port: number, all: Piece[], patience: number): Promise<void> {
  const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true, noDelay: true });
  const chunks: string[] = [];
  socket.setEncoding('latin1').on('data', (chunk: string) => chunks.push(chunk));
  // A server that closes a connection before it has read what follows its last request resets it. That is so for a
  // response with `Connection: close`, which Node ends, and for a flood.
  let isReset = false;
  socket.on('error', () => (isReset = true));
  const ended = once(socket, 'end').then(
    () => 'ended',
    () => 'ended',
  );
  const closed = new Promise((resolve) => socket.once('close', resolve));
  await once(socket, 'connect');
  const sent: Sent[] = [];
  let isOpen = false;
  let packet = '';
  let packets = 0;
  let hasUnread = false;
  let hasLeft = false;
  const flush = () => {
    if (packet !== '' && socket.writable) {
      socket.write(packet, 'latin1');
      packets += 1;
      // Node reads 64 KiB at once.
      hasUnread ||= packet.length > 65_536;
    }
    packet = '';
  };
  for (const piece of [...all, 'half-close' as const]) {
    if (typeof piece === 'object') {
      const isHead = piece.send.startsWith('HEAD');
      packet += piece.send.replaceAll('{id}', () => {
        const id = `sequence-${++last}`;
        sent.push({ id, isHead, mayLack: isOpen, isWhole: !isOpen && !piece.isOpen });
        return id;
      });
      isOpen ||= piece.isOpen;
      continue;
    }
    flush();
    if (piece === 'reset') {
      hasLeft = true;
      socket.resetAndDestroy();
      break;
    }
    if (piece === 'half-close') {
      socket.end();
      break;
    }
    if (piece === 'late') {
      socket.pause();
    }
    await turn();
    await turn();
  }
  if (all.includes('late') && !hasLeft) {
    for (let i = 0; i < 3; i += 1) {
      await exchange(port, request('GET /no'));
    }
    socket.resume();
  }
  const end = await Promise.race([ended, closed, wait(patience, 'open', { ref: false })]);
  const received = chunks.join('');
  socket.destroy();
  const shown = () => {
    const done = all.map((it) =>
      typeof it === 'string'
        ? it
        : `${it.send.split('\r\n', 1)[0]} … ${it.send.length} bytes, ${it.send.split('{id}').length - 1} ids`,
    );
    return `\n${done.join('\n')}\nreceived: ${JSON.stringify(received).slice(-1_000)}`;
  };
  if (end === 'open') {
    throw new Error(`A connection is open after ${patience} ms: ${shown()}`);
  }
  try {
    const mayBeReset = packets > 1 || hasUnread;
    expectOrder(received, sent, {
      packets,
      mayLack: hasLeft || (isReset && mayBeReset),
      // libuv shows a reset as an end if what came with it does not fill its buffer.
      mayBeCut: hasLeft || mayBeReset,
      hasOpen: isOpen,
    });
  } catch (error) {
    throw new Error(`${(error as Error).message}: ${shown()}`);
  }
}

interface Sent {
  id: string;
  isHead: boolean;
  /** Whether it may be a part of an earlier one. */
  mayLack: boolean;
  isWhole: boolean;
}

/** Throws if what was received is not a prefix of the responses to the requests, in order, and at most one last error. */
function expectOrder(
  received: string,
  sent: Sent[],
  {
    packets,
    mayLack,
    mayBeCut,
    hasOpen,
  }: { packets: number; mayLack: boolean; mayBeCut: boolean; hasOpen: boolean },
): void {
  let rest = received.replaceAll('HTTP/1.1 100 Continue\r\n\r\n', '');
  let next = 0;
  let responses = 0;
  let isOver = false;
  while (rest !== '') {
    const head = /^HTTP\/1\.1 (\d{3}) [^\r]+\r\n(.*?)\r\n\r\n/s.exec(rest);
    if (head === null) {
      if (mayLack || (mayBeCut && !rest.includes('\r\n\r\n') && rest.startsWith('HTTP/1.1 '))) {
        return;
      }
      throw new Error('What came is no response');
    }
    const [all, status, lines] = head;
    const fields = Object.fromEntries(
      lines!.split('\r\n').map((line) => {
        const [, name, value] = /^([\w-]+): (.*)$/.exec(line)!;
        return [name!.toLowerCase(), value!];
      }),
    );
    if (isOver) {
      throw new Error(`${status} came after the last response`);
    }
    if (Number(status) >= 500 && status !== '503') {
      throw new Error(`A response is ${status}`);
    }
    const id = fields['x-request-id'];
    isOver = fields['connection'] === 'close';
    // The port of the metrics has no ids.
    const isOfRequest = id === undefined || id.startsWith('sequence-');
    if (!isOfRequest && !isOver && !hasOpen) {
      throw new Error('A response to no request does not end the connection');
    }
    let isHead = false;
    if (isOfRequest) {
      while (id !== undefined && sent[next]?.mayLack && sent[next]!.id !== id) {
        next += 1;
      }
      if (id !== undefined && sent[next]?.id !== id) {
        throw new Error(`The response to ${id} came in place of that to ${sent[next]?.id}`);
      }
      isHead = sent[next]?.isHead === true;
      next += 1;
      responses += 1;
    }
    const follows = rest.slice(all.length);
    const hasBody = isHead ? !/^(HTTP|$)/.test(follows) : !['204', '304'].includes(status!);
    if (isHead && hasBody && !hasOpen) {
      throw new Error('The response to HEAD has a body');
    }
    // Node sends none in HTTP/1.0 if the handler sets none: the end of the connection is that of the body.
    const length = fields['content-length'] ?? rest.length - all.length;
    const end = all.length + (hasBody ? Number(length) : 0);
    if (rest.length < end && !mayBeCut) {
      throw new Error('A response is cut short');
    }
    rest = rest.slice(end);
  }
  if (packets === 1 && responses > 21) {
    throw new Error(`A packet got ${responses} responses`);
  }
  if (!mayLack && received === '' && sent[0]?.isWhole) {
    throw new Error('The first request got no response');
  }
}
