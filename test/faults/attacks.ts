/** Clients who mean harm, beside a client who sends a steady number of requests. */
import { setTimeout as wait } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { administerKeys } from '../../src/auth/api-keys.js';
import { PROJECT_ROOT } from '../../src/config/project-root.js';
import { Program } from '../support/program.js';
import { PROXIES, Proxy, type ProxyName } from '../support/proxy.js';
import { until } from '../support/until.js';
import { ATTACKS } from './attackers.js';
import { isServed, most, percentile, Stream } from './clients.js';
import { note } from './report.js';
import { fill, type Run, Service } from './service.js';

const ATTACKERS = fileURLToPath(new URL('attackers.ts', import.meta.url));

/** Those that the short run has, and those that are tried behind each proxy too. */
const SHORT =
  /^50 connections without|^300|4 connections without|%ff|digits|3,600|1,500 unknown|one byte|never end|6,500.*158|9,900.*lists|send nothing/;

export async function attacks(run: Run): Promise<void> {
  const { url } = run.postgres;
  await fill(url, 1_000, `repeat('🐾', 255)`);
  const attackers = await administerKeys(url, async (keys) => [
    await keys.issue('attacker'),
    await keys.issue('another key of the attacker'),
  ]);
  const attackersKeys = attackers.map((one) => one.key);
  for (const name of Object.keys(ATTACKS).filter((each) => !run.isShort || SHORT.test(each))) {
    const proxies = run.isShort || !SHORT.test(name) ? [] : PROXIES;
    for (const proxy of [undefined, ...proxies]) {
      await attack(run, attackersKeys, name, proxy);
    }
  }
}

/** @param via what is attacked in place of the service itself. */
async function attack(run: Run, attackersKeys: string[], name: string, via?: ProxyName) {
  const { postgres, key, count } = run;
  const service = await Service.start(postgres.url, { TRUST_PROXY: via ? '1' : '' });
  const proxy = via && (await Proxy.start(via, [service.port, service.port]));
  const { origin, port } = proxy ?? service;
  const path = '/v1/pets';
  const warmUp = new Stream(origin, 20, () => ({ path, key }));
  await wait(500);
  await warmUp.stop();
  const before = await service.files();
  const peak = service.watchMemory();
  const attackers = Program.start(
    process.execPath,
    ['--import', '@swc-node/register/esm-register', ATTACKERS, name, `${port}`, ...attackersKeys],
    { cwd: PROJECT_ROOT },
  );
  await attackers.says(/connected/);
  const others = [
    new Stream(origin, 20, () => ({ path, key })),
    new Stream(origin, 100, () => ({ path, key, agent: false })),
  ];
  const live = new Stream(origin, 200, () => ({ path: '/health/live', agent: false }));
  await wait(count.seconds * 1000);
  const all = (await Promise.all(others.map((stream) => stream.stop()))).flat();
  const lives = await live.stop();
  await attackers.end('SIGKILL');
  const failed = all.filter((answer) => !isServed(answer));
  const areClosed = async () => (await service.files()) <= before + 20;
  await until('their files are closed', areClosed, { seconds: 20 }).catch(() => {});
  note(
    via === undefined ? name : `${name}, through ${via}`,
    ['requests of others that failed', (failed.length / all.length) * 100, '≤ 3', '%'],
    ['median of their responses', percentile(all, 0.5), '≤ 60', 'ms'],
    ['longest response of /health/live', most(lives.map(({ ms }) => ms)), '', 'ms'],
    ['of them failed', lives.filter((answer) => !isServed(answer)).length, '= 0'],
    ["memory, with the sockets' buffers", Math.max(peak(), await service.memory()), '≤ 512', 'MiB'],
    // A proxy keeps connections.
    ['more open files afterwards', (await service.files()) - before, via ? '' : '≤ 20'],
  );
  await proxy?.stop();
  await service.kill();
}
