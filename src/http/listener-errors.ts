import type { Socket } from 'node:net';
import type { Logger } from '../logging/logger.js';

/**
 * What this service's listeners on its servers, sockets and responses threw. Such a mistake ends one connection. What
 * Node's own code throws still ends the process.
 */
export class ListenerErrors {
  /** By the event's name, since the start. */
  readonly counts: Record<string, number> = {};

  constructor(private readonly logger?: Logger) {}

  /** Calls `act`, the listener of an event. If it throws, ends the connection. */
  run(event: string, socket: Socket, act: () => void): void {
    try {
      act();
    } catch (err) {
      this.counts[event] = (this.counts[event] ?? 0) + 1;
      this.logger?.error({ err, event }, 'A listener failed, and its connection ends');
      socket.destroy();
    }
  }
}
