/** Turns a run's raw results into tables of medians and ratios, in Markdown. */
import { LOADS } from './wrk.js';

/** @returns the section for docs/performance.md. @param run what `--json` writes. */
export function report({ machine, versions, settings, cells, servers }) {
  const of = (where) => medians(cells.filter((cell) => matches(cell, where)));
  const { loads, connections } = settings;
  const peers = settings.servers.filter((name) => name !== 'service');
  const hasService = settings.servers.includes('service');
  const ratio = (where, peer) =>
    of({ ...where, server: 'service' }).perSecond / of({ ...where, server: peer }).perSecond;

  const parts = [
    '## Measured',
    `${settings.date}, ${machine.cpu}, ${machine.cores} cores, ${machine.memory} of memory, ${machine.system}. Servers, PostgreSQL and wrk share the machine.`,
    Object.entries(versions)
      .map(([name, version]) => `${name} ${version}`)
      .join(', ') + '.',
    `${settings.animals.toLocaleString('en')} animals; each cell is the median of ${settings.rounds} × ${settings.seconds} s, servers in turns, each time after ${settings.warmUp} s of warm-up. ` +
      'Every server has 10 connections to the database and logs one line a request to /dev/null; `constant` does neither and sends the same bytes whatever is asked. ' +
      'After each cell that creates animals they are deleted and the table is vacuumed.',
  ];
  if (hasService && peers.length > 0) {
    parts.push(
      "### The service's requests a second, as a multiple of each peer's",
      table(
        ['load', 'connections', ...peers],
        loads.flatMap((load) =>
          connections.map((count) => [
            LOADS[load].title,
            count,
            ...peers.map((peer) => ratio({ load, connections: count }, peer).toFixed(2)),
          ]),
        ),
      ),
    );
  }
  for (const count of connections) {
    parts.push(
      `### ${count} ${count === 1 ? 'connection' : 'connections'}`,
      table(
        [
          'load',
          'server',
          'requests/s',
          'p50 ms',
          'p99 ms',
          'server CPU s per 1,000',
          'PostgreSQL CPU s per 1,000',
        ],
        loads.flatMap((load) =>
          settings.servers.map((server, i) => {
            const median = of({ load, connections: count, server });
            return [
              i === 0 ? LOADS[load].title : '',
              server,
              Math.round(median.perSecond).toLocaleString('en'),
              median.p50.toFixed(2),
              median.p99.toFixed(2),
              median.serverCpu?.toFixed(3) ?? '',
              median.postgresCpu?.toFixed(3) ?? '',
            ];
          }),
        ),
      ),
    );
  }
  parts.push(
    '### Memory',
    table(
      ['server', 'most resident, MiB'],
      servers.map(({ name, peakMemory }) => [name, peakMemory?.toFixed(0) ?? '']),
    ),
  );
  return parts.join('\n\n') + '\n';
}

const matches = (cell, where) =>
  Object.entries(where).every(([name, value]) => cell[name] === value);

function medians(cells) {
  const names = ['perSecond', 'p50', 'p99', 'serverCpu', 'postgresCpu'];
  return Object.fromEntries(names.map((name) => [name, median(cells.map((cell) => cell[name]))]));
}

function median(values) {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = Math.floor(sorted.length / 2);
  return sorted.length % 2 === 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

/** Words left, figures right, padded as Prettier does. */
function table(head, rows) {
  const lines = [head, ...rows].map((line) => line.map(String));
  const isFigure = head.map((_, i) => rows.some((row) => /^[\d.,]+$/.test(row[i])));
  const widths = head.map((_, i) => Math.max(3, ...lines.map((line) => line[i].length)));
  const write = (line) =>
    `| ${line.map((cell, i) => (isFigure[i] ? cell.padStart(widths[i]) : cell.padEnd(widths[i]))).join(' | ')} |`;
  const rule = `| ${widths.map((width, i) => (isFigure[i] ? '-'.repeat(width - 1) + ':' : '-'.repeat(width))).join(' | ')} |`;
  return [write(lines[0]), rule, ...lines.slice(1).map(write)].join('\n');
}
