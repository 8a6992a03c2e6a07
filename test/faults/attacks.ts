/** Clients who mean harm, beside a client who sends a steady number of requests. */
import { readdir } from 'node:fs/promises';
import { setTimeout as wait } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { administerKeys } from '../../src/auth/api-keys.js';
import { PROJECT_ROOT } from '../../src/config/project-root.js';
import { query } from '../support/ask.js';
import { Program } from '../support/program.js';
import { PROXIES, Proxy, type ProxyName } from '../support/proxy.js';
import { until } from '../support/until.js';
import { ATTACKS } from './attackers.js';
import { isServed, median, most, Stream } from './clients.js';
import { note } from './report.js';
import { type Run, Service } from './service.js';

const ATTACKERS = fileURLToPath(new URL('attackers.ts', import.meta.url));

/** Those that the short run has, and those that are tried behind each proxy too. */
const SHORT =
  /4 connections without|%ff|3,600|1,500 unknown|one byte|never end|6,500.*158|send nothing/;

export async function attacks({ postgres, key, isShort, count }: Run): Promise<void> {
  await query(
    postgres.url,
    'truncate pets cascade',
    `insert into pets (name, category_id) select repeat('🐾', 255), n from generate_series(1, 1000) as n`,
  );
  const other = await administerKeys(postgres.url, (keys) => keys.issue('attacker'));
  const { seconds } = count;
  for (const name of Object.keys(ATTACKS)) {
    const isChosen = SHORT.test(name);
    for (const proxy of isShort || !isChosen ? [undefined] : [undefined, ...PROXIES]) {
      if (isChosen || !isShort) {
        await attack(postgres.url, { name, key, attackersKey: other.key, seconds, proxy });
      }
    }
  }
}

interface Attack {
  name: string;
  key: string;
  attackersKey: string;
  seconds: number;
  proxy?: ProxyName;
}

async function attack(databaseUrl: string, { proxy: proxyName, ...attack }: Attack): Promise<void> {
  const env = { TRUST_PROXY: proxyName === undefined ? '' : '1' };
  const service = await Service.start(databaseUrl, { env });
  const { port } = service;
  const proxy = proxyName && (await Proxy.start(proxyName, [port, port]));
  try {
    await beside(service, proxy ?? service, { ...attack, proxy: proxyName });
  } finally {
    await proxy?.stop();
    await service.kill();
  }
}

/** @param target the service, or a proxy before it. */
async function beside(
  service: Service,
  { origin, port }: { origin: string; port: number },
  { name, key, attackersKey, seconds, proxy }: Attack,
): Promise<void> {
  const files = () => readdir(`/proc/${service.processId}/fd`).then(({ length }) => length);
  const path = '/v1/pets';
  const warmUp = new Stream(origin, 20, () => ({ path, key }));
  await wait(500);
  await warmUp.stop();
  const before = await files();
  const attackers = Program.start(
    process.execPath,
    ['--import', '@swc-node/register/esm-register', ATTACKERS, name, `${port}`, attackersKey],
    { cwd: PROJECT_ROOT },
  );
  await attackers.says(/connected/);
  const steady = new Stream(origin, 20, () => ({ path, key }));
  const newcomers = new Stream(origin, 100, () => ({ path, key, agent: false }));
  const live = new Stream(origin, 200, () => ({ path: '/health/live', agent: false }));
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
    proxy === undefined ? name : `${name}, through ${proxy}`,
    ['requests of others that failed', (failed.length / all.length) * 100, '≤ 3', '%'],
    ['median of their responses', median(all), '≤ 60', 'ms'],
    ['longest response of /health/live', most(lives.map(({ ms }) => ms)), '', 'ms'],
    ['of them failed', lives.filter((answer) => !isServed(answer)).length, '= 0'],
    ['memory', await service.memory('VmHWM'), '≤ 512', 'MiB'],
    // A proxy keeps connections.
    ['open files afterwards, more than before', (await files()) - before, proxy ? '' : '≤ 20'],
  );
}
