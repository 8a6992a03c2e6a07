import { EventEmitter } from 'node:events';

/** What the gate uses of a response, and of its request. */
export class FakeResponse {
  readonly onceEnded: (() => void)[] = [];
  readonly onceClosed: (() => void)[] = [];
  readonly req;

  /** @param name that of the request. @param deadline that of the request: `performance.now()`. */
  constructor(
    readonly name: string,
    socket: { writable: boolean } = { writable: true },
    deadline = performance.now() + 5_000,
    keyHash?: string,
  ) {
    this.req = { socket, deadline, keyHash, network: '' };
  }

  /** The handler ends it. */
  end(): void {
    this.onceEnded.splice(0).forEach((act) => act());
  }

  /** Its client leaves. */
  close(): void {
    this.req.socket.writable = false;
    this.onceClosed.splice(0).forEach((act) => act());
  }
}

/** What the gate uses of a socket: whether it is read. */
export class FakeSocket extends EventEmitter {
  destroyed = false;
  isRead = false;
  resume(): void {
    this.isRead = true;
  }
}
