import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { networkInterfaces } from 'node:os';
import { type AddressInfo, connect, createServer, Socket } from 'node:net';
import { Connection } from '../../src/http/connection.js';
import { Request, type Response } from '../../src/http/express-classes.js';
import { HeldBytes } from '../../src/http/held-bytes.js';
import { HttpLimits } from '../../src/http/limits.js';
import { until } from '../support/until.js';

afterEach(() => jest.useRealTimers());

/** A connection with a response that waits for the one before it, so that its client has received nothing. */
function waitingConnection(limits: HttpLimits) {
  const resetAndDestroy = jest.fn();
  const socket = {
    bytesRead: 0,
    readableLength: 0,
    bytesWritten: 0,
    writableLength: 0,
    resetAndDestroy,
  };
  const connection = new Connection(socket as unknown as Socket, 'its network', limits);
  connection.responses.push({ writableLength: 10, req: { headBytes: 0 } } as never);
  return { connection, socket, resetAndDestroy };
}

it('a client that has received nothing yet has its time, however long the service has run', () => {
  const limits = Object.assign(new HttpLimits(), { socketTimeout: performance.now() / 2 });
  const { connection, socket, resetAndDestroy } = waitingConnection(limits);
  const held = new HeldBytes(limits, () => [connection], { crowded: () => {} });
  held.check();
  expect(resetAndDestroy).not.toHaveBeenCalled();
  limits.socketTimeout = 0;
  // Node has not sent it.
  Object.assign(socket, { bytesWritten: 1_000, writableLength: 1_000 });
  held.check();
  expect(resetAndDestroy).toHaveBeenCalledTimes(1);
});

it('a client that reads slowly has the whole time again whenever it has received something', () => {
  jest.useFakeTimers();
  const limits = new HttpLimits();
  const { connection, socket, resetAndDestroy } = waitingConnection(limits);
  const held = new HeldBytes(limits, () => [connection], { crowded: () => {} });
  const checkAfter = (milliseconds: number) => {
    jest.advanceTimersByTime(milliseconds);
    held.check();
  };
  for (let i = 0; i < 3; i += 1) {
    socket.bytesWritten += 1;
    checkAfter(0);
    checkAfter(limits.socketTimeout - 1);
  }
  expect(resetAndDestroy).not.toHaveBeenCalled();
  checkAfter(2);
  expect(resetAndDestroy).toHaveBeenCalledTimes(1);
});

it('if too many bytes are held, those go who hold most, also if they read a little: of an address, first those that read nothing', () => {
  const limits = Object.assign(new HttpLimits(), { heldBytes: 1_000 });
  const reset: string[] = [];
  const connections = ['big reader', 'big', 'small reader', 'small'].map((name) => {
    const socket = {
      bytesRead: 0,
      readableLength: 0,
      bytesWritten: 1,
      writableLength: 0,
      resetAndDestroy: () => reset.push(name),
    };
    const connection = new Connection(socket as unknown as Socket, name.split(' ')[0]!, limits);
    connection.responses.push({ writableLength: 400, req: { headBytes: 0 } } as never);
    return { name, socket, connection };
  });
  const [bigReader, , smallReader] = connections;
  bigReader!.connection.responses[0] = { writableLength: 900, req: { headBytes: 0 } } as never;
  const held = new HeldBytes(limits, () => connections.map(({ connection }) => connection), {
    crowded: () => {},
  });
  limits.heldBytes = Infinity;
  held.check();
  bigReader!.socket.bytesWritten += 1;
  smallReader!.socket.bytesWritten += 1;
  limits.heldBytes = 1_000;
  held.check();
  expect(reset).toEqual(['big', 'big reader']);
});

it('of an address, those go first whose requests do not arrive or who read nothing, and of these who hold most, as few as must', () => {
  const limits = Object.assign(new HttpLimits(), { heldBytes: 1_000 });
  const reset: string[] = [];
  const connections = Object.entries({ reads: 900, small: 100, large: 300, sends: 0 }).map(
    ([name, writableLength]) => {
      const { connection, socket, resetAndDestroy } = waitingConnection(limits);
      resetAndDestroy.mockImplementation(() => reset.push(name));
      connection.responses[0] = { writableLength, req: { headBytes: 0 } } as never;
      // What arrives counts as strings.
      Object.assign(socket, { bytesRead: name === 'sends' ? 200 : 0 });
      socket.bytesWritten = name === 'reads' ? 1 : 0;
      return connection;
    },
  );
  new HeldBytes(limits, () => connections, { crowded: () => {} }).check();
  expect(reset).toEqual(['sends', 'large']);
});

