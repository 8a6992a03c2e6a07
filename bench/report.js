/** Turns a run's raw results into tables of medians and ratios, in Markdown. */
import { LOADS } from './wrk.js';

/** @returns the text of a file in bench/results. @param run what `--json` writes. */
export function report(run) {
  const parts = run.settings.animals.length > 1 ? ofSizes(run) : ofServers(run);
  return parts.join('\n\n') + '\n';
}

/** What is common to all tables of a run. */
export function circumstances({ machine, versions, settings }) {
  return [
    `${settings.date}, ${machine.cpu}, ${machine.cores} cores, ${machine.memory} of memory, ${machine.system}. Servers, PostgreSQL and wrk share the machine.`,
    Object.entries(versions)
      .map(([name, version]) => `${name} ${version}`)
      .join(', ') + '.',
    `${settings.animals.map(figure).join(' and ')} animals; PostgreSQL's shared_buffers: ${settings.sharedBuffers}. Each cell is the median of ${settings.rounds} × ${settings.seconds} s, servers in turns, each time after ${settings.warmUp} s of warm-up. ` +
      'Every server has 10 connections to the database and logs one line a request to /dev/null; `constant` does neither and sends the same bytes whatever is asked. ' +
      'After each cell that creates animals they are deleted and the table is vacuumed.',
  ];
}

function ofServers(run) {
  const { settings, cells, servers } = run;
  const { loads, connections } = settings;
  const of = (where) => mediansOf(cells, where);
  const peers = settings.servers.filter((name) => name !== 'service');
  const hasService = settings.servers.includes('service');
  const ratio = (where, peer) =>
    of({ ...where, server: 'service' }).perSecond / of({ ...where, server: peer }).perSecond;

  const parts = [`## Measured on Node ${run.versions['Node.js']}`, ...circumstances(run)];
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
              figure(median.perSecond),
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
  if (run.prices.length > 0) {
    parts.push(
      "### The dearest requests: the service's CPU time for one, as a multiple of a plain list's",
      table(
        ['request', 'multiple'],
        run.prices.map(([kind, multiple]) => [kind, multiple.toFixed(1)]),
      ),
    );
  }
  return parts;
}

/** What the same requests cost with tables of several sizes. */
function ofSizes(run) {
  const { settings, cells, tables } = run;
  const { animals, loads, connections } = settings;
  const head = (title) =>
    animals.map((count, i) => `${i === 0 ? `${title}, ` : ''}of ${figure(count)}`);
  const parts = [
    ...circumstances(run),
    '### Pages of 8 KiB that a request reads, of table and index',
    table(
      ['request', ...animals.map((count) => `of ${figure(count)}`)],
      tables[0].pagesRead.map(({ title }, i) => [
        title,
        ...tables.map(({ pagesRead }) => pagesRead[i].pages),
      ]),
    ),
  ];
  for (const server of settings.servers) {
    for (const count of connections) {
      const rows = loads.map((load) => {
        const medians = animals.map((size) =>
          mediansOf(cells, { server, connections: count, load, animals: size }),
        );
        return [
          LOADS[load].title,
          ...medians.map(({ perSecond }) => figure(perSecond)),
          ...medians.map(({ p99 }) => p99.toFixed(2)),
          ...medians.map(({ postgresCpu }) => postgresCpu?.toFixed(3) ?? ''),
        ];
      });
      parts.push(
        `### ${server}, ${count} ${count === 1 ? 'connection' : 'connections'}`,
        table(
          ['load', ...head('requests/s'), ...head('p99 ms'), ...head('PostgreSQL CPU s per 1,000')],
          rows,
        ),
      );
    }
  }
  return parts;
}

export const figure = (number) => Math.round(number).toLocaleString('en');

export function mediansOf(cells, where) {
  const names = ['perSecond', 'p50', 'p99', 'serverCpu', 'postgresCpu'];
  const chosen = cells.filter((cell) =>
    Object.entries(where).every(([name, value]) => cell[name] === value),
  );
  return Object.fromEntries(names.map((name) => [name, median(chosen.map((cell) => cell[name]))]));
}

function median(values) {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = Math.floor(sorted.length / 2);
  return sorted.length % 2 === 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

/** Words left, figures right, padded as Prettier does. */
export function table(head, rows) {
  const lines = [head, ...rows].map((line) => line.map(String));
  const isFigure = head.map((_, i) => rows.some((row) => /^[\d.,]+$/.test(row[i])));
  const widths = head.map((_, i) => Math.max(3, ...lines.map((line) => line[i].length)));
  const write = (line) =>
    `| ${line.map((cell, i) => (isFigure[i] ? cell.padStart(widths[i]) : cell.padEnd(widths[i]))).join(' | ')} |`;
  const rule = `| ${widths.map((width, i) => (isFigure[i] ? '-'.repeat(width - 1) + ':' : '-'.repeat(width))).join(' | ')} |`;
  return [write(lines[0]), rule, ...lines.slice(1).map(write)].join('\n');
}
