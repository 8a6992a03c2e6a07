import type { AdmissionQueue } from './admission-queue.js';
import { HTTP_LIMITS } from './limits.js';

/**
 * Has new connections accepted as fast as they come, also under load. libuv accepts one connection in each turn of the
 * event loop (since 1.45), and a turn in which hundreds of requests are handled takes long. So when a connection comes
 * while turns are long, requests are held for a moment: turns become short, and all connections are accepted.
 */
export class AcceptBacklog {
  private state: 'quiet' | 'measuring' | 'accepting' | 'resting' = 'quiet';
  /** Connections accepted so far. */
  private accepted = 0;

  constructor(private readonly queue: AdmissionQueue) {}

  /** A connection was accepted. */
  connected(): void {
    this.accepted += 1;
    if (this.state === 'quiet') {
      this.state = 'measuring';
      const since = performance.now();
      // Two, so that a whole turn lies between.
      setImmediate(() => setImmediate(() => this.judgeTurn(performance.now() - since)));
    }
  }

  private judgeTurn(milliseconds: number): void {
    if (milliseconds < HTTP_LIMITS.longTurn) {
      this.state = 'quiet';
      return;
    }
    this.state = 'accepting';
    this.queue.close();
    // The turn under way is as long as what was read before requests were held.
    setImmediate(() => void this.acceptAll());
  }

  private async acceptAll(): Promise<void> {
    const start = performance.now();
    await this.onceEmpty();
    this.state = 'resting';
    this.queue.open();
    const rest = Math.max(performance.now() - start, HTTP_LIMITS.acceptPause);
    setTimeout(() => (this.state = 'quiet'), rest).unref();
  }

  /**
   * Resolves at the end of a turn that brought no connection: then none waits to be accepted, and hardly one has come
   * since if the turn was short. Without such a turn it resolves after {@link HTTP_LIMITS.acceptTime}.
   *
   * @param shorterThan milliseconds that the turn has to be shorter than.
   */
  onceEmpty(shorterThan = Infinity): Promise<void> {
    const end = performance.now() + HTTP_LIMITS.acceptTime;
    return new Promise((resolve) => {
      const endOfTurn = (since: number, accepted: number) => {
        const now = performance.now();
        if ((this.accepted === accepted && now - since < shorterThan) || now >= end) {
          resolve();
        } else {
          setImmediate(endOfTurn, now, this.accepted);
        }
      };
      setImmediate(endOfTurn, performance.now(), this.accepted);
    });
  }
}