it('every five seconds, those are looked for who receive nothing, and each second if much arrives', () => {
  jest.useFakeTimers();
  const limits = Object.assign(new HttpLimits(), { socketTimeout: -1 });
  const { connection, socket, resetAndDestroy } = waitingConnection(limits);
  const held = new HeldBytes(limits, () => [connection], { crowded: () => {} });
  const watch = () => {
    jest.advanceTimersByTime(1_000);
    held.watch();
  };
  const resets = Array.from({ length: 6 }, () => {
    watch();
    return resetAndDestroy.mock.calls.length;
  });
  expect(resets).toEqual([0, 0, 0, 0, 1, 1]);
  socket.bytesRead = limits.heldBytes / 4;
  watch();
  expect(resetAndDestroy).toHaveBeenCalledTimes(2);
  // Or if Node is done with one, whose client may have read by now.
  socket.bytesRead = 0;
  connection.state = 'done';
  watch();
  expect(resetAndDestroy).toHaveBeenCalledTimes(3);
});

it('bodies that wait to be read are held, also when no further request is handled', () => {
  const socket = { bytesRead: 0, readableLength: 0, writable: false };
  const connection = new Connection(socket as Socket, 'its network', new HttpLimits());
  const req = {
    headBytes: 100,
    bodyBytes: 60_000,
    complete: true,
    headers: {},
    readableLength: 60_000,
  };
  socket.bytesRead = 60_100;
  connection.noteRequest({ req } as unknown as Response);
  expect(connection.arrivingBytes).toBe(60_000);
  connection.end(() => '');
  expect(connection.arrivingBytes).toBe(60_000);
  // What follows a CONNECT, whose socket nobody reads.
  socket.readableLength = 50_000;
  expect(connection.arrivingBytes).toBe(110_000);
});

it('a head that comes after the last request is held', () => {
  const socket = { bytesRead: 100, readableLength: 0 };
  const connection = new Connection(socket as Socket, 'its network', new HttpLimits());
  const headers = { upgrade: 'x', connection: 'upgrade' };
  const req = { headBytes: 100, bodyBytes: 0, complete: true, headers };
  connection.noteRequest({ req, headersSent: false, setHeader: () => {} } as unknown as Response);
  expect(connection.state).toBe('last');
  socket.bytesRead += 15_000;
  expect(connection.arrivingBytes).toBe(15_000);
});

it('a connection that is reset while it is being ended is closed', async () => {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  for (let i = 0; i < 20; i += 1) {
    const client = connect((server.address() as AddressInfo).port, '127.0.0.1').resume();
    client.on('error', () => {});
    const [socket] = await once(server, 'connection');
    socket.on('error', () => {});
    const connection = new Connection(socket, 'its network', new HttpLimits());
    const isClosed = once(socket, 'close');
    // As after a response, and by a timer.
    setImmediate(() => {
      socket.end('x');
      setTimeout(() => connection.reset(), 0);
    });
    await isClosed;
    client.destroy();
  }
  server.close();
}, 20_000);

it.each([1_000, 20_000])(
  'bodies of %d bytes, behind which others were pipelined, are not held once their responses are complete',
  (bodyBytes) => {
    const socket = { bytesRead: 0, readableLength: 0 };
    const connection = new Connection(socket as Socket, 'its network', new HttpLimits());
    for (let i = 0; i < 20; i += 1) {
      const headers = { 'content-length': '' };
      const req = { headBytes: 100, bodyBytes, complete: true, headers };
      socket.bytesRead += 100 + bodyBytes;
      connection.noteRequest({ req } as unknown as Response);
    }
    for (let left = 19; left >= 0; left -= 1) {
      connection.remove(connection.responses[0]!);
      expect(connection.arrivingBytes).toBe(left * bodyBytes);
    }
  },
);

