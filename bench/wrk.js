/** Runs wrk, the load generator, and reads what it found. */
import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const LOADS_FOLDER = fileURLToPath(new URL('loads/', import.meta.url));

/** The loads, each a script of its name in loads/; `creates` says whether the table grows under it. */
export const LOADS = {
  'list-same': { title: 'list 20, same page' },
  'list-mixes': { title: 'list, 16 mixes of filter and size' },
  'list-cursor': { title: 'list 20, random cursor' },
  'get-same': { title: 'get, same id' },
  'get-random': { title: 'get, random id' },
  create: { title: 'create', creates: true },
  mix: { title: '80 % list, 15 % get, 5 % create', creates: true },
};

/** Threads of wrk: two keep up with any of the servers. */
const THREADS = 2;

const MISSING = 'wrk is not on PATH. Install it: apt install wrk, or brew install wrk.';

/** @returns wrk's version. @throws where wrk is not installed. */
export async function wrkVersion() {
  // It prints its version and leaves with 1.
  const { stdout, code } = await promisify(execFile)('wrk', ['--version']).catch((error) => error);
  if (code === 'ENOENT') {
    throw new Error(MISSING);
  }
  return /^wrk (\S+)/.exec(stdout)?.[1] ?? 'unknown';
}

/**
 * Puts one load on one server.
 *
 * @param {object} run
 * @param {string} run.url `http://127.0.0.1:<port>`
 * @param {string} run.key an API key.
 * @param {string} run.load a name in {@link LOADS}.
 * @param {number} run.connections
 * @param {number} run.seconds whole ones.
 * @param {number} run.seed servers given the same seed are sent the same requests.
 * @param {number} run.animals ids from 1 to this are asked for.
 * @param {string} run.cursorsFile
 * @param {AbortSignal} run.signal
 * @returns requests, requests a second, and the latencies of the median and the 99th percentile in milliseconds.
 * @throws where any request failed.
 */
export async function runWrk(run) {
  const { stdout } = await promisify(execFile)(
    'wrk',
    [
      `-t${Math.min(run.connections, THREADS)}`,
      `-c${run.connections}`,
      `-d${run.seconds}s`,
      '--latency',
      '--timeout=10s',
      `--script=${run.load}.lua`,
      `--header=Authorization: Bearer ${run.key}`,
      run.url,
      '--',
      String(run.seed),
      String(run.animals),
      run.cursorsFile,
    ],
    { cwd: LOADS_FOLDER, signal: run.signal },
  );
  return readOutput(stdout);
}

function readOutput(text) {
  const failed = /Socket errors: .*|Non-2xx or 3xx responses: .*/.exec(text);
  if (failed !== null) {
    throw new Error(`Requests failed. ${failed[0]}`);
  }
  const requests = Number(/(\d+) requests in/.exec(text)?.[1]);
  const perSecond = Number(/Requests\/sec: +([\d.]+)/.exec(text)?.[1]);
  const result = { requests, perSecond, p50: latency(text, 50), p99: latency(text, 99) };
  if (!Object.values(result).every(Number.isFinite)) {
    throw new Error(`wrk's output cannot be read:\n${text}`);
  }
  return result;
}

/** In milliseconds. */
function latency(text, percentile) {
  const [, digits, unit] =
    new RegExp(`^ +${percentile}% +([\\d.]+)(us|ms|s|m) *$`, 'm').exec(text) ?? [];
  return Number(digits) * { us: 0.001, ms: 1, s: 1000, m: 60_000 }[unit];
}
