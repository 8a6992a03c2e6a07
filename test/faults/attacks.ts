/** Clients who mean harm, beside a client who sends a steady number of requests. */
import { readdir } from 'node:fs/promises';
import { setTimeout as wait } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { administerKeys } from '../../src/auth/api-keys.js';
import { PROJECT_ROOT } from '../../src/config/project-root.js';
import { query } from '../support/ask.js';
import { Program } from '../support/program.js';
import { until } from '../support/until.js';
import { ATTACKS } from './attackers.js';
import { isServed, median, most, Stream } from './clients.js';
import { note } from './report.js';
import { type Run, Service } from './service.js';

const ATTACKERS = fileURLToPath(new URL('attackers.ts', import.meta.url));

export async function attacks({ postgres, key, count }: Run): Promise<void> {
  await query(
    postgres.url,
    'truncate pets cascade',
    `insert into pets (name, category_id) select repeat('🐾', 255), n from generate_series(1, 1000) as n`,
  );
  const other = await administerKeys(postgres.url, (keys) => keys.issue('attacker'));
  for (const name of Object.keys(ATTACKS).filter((name) =>
    name.includes(process.env['ATTACK'] ?? ''),
  )) {
    const service = await Service.start(postgres.url);
    try {
      await attack(service, name, key, other.key, count.seconds);
    } finally {
      await service.kill();
    }
  }
}

async function attack(
  service: Service,
  name: string,
  key: string,
  attackersKey: string,
  seconds: number,
): Promise<void> {
  const files = () => readdir(`/proc/${service.processId}/fd`).then(({ length }) => length);
  const path = '/v1/pets';
  const warmUp = new Stream(service.origin, 20, () => ({ path, key }));
  await wait(500);
  await warmUp.stop();
  const before = await files();
  const attackers = Program.start(
    process.execPath,
    [
      '--import',
      '@swc-node/register/esm-register',
      ATTACKERS,
      name,
      `${service.port}`,
      attackersKey,
    ],
    { cwd: PROJECT_ROOT, isQuiet: true },
  );
  await until('they have begun', async () => (await files()) > before || attackers.hasEnded);
  const steady = new Stream(service.origin, 20, () => ({ path, key }));
  const newcomers = new Stream(service.origin, 100, () => ({ path, key, agent: false }));
  const live = new Stream(service.origin, 200, () => ({ path: '/health/live', agent: false }));
  await wait(seconds * 1000);
  const [answers, firsts, lives] = await Promise.all([
    steady.stop(),
    newcomers.stop(),
    live.stop(),
  ]);
  await attackers.end('SIGKILL');
  const all = [...answers, ...firsts];
  const failed = all.filter((answer) => !isServed(answer));
  await until('their files are closed', async () => (await files()) <= before + 20, 20).catch(
    () => {},
  );
  note(
    name,
    ['requests of others that failed', (failed.length / all.length) * 100, '≤ 3', '%'],
    ['median of their responses', median(all), '≤ 60', 'ms'],
    [
      'longest response of /health/live',
      most(lives.map(({ status, ms }) => (status === 200 ? ms : Infinity))),
      '≤ 1,000',
      'ms',
    ],
    ['memory', await service.memory('VmHWM'), '≤ 512', 'MiB'],
    ['open files afterwards, more than before', (await files()) - before, '≤ 20'],
  );
}
