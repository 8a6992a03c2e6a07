/** Compares the service with that of another commit, for `--against COMMIT`. */
import { execFile } from 'node:child_process';
import { existsSync, rmSync } from 'node:fs';
import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { circumstances, figure, mediansOf, table } from './report.js';
import { LOADS } from './wrk.js';

/** A ratio is known when its interval of 95 % is narrower than this. */
const WIDTH = 0.03;

/** Pairs that are measured at least: fewer say little about how far they vary. */
const PAIRS = 5;

/**
 * Builds the service of a commit in a temporary folder, which is deleted when this process ends.
 *
 * @returns the absolute path of its program.
 * @throws if git does not know the commit, or it cannot be built.
 */
export async function buildCommit(commit) {
  const folder = await mkdtemp(join(tmpdir(), 'animal-store-commit-'));
  process.once('exit', () => rmSync(folder, { recursive: true }));
  const run = (program, ...args) => promisify(execFile)(program, args, { cwd: folder });
  await run(
    'git',
    'clone',
    '--quiet',
    '--shared',
    fileURLToPath(new URL('..', import.meta.url)),
    '.',
  );
  await run('git', 'checkout', '--quiet', '--detach', commit);
  await run('npm', 'ci', '--no-audit', '--no-fund');
  await run('npm', 'run', 'build');
  const program = ['dist/src/main.js', 'dist/main.js'].map((file) => join(folder, file));
  return program.find((file) => existsSync(file)) ?? program[0];
}

/** @returns whether the ratio of a load is known: {@link WIDTH}. */
export function isKnown(cells, where, servers) {
  const pairs = pairsOf(cells, where, servers);
  return pairs.length >= PAIRS && 2 * ratioOf(pairs, 'perSecond').margin < WIDTH;
}

/** @returns the text that `--against` prints. @param run what `--json` writes. */
export function comparison(run) {
  const { settings, cells, servers: measured } = run;
  const { against, servers } = settings;
  const head = [
    'load',
    'connections',
    'requests/s',
    'ratio',
    '± 95 %',
    'CPU ratio',
    'p50 ms',
    `of ${against}`,
    'pairs',
  ];
  const rows = settings.connections.flatMap((connections) =>
    settings.loads.map((load) => {
      const where = { load, connections };
      const pairs = pairsOf(cells, where, servers);
      const { ratio, margin } = ratioOf(pairs, 'perSecond');
      const [own, other] = servers.map((server) => mediansOf(cells, { ...where, server }));
      return [
        LOADS[load].title,
        connections,
        figure(own.perSecond),
        ratio.toFixed(3),
        margin.toFixed(3),
        ratioOf(pairs, 'serverCpu').ratio.toFixed(3),
        own.p50.toFixed(2),
        other.p50.toFixed(2),
        pairs.length,
      ];
    }),
  );
  const memory = measured.map(({ name, peakMemory }) => `${name} ${peakMemory?.toFixed(0)} MiB`);
  return [
    `## The service over ${against}, on Node ${run.versions['Node.js']}`,
    ...circumstances(run),
    table(head, rows),
    `Most resident memory: ${memory.join(', ')}.`,
    '',
  ].join('\n\n');
}

/** The geometric mean of one server's values over the other's. `margin` is half of its interval of 95 %, by Student's t. */
function ratioOf(pairs, value) {
  const logs = pairs.map(([own, other]) => Math.log(own[value] / other[value]));
  const mean = sum(logs) / logs.length;
  const freedom = logs.length - 1;
  const deviation = Math.sqrt(sum(logs.map((log) => (log - mean) ** 2)) / freedom);
  const margin = Math.expm1((quantile(freedom) * deviation) / Math.sqrt(logs.length));
  return { ratio: Math.exp(mean), margin };
}

/** The quantile of 97.5 % of Student's t distribution, within 1 % from four degrees of freedom on. */
const quantile = (freedom) => 1.96 + 2.37 / freedom + 2.82 / freedom ** 2 + 2.56 / freedom ** 3;

const sum = (numbers) => numbers.reduce((total, one) => total + one, 0);

/** The cells of a load, round by round, of the first server and of the second. */
function pairsOf(cells, where, servers) {
  const [own, others] = servers.map((server) =>
    cells.filter(
      (cell) =>
        cell.server === server &&
        cell.load === where.load &&
        cell.connections === where.connections,
    ),
  );
  return others.map((other, i) => [own[i], other]).filter(([cell]) => cell !== undefined);
}
