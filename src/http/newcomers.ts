import type { Admission } from './admission.js';
import { HTTP_LIMITS } from './limits.js';

/**
 * Has new connections accepted as fast as they come. libuv accepts one in each turn of the event loop (since 1.45), and
 * a turn in which hundreds of requests are handled takes long: a thousand new connections would wait for minutes. So
 * when one comes while turns are long, no request is let in for a moment; turns become short, and all are accepted.
 */
export class Newcomers {
  private state: 'quiet' | 'measuring' | 'accepting' | 'resting' = 'quiet';
  private isAccepted = false;

  constructor(private readonly admission: Admission) {}

  /** A connection was accepted. */
  arrived(): void {
    this.isAccepted = true;
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
    setImmediate(() => this.acceptSince(performance.now()));
  }

  private acceptSince(start: number): void {
    const took = performance.now() - start;
    if (this.isAccepted && took < HTTP_LIMITS.acceptTime) {
      this.isAccepted = false;
      setImmediate(() => this.acceptSince(start));
      return;
    }
    this.state = 'resting';
    this.admission.open();
    setTimeout(() => (this.state = 'quiet'), Math.max(took, HTTP_LIMITS.acceptPause)).unref();
  }
}
