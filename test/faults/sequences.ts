/** Clients that send pieces of requests, garbage, half-closes and resets, in any order, on both ports. */
import fc from 'fast-check';
import { freePort } from '../../scripts/free-port.mjs';
import { converse, sequences } from '../support/sequences.js';
import { until } from '../support/until.js';
import { note } from './report.js';
import { type Run, Service } from './service.js';

/** Milliseconds in which a connection ends after its client said that it sends nothing more. */
const PATIENCE = 25_000;

export async function randomSequences({ postgres, key, isShort }: Run): Promise<void> {
  const METRICS_PORT = String(await freePort());
  const service = await Service.start(postgres.url, { METRICS_PORT });
  const seed = Number(process.env['FUZZ_SEED'] ?? (isShort ? 20_260_101 : Date.now()));
  const end = performance.now() + (isShort ? 10_000 : 180_000);
  const before = await service.files();
  let connections = 0;
  const wrong: string[] = [];
  for (let round = 0; performance.now() < end && wrong.length === 0; round += 1) {
    for (const [target, port] of [
      ['/health/live', service.port],
      ['/metrics', Number(METRICS_PORT)],
    ] as const) {
      const [all] = fc.sample(sequences(target, key), { seed: seed + round, numRuns: 1 });
      connections += all!.length;
      await converse(port, all!, PATIENCE).catch((error: Error) => wrong.push(error.message));
    }
  }
  const areClosed = async () => (await service.files()) <= before + 20;
  await until('their files are closed', areClosed, { seconds: 20 }).catch(() => {});
  const metrics = await fetch(`http://127.0.0.1:${METRICS_PORT}/metrics`).then((it) => it.text());
  const errors = [...metrics.matchAll(/^animal_store_listener_errors_total\S* (\d+)/gm)];
  note(
    `${connections} connections with random sequences, FUZZ_SEED=${seed}`,
    ['connections with wrong responses, or without an end', wrong.length, '= 0'],
    ['errors of listeners', errors.reduce((sum, [, value]) => sum + Number(value), 0), '= 0'],
    ['memory', await service.memory(), '≤ 512', 'MiB'],
    ['more open files afterwards', (await service.files()) - before, '≤ 20'],
  );
  wrong.forEach((message) => console.error(message));
  await service.kill();
}
