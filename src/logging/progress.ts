import { SingleBar } from 'cli-progress';

/** A bar on a terminal, otherwise a line every 10 seconds, on standard error. */
const OPTIONS = {
  format: '{what} {bar} {percentage} % | {value} of {total} | {rate}/s | {eta_formatted} left',
  barsize: 12,
  // Otherwise, a process that is killed leaves the terminal without.
  linewrap: true,
  noTTYOutput: true,
  notTTYSchedule: 10_000,
};

/** Shows how far long work is, how fast, and how long it takes still. Another `what` has a bar of its own. */
export function showProgress() {
  const bar = new SingleBar(OPTIONS);
  let [current, start, before] = ['', 0, 0];
  return {
    update({ what, done, total }: { what: string; done: number; total: number }): void {
      if (what !== current) {
        bar.stop();
        [current, start, before] = [what, performance.now(), done];
        bar.start(total, 0, { what, rate: 0 });
      }
      bar.update(done, {
        rate: Math.round((1_000 * (done - before)) / (performance.now() - start)),
      });
    },
    stop: () => bar.stop(),
  };
}