const hasIpv6 = Object.values(networkInterfaces()).some((all) =>
  all!.some(({ address }) => address === '::1'),
);
// Skipped elsewhere: only Linux tells how much a client has not read, and without IPv6 no socket is for both families.
const itOfLinux = process.platform === 'linux' && hasIpv6 ? it : it.skip;

itOfLinux.each(['127.0.0.1', '::1'])(
  'what the system holds for a client at %s that does not read is held, also on a socket for both families',
  async (host) => {
    const server = createServer().listen(0, '::');
    await once(server, 'listening');
    const client = connect((server.address() as AddressInfo).port, host).pause();
    client.on('error', () => {});
    const [socket] = (await once(server, 'connection')) as [Socket];
    const limits = Object.assign(new HttpLimits(), { heldBytes: 10_000 });
    const connection = new Connection(socket, 'its network', limits);
    const held = new HeldBytes(limits, () => [connection], { crowded: () => {} });
    // More than the client's side of the system takes.
    socket.on('error', () => {}).write(Buffer.alloc(16 * 1024 * 1024));
    const reset = jest.spyOn(socket, 'resetAndDestroy');
    held.check();
    expect(reset).toHaveBeenCalledTimes(1);
    client.destroy();
    server.close();
  },
);

itOfLinux(
  'a connection that Node is done with is closed, though its client leaves a little unread',
  async () => {
    const server = createServer().listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    const client = connect(port, '127.0.0.1').pause();
    client.on('error', () => {});
    const [socket] = (await once(server, 'connection')) as [Socket];
    socket.on('error', () => {});
    const row = RegExp(`:${port.toString(16).padStart(4, '0')} [0-9A-F:]+ 01 ([0-9A-F]+)`, 'i');
    const unread = () => parseInt(row.exec(readFileSync('/proc/self/net/tcp', 'utf8'))![1]!, 16);
    const limits = new HttpLimits();
    let reads = 0;
    // The client's side of the system takes what it has room for, and says so late.
    await until('it takes no more', () => {
      for (; unread() === 0; reads = 0) {
        socket.write(Buffer.alloc(limits.unreadBytesAtClose / 2));
      }
      return ++reads === 10;
    });
    expect(unread()).toBeLessThan(limits.unreadBytesAtClose);
    const connection = new Connection(socket, 'its network', limits);
    connection.closeWhenRead(() => {});
    socket.destroy();
    expect(connection.state).toBe('done');
    new HeldBytes(limits, () => [connection], { crowded: () => {} }).check();
    const isClosed = socket.destroyed;
    connection.reset();
    client.destroy();
    server.close();
    expect(isClosed).toBe(true);
  },
);

it.each(['content-length', 'transfer-encoding'])(
  'bytes of a body with %s that came after its response are not held when all has come',
  (header) => {
    const socket = { bytesRead: 0, readableLength: 0 };
    const connection = new Connection(socket as Socket, 'its network', new HttpLimits());
    const come = (bodyBytes: number, chunks: number, complete: boolean) => {
      const headers = { [header]: '' };
      const req = { headBytes: 100, bodyBytes, chunks, headers, complete };
      socket.bytesRead += req.headBytes;
      connection.noteRequest({ req } as unknown as Response);
      return req;
    };
    for (let i = 0; i < 3; i += 1) {
      const req = come(0, 0, false);
      socket.bytesRead += 20_000;
      req.bodyBytes = 20_000;
      expect(connection.arrivingBytes).toBeGreaterThanOrEqual(20_000);
      connection.remove(connection.responses[0]!);
      expect(connection.arrivingBytes).toBeLessThan(1_024);
      // The rest comes, in chunks of 100 bytes.
      const framing = header === 'content-length' ? 0 : 6;
      socket.bytesRead += 1_000 * (100 + framing);
      Object.assign(req, { bodyBytes: 120_000, chunks: 1_000, complete: true });
      expect(connection.arrivingBytes).toBeLessThan(1_024);
      const next = come(0, 0, true);
      expect(connection.arrivingBytes).toBeLessThan(1_024);
      connection.remove(connection.responses[0]!);
      expect(next.complete).toBe(true);
    }
  },
);

