import { execFileSync } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Client } from 'pg';
import { parse } from 'yaml';
import { PROJECT_ROOT } from '../../src/config/project-root.js';
import { itWith } from '../support/describe-with.js';
import { DOCUMENTS, read } from '../support/documents.js';
import { RawConnection } from '../support/raw-http.js';
import { serviceOfTests, startService, useRealTimes } from '../support/service.js';
import { temporaryFolder } from '../support/temporary-folder.js';
import { until } from '../support/until.js';

useRealTimes();

const ALERTS = 'docs/observability/alerts.yaml';

/** The names of all alerts. */
const NAMES: string[] = parse(read(ALERTS)).groups.flatMap(({ rules }: any) =>
  rules.map(({ alert }: any) => alert),
);

describe('the dashboard and the alerts', () => {
  it('name only metrics that there are, as the documents do, and docs/operations.md has a table of all its own', async () => {
    const service = await startService({ METRICS_PORT: '0' });
    await service.api.get('/v1/pets/1').expect(404);
    const response = await fetch(`http://127.0.0.1:${service.metricsPort()}/metrics`);
    const types = [...(await response.text()).matchAll(/^# TYPE (\w+) (\w+)$/gm)];
    await service.stop();
    const declared = types.map(([, name]) => name!);
    const own = declared.filter((name) => name.startsWith('animal_store_'));
    const documented = [...read('docs/operations.md').matchAll(/^\| `(animal_store_\w+)`/gm)];
    expect(documented.map(([, name]) => name).toSorted()).toEqual(own.toSorted());
    // Garbage was not necessarily collected.
    const samples = types.flatMap(([, name, type]) =>
      type === 'histogram' ? ['_bucket', '_sum', '_count'].map((part) => `${name}${part}`) : name!,
    );
    const inDocuments = DOCUMENTS.flatMap((file) => read(file).match(/\banimal_store_\w+/g) ?? []);
    expect([...declared, ...samples]).toEqual(expect.arrayContaining(inDocuments));
    const text = read(ALERTS) + read('docs/observability/dashboard.json');
    // No functions, no error code, and none of haproxy.
    const used = text.match(/\b(?!\w+_over_time|invalid_|haproxy_)[a-z]+(?:_[a-z\d]+){2,}/g);
    expect(samples).toEqual(expect.arrayContaining(used!));
  });

  itWith('promtool')('fire when, and only when, that has happened which they are about', () => {
    const file = 'docs/observability/alerts.test.yaml';
    const tested = parse(read(file)).tests.map(({ name }: any) => name);
    expect([...new Set(tested)]).toEqual(NAMES);
    const args = ['test', 'rules', file];
    const said = execFileSync('promtool', args, { cwd: PROJECT_ROOT, encoding: 'utf8' });
    expect(said).toContain('SUCCESS');
  });
});

/** A metric's name and labels, with those that Prometheus adds, and its value. */
type Sample = [series: string, value: number];

const samplesOf = (text: string): Sample[] =>
  Array.from(text.matchAll(/^(\w+)(?:\{(.*)\})? (\S+)$/gm), ([, name, labels, value]) => [
    `${name}{${[labels, 'job="animal-store"', 'instance="a"'].filter(Boolean).join()}}`,
    // Jest's process, in which the service runs, may have more than the alert about memory allows.
    name === 'process_resident_memory_bytes' ? 100 * 2 ** 20 : Number(value),
  ]);

/** Asks promtool for the alerts that fire, or wait to, when the last scrapes lasts for an hour. @returns its output. */
async function promtool(scrapes: Sample[][], tests: object): Promise<string> {
  const series = new Map<string, string[]>();
  scrapes.forEach((samples, i) => {
    for (const [name, value] of [
      ...samples,
      ['up{job="animal-store",instance="a"}', 1] as Sample,
    ]) {
      const values = series.get(name) ?? Array.from({ length: i }, () => '_');
      const shown = Number.isNaN(value) ? 'NaN' : value.toFixed(9);
      const further = Array.from({ length: i === scrapes.length - 1 ? 240 : 0 }, () => shown);
      series.set(name, [...values, shown, ...further]);
    }
  });
  const input_series = Array.from(series, ([name, values]) => ({
    series: name,
    values: values.join(' '),
  }));
  const file = join(await temporaryFolder(), 'test.yaml');
  const rule_files = [join(PROJECT_ROOT, ALERTS)];
  const all = [{ interval: '15s', input_series, ...tests }];
  await writeFile(file, JSON.stringify({ rule_files, evaluation_interval: '15s', tests: all }));
  return execFileSync('promtool', ['test', 'rules', file], { encoding: 'utf8' });
}

describe('the alerts on what a real process serves', () => {
  const service = serviceOfTests({ METRICS_PORT: '0' });
  const scrape = async () =>
    samplesOf(await (await fetch(`http://127.0.0.1:${service.metricsPort()}/metrics`)).text());

  /** Scrapes that come one after the other, as those of Prometheus. */
  async function scrapesOf(count: number): Promise<Sample[][]> {
    const scrapes: Sample[][] = [];
    while (scrapes.length < count) {
      scrapes.push(await scrape());
    }
    return scrapes;
  }

  itWith('promtool')('are silent for an hour if the process is idle', async () => {
    const scrapes = await scrapesOf(10);
    const awaited = scrapes.flatMap((samples) =>
      samples.filter(([name]) => name.startsWith('animal_store_database_connections_awaited')),
    );
    expect(awaited.map(([, value]) => value)).toEqual(Array(10).fill(0));
    const promql_expr_test = ['1m', '5m', '30m', '59m'].map((eval_time) => ({
      expr: 'ALERTS',
      eval_time,
    }));
    expect(await promtool(scrapes, { promql_expr_test })).toContain('SUCCESS');
  });

  itWith('promtool')(
    'page for creates that a locked table keeps waiting, and name the cause',
    async () => {
      const create = () => service.api.post('/v1/pets').send({ name: 'Rex', categoryId: 1 });
      const locker = new Client({ connectionString: service.databaseUrl });
      locker.on('error', () => {});
      await locker.connect();
      await locker.query('begin; lock table pets in access exclusive mode');
      const scrapes: Sample[][] = [];
      // One create between each two scrapes.
      for (const _ of [1, 2, 3, 4, 5, 6]) {
        scrapes.push(await scrape());
        await create().expect(503);
      }
      await locker.query('rollback');
      const promql_expr_test = [
        {
          expr: 'count by (alertname, operation) (ALERTS{alertstate="firing",severity="critical"})',
          eval_time: '4m',
          exp_samples: [
            { labels: '{alertname="AnimalStoreUnavailable",operation="createPet"}', value: 1 },
          ],
        },
        {
          expr: 'count by (cause) (animal_store_http_requests_total{status="503"})',
          eval_time: '4m',
          exp_samples: [{ labels: '{cause="database_slow"}', value: 1 }],
        },
      ];
      expect(await promtool(scrapes, { promql_expr_test })).toContain('SUCCESS');
    },
  );

  it('are tested with no label that a real process lacks', async () => {
    const { tests } = parse(read('docs/observability/alerts.test.yaml'));
    const real = await scrape();
    const labelsOf = (series: string) => [...series.matchAll(/(\w+)="/g)].map(([, name]) => name!);
    for (const { series } of tests.flatMap((test: any) => test.input_series)) {
      const [name] = series.split('{');
      const known = real
        .filter(([one]) => one.startsWith(`${name}{`))
        .flatMap(([one]) => labelsOf(one));
      // Without a standby, a key that expires or a statement, there is no series.
      if (known.length > 0) {
        expect(known).toEqual(expect.arrayContaining(labelsOf(series)));
      }
    }
  });
});

describe('the port of the metrics', () => {
  const service = serviceOfTests({ METRICS_PORT: '0' });
  const text = async () =>
    (await fetch(`http://127.0.0.1:${service.metricsPort()}/metrics`)).text();

  it('has each operation before its first response, from which an increase is counted', async () => {
    const all = await text();
    for (const [operation, method] of [
      ['listPets', 'GET'],
      ['listPets', 'HEAD'],
      ['createPet', 'POST'],
    ]) {
      const labels = `operation="${operation}",method="${method}"`;
      const errors = `{${labels},status="500",code="internal_error",cause=""}`;
      expect(all).toContain(`animal_store_http_request_duration_seconds_count{${labels}} 0\n`);
      expect(all).toContain(`animal_store_http_requests_total${errors} 0\n`);
    }
  });

  it('tells statements that PostgreSQL cancels from those whose session is closed', async () => {
    await service.api.get('/v1/pets').expect(200);
    const pattern = /^animal_store_statement_duration_seconds_bucket\{le="([\d.]+)"/gm;
    const bounds = new Set(Array.from((await text()).matchAll(pattern), ([, le]) => Number(le)));
    expect([...bounds].slice(-2)).toEqual([1.5, 1.75]);
  });

  it('has 100 connections, and closes those without a request for further ones', async () => {
    const open = () => RawConnection.open(service.metricsPort());
    const connections = await Promise.all(Array.from({ length: 110 }, open));
    const left = () => connections.filter(({ isSilent }) => isSilent).length;
    await until('some are closed', left, { holds: (count) => count <= 100 });
    // After 10 seconds without a request, all would be.
    expect(left()).toBeGreaterThan(90);
    connections.forEach((connection) => connection.vanish());
  });
});
