import type { Histogram, Registry } from 'prom-client';

/** Upper bounds of the buckets, in milliseconds. The last is above `a request's longest wait`. */
const BOUNDS = [1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000];

/** The durations of one combination of labels. */
export class Durations {
  /** The number of durations in each bucket, not cumulative. The last one counts those above all bounds. */
  private readonly counts = Array.from({ length: BOUNDS.length + 1 }, () => 0);
  private sum = 0;

  add(milliseconds: number): void {
    let bucket = 0;
    while (milliseconds > (BOUNDS[bucket] ?? Infinity)) {
      bucket += 1;
    }
    this.counts[bucket]! += 1;
    this.sum += milliseconds;
  }

  /** The values for Prometheus, in seconds. Buckets are cumulative: each includes the counts of those below. */
  values(name: string, labels: Record<string, string>) {
    let count = 0;
    const buckets = this.counts.map((some, i) => {
      const bound = BOUNDS[i];
      const le = bound === undefined ? '+Inf' : bound / 1000;
      count += some;
      return { metricName: `${name}_bucket`, labels: { le, ...labels }, value: count };
    });
    return [
      ...buckets,
      { metricName: `${name}_sum`, labels, value: this.sum / 1000 },
      { metricName: `${name}_count`, labels, value: count },
    ];
  }
}

/** A histogram for a registry of prom-client. It looks labels up once, and not at each observation. */
export class DurationHistogram<Label extends string> {
  private readonly all = new Map<string, { labels: Record<Label, string>; durations: Durations }>();

  constructor(registry: Registry, name: string, help: string) {
    const type = 'histogram';
    const get = async () => ({
      name,
      help,
      type,
      values: [...this.all.values()].flatMap(({ labels, durations }) =>
        durations.values(name, labels),
      ),
    });
    // A registry reads only these properties of a metric.
    registry.registerMetric({ name, help, type, get } as unknown as Histogram);
  }

  /** @returns the durations with these labels, to which the caller adds. */
  of(labels: Record<Label, string>): Durations {
    const key = JSON.stringify(Object.values(labels));
    let known = this.all.get(key);
    if (known === undefined) {
      known = { labels, durations: new Durations() };
      this.all.set(key, known);
    }
    return known.durations;
  }
}
