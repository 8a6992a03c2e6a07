import type { TestService } from './service.js';

/** The value of a metric of a service with `METRICS_PORT`: the sum of its samples, which may have labels. */
export async function metric(service: TestService, name: string): Promise<number> {
  const text = await (await fetch(`http://127.0.0.1:${service.metricsPort()}/metrics`)).text();
  const samples = text.matchAll(new RegExp(`^animal_store_${name}(?:\\{.*\\})? (.+)$`, 'gm'));
  return Array.from(samples, ([, value]) => Number(value)).reduce((sum, value) => sum + value, 0);
}
