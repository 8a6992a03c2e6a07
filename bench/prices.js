/** What the dearest requests within the limits cost the service, as multiples of a plain list. */
import { Agent, request } from 'node:http';
import { cpuSeconds } from './servers.js';

const names = (count) => Array.from({ length: count }, (_, i) => i.toString(36));
const members = (count) => Object.fromEntries(names(count).map((name) => [name, 1]));
const create = (body) => ({ method: 'POST', path: '/v1/pets', body });

/** Each fills what it names up to 16 KiB. */
const KINDS = {
  'a plain list': { path: '/v1/pets' },
  'a path of %': { path: `/${'%'.repeat(16_000)}` },
  'a path of invalid encodings': { path: `/${'%ff/'.repeat(4_000)}` },
  'a path of encoded letters': { path: `/v1/pets/${'%41'.repeat(5_200)}` },
  'a query of 3,600 names': { path: `/v1/pets?${names(3_600).join('&')}` },
  'a query of brackets': { path: `/v1/pets?${names(3_200).join('[&')}` },
  'a query of invalid encodings': { path: `/v1/pets?${'%ff=%ff&'.repeat(2_000)}` },
  '240 header fields': {
    path: '/v1/pets',
    headers: Object.fromEntries(names(240).map((name) => [`x-${name}`, 'x'.repeat(50)])),
  },
  'long headers of an asset': {
    path: '/docs/assets/icon.svg',
    headers: {
      'Accept-Encoding': 'gzip;q=0.5,'.repeat(700),
      'If-None-Match': '"a",'.repeat(1_500),
    },
  },
  'an API key of 15,000 characters': {
    path: '/v1/pets',
    headers: { Authorization: `Bearer ${'x'.repeat(15_000)}` },
  },
  'a body of 1,500 unknown members': create(JSON.stringify(members(1_500))),
  'a name of 1,500 members': create(JSON.stringify({ name: members(1_500), categoryId: 1 })),
  'a name of 4,000 objects': create(JSON.stringify({ name: Array(4_000).fill({}) })),
  'a body of 8,000 integers': create(JSON.stringify(Array(8_000).fill(1))),
  'a body of 4,000 fractions': create(JSON.stringify({ a: Array(4_000).fill(0.5) })),
  'a body of 800 long integers': create(`[${Array(800).fill('9'.repeat(19))}]`),
  'a body of escapes': create(`{"name":"${'\\u0041'.repeat(2_700)}"}`),
  'a body in 1,000 chunks': { ...create(' '.repeat(1_000)), isInChunks: true },
};

/**
 * Sends one request after another, on one connection.
 *
 * @returns {Promise<[kind: string, multiple: number][]>} the CPU time of a request, by that of a plain list.
 */
export async function prices({ url, pid, database: { key } }, seconds) {
  /** @type {[kind: string, seconds: number][]} */
  const times = [];
  for (const [kind, message] of Object.entries(KINDS)) {
    await load(url, key, message, seconds / 3);
    const before = await cpuSeconds(pid);
    const count = await load(url, key, message, seconds);
    times.push([kind, ((await cpuSeconds(pid)) - before) / count]);
  }
  return times.map(([kind, time]) => [kind, time / times[0][1]]);
}

async function load(url, key, message, seconds) {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  const end = performance.now() + seconds * 1000;
  let count = 0;
  for (; performance.now() < end; count += 1) {
    await send(url, key, message, agent);
  }
  agent.destroy();
  return count;
}

function send(url, key, { path, method, headers, body, isInChunks }, agent) {
  const all = { Authorization: `Bearer ${key}`, 'Content-Type': 'application/json', ...headers };
  return new Promise((resolve, reject) => {
    const outgoing = request(url + path, { method, agent, headers: all }, (incoming) =>
      incoming.resume().once('close', resolve),
    );
    outgoing.once('error', reject);
    if (isInChunks) {
      outgoing.cork();
      Array.from(body, (byte) => outgoing.write(byte));
      outgoing.uncork();
    }
    outgoing.end(isInChunks ? '' : body);
  });
}