it.each([1, 20])(
  'a head that does not end is held after %d requests with small bodies, however they came',
  (count) => {
    const socket = { bytesRead: 0, readableLength: 0 };
    const connection = new Connection(socket as Socket, 'its network', new HttpLimits());
    const come = (bodyBytes: number, together: number) => {
      const headers = bodyBytes > 0 ? { 'content-length': '' } : {};
      const req = { headBytes: 100, bodyBytes: 0, chunks: 0, headers, complete: bodyBytes === 0 };
      socket.bytesRead += together;
      connection.noteRequest({ req } as unknown as Response);
      Object.assign(req, { bodyBytes, complete: true });
    };
    for (let i = 0; i < count; i += 1) {
      come(900, 1_000);
      // A get, and in the same packet a create.
      come(0, 1_100);
      come(900, 0);
    }
    socket.bytesRead += 16_000;
    expect(connection.arrivingBytes).toBeGreaterThan(13_000);
    [...connection.responses].forEach((response) => connection.remove(response));
    expect(connection.arrivingBytes).toBeGreaterThan(13_000);
    expect(connection.arrivingBytes).toBeLessThan(17_000);
  },
);

it('strangers wait from the moment at which much is to be sent, and until those that do not read are reset', async () => {
  const limits = Object.assign(new HttpLimits(), { heldBytes: 8 });
  const { connection, resetAndDestroy } = waitingConnection(limits);
  const states: [boolean, number][] = [];
  let onChecked = () => {};
  const crowded = (isCrowded: boolean) => {
    states.push([isCrowded, resetAndDestroy.mock.calls.length]);
    if (!isCrowded) {
      onChecked();
    }
  };
  const held = new HeldBytes(limits, () => [connection], { crowded });
  // A second flood is as a first one.
  for (const flood of [1, 2]) {
    states.length = 0;
    const checked = new Promise<void>((resolve) => (onChecked = resolve));
    held.note(2);
    expect(states).toEqual([]);
    held.note(1);
    expect(states).toEqual([[true, flood - 1]]);
    await checked;
    expect(states).toEqual([
      [true, flood - 1],
      [false, flood],
    ]);
  }
});

it('what is held is counted for a tenth of the time at most, however much is to be sent', () => {
  jest.useFakeTimers({ doNotFake: ['performance'] });
  let now = 0;
  const clock = jest.spyOn(performance, 'now').mockImplementation(() => now);
  const crowded = jest.fn();
  const limits = new HttpLimits();
  const connections = () => {
    now += 10;
    return [];
  };
  const held = new HeldBytes(limits, connections, { crowded });
  held.check();
  // Nor in a second in which one is due.
  limits.heldBytes = -1;
  held.watch();
  limits.heldBytes = 1_000;
  now = 10;
  held.note(limits.heldBytes);
  jest.advanceTimersByTime(89);
  expect(crowded.mock.calls).toEqual([[false], [true]]);
  jest.advanceTimersByTime(1);
  expect(crowded.mock.calls).toEqual([[false], [true], [false]]);
  clock.mockRestore();
});

it('a connection that Node is done with is closed soon, when its client has read', () => {
  jest.useFakeTimers();
  const limits = new HttpLimits();
  const [destroy, end, pause] = [jest.fn(), jest.fn().mockReturnThis(), jest.fn()];
  const counts = { bytesRead: 0, readableLength: 0, bytesWritten: 1_000_000, writableLength: 0 };
  const socket = { ...counts, destroy, end, pause };
  const connection = new Connection(socket as unknown as Socket, 'its network', limits);
  const held = new HeldBytes(limits, () => [connection], { crowded: () => {} });
  connection.closeWhenRead(() => held.checkSoon());
  socket.destroy();
  expect([destroy, end, pause].map(({ mock }) => mock.calls.length)).toEqual([0, 1, 1]);
  jest.advanceTimersByTime(100);
  expect(destroy).toHaveBeenCalledTimes(1);
});

it('a body that waits for its reader is held in few pieces, in however many it came', async () => {
  const request = Object.assign(new Request(new Socket()), { limits: new HttpLimits() });
  for (let i = 0; i < 1_000; i += 1) {
    request.push(Buffer.from('x'));
  }
  request.push(null);
  const chunks: Buffer[] = [];
  request.on('data', (chunk) => chunks.push(chunk));
  await once(request, 'end');
  expect(Buffer.concat(chunks)).toHaveLength(1_000);
  expect(chunks.length).toBeLessThan(100);
});
