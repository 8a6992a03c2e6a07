import { Histogram, Registry } from 'prom-client';
import { DurationHistogram } from './duration-histogram.js';

describe('DurationHistogram', () => {
  it("gives a registry what prom-client's own histogram gives it", async () => {
    const [name, help] = ['duration_seconds', 'How long it took.'];
    const ours = new Registry();
    const durations = new DurationHistogram<'a' | 'b'>(ours, name, help);
    const theirs = new Registry();
    const histogram = new Histogram({
      name,
      help,
      labelNames: ['a', 'b'],
      buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5],
      registers: [theirs],
    });
    // On a bound, between two, below and above all.
    const given: [a: string, b: string, milliseconds: number[]][] = [
      ['one', 'x', [0, 1, 1.25, 2.5, 5000, 5000.5, 90_000]],
      ['two', 'x', [0.25, 3, 100, 100.25]],
      ['one', 'y', [250, 250, 250]],
    ];
    for (const [a, b, all] of given) {
      for (const milliseconds of all) {
        durations.of({ a, b }).add(milliseconds);
        histogram.observe({ a, b }, milliseconds / 1000);
      }
    }
    expect(rounded(await ours.metrics())).toBe(rounded(await theirs.metrics()));
  });

  it('has a series from the moment its labels are known', async () => {
    const registry = new Registry();
    new DurationHistogram(registry, 'duration_seconds', 'How long.').of({ a: 'one' });
    expect(await registry.metrics()).toContain('duration_seconds_count{a="one"} 0\n');
  });
});

/** Sums of seconds and of milliseconds differ in the last digits. */
function rounded(metrics: string): string {
  return metrics.replace(/(?<=_sum.* )\S+/g, (sum) => Number(sum).toFixed(9));
}
