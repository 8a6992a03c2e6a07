import type { Admission } from './admission.js';
import { HTTP_LIMITS } from './limits.js';

/**
 * Has new connections accepted as fast as they come. libuv accepts one in each turn of the event loop (since 1.45), and
 * a turn in which hundreds of requests are handled takes long: a thousand new connections would wait for minutes. So
 * when one comes while turns are long, no request is let in for a moment; turns become short, and all are accepted.
 */
export class Newcomers {
  private state: 'quiet' | 'measuring' | 'accepting' | 'resting' = 'quiet';
  /** How many were accepted so far. */
  private accepted = 0;

  constructor(private readonly admission: Admission) {}

  /** A connection was accepted. */
  arrived(): void {
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
    this.admission.shut();
    // The turn under way is as long as what was read before the door was shut.
    setImmediate(() => void this.acceptAll());
  }

  private async acceptAll(): Promise<void> {
    const start = performance.now();
    await this.onceAllAccepted();
    this.state = 'resting';
    this.admission.open();
    const rest = Math.max(performance.now() - start, HTTP_LIMITS.acceptPause);
    setTimeout(() => (this.state = 'quiet'), rest).unref();
  }

  /**
   * Resolves at the end of a turn that brought no connection: then none waits to be accepted, and hardly one has come
   * since where the turn was short. Without such a turn it resolves after {@link HTTP_LIMITS.acceptTime}.
   *
   * @param shorterThan milliseconds that the turn has to be shorter than.
   */
  onceAllAccepted(shorterThan = Infinity): Promise<void> {
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
