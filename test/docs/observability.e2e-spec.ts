import { execFileSync, spawnSync } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Client, type PoolClient } from 'pg';
import { parse } from 'yaml';
import { PROJECT_ROOT } from '../../src/config/project-root.js';
import { DATABASE_LIMITS } from '../../src/database/limits.js';
import { logLosses } from '../../src/logging/logger.js';
import { itWith } from '../support/describe-with.js';
import { DOCUMENTS, read } from '../support/documents.js';
import { metric } from '../support/metric.js';
import { RawConnection } from '../support/raw-http.js';
import { serviceOfTests, startService, useRealTimes } from '../support/service.js';
import { temporaryFolder } from '../support/temporary-folder.js';
import { until } from '../support/until.js';

useRealTimes();
// What is mended is noticed soon.
Object.assign(DATABASE_LIMITS, { comparison: 500 });

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

  it('draw in each panel, of the job and the instances that are chosen, what its title says, with its labels and unit', () => {
    const { panels } = JSON.parse(read('docs/observability/dashboard.json'));
    const targets: any[] = panels.flatMap(({ targets, ...panel }: any) =>
      targets.map((target: any) => ({ legendFormat: '', ...panel, ...target })),
    );
    for (const { title, expr, legendFormat, fieldConfig } of targets) {
      // Whether one is ready is a question about all of them.
      const chosen = `job="$job"${title === 'Ready processes' ? '' : ', instance=~"$instance"'}`;
      const selectors = expr.match(/\{[^{}]*\}/g).map((one: string) => one.slice(1, -1));
      expect([title, ...selectors.map((one: string) => one.slice(0, chosen.length))]).toEqual([
        title,
        ...selectors.map(() => chosen),
      ]);
      const share = /99th percentile|median/.exec(title)?.[0];
      const quantile = /histogram_quantile\(([\d.]+),/.exec(expr)?.[1];
      const isHistogram = expr.includes('_bucket');
      expect([title, quantile]).toEqual([
        title,
        isHistogram ? { '99th percentile': '0.99', median: '0.5' }[share!] : undefined,
      ]);
      const kept =
        /\bby \((.+?)\)/.exec(expr)?.[1] ?? (/^(sum|count)\(/.test(expr) ? '' : 'instance');
      const named = Array.from(legendFormat.matchAll(/\{\{(\w+)\}\}/g), ([, label]) => label);
      const told = kept.split(', ').filter((label: string) => label !== '' && label !== 'le');
      expect([title, named.toSorted()]).toEqual([title, legendFormat ? told.toSorted() : []]);
      const units: [RegExp, string][] = [
        [/_bytes\{/, 'bytes'],
        [/quantile|lag_p99_seconds|expiry_timestamp_seconds/, 's'],
        [/(cpu|gc_duration)_seconds|_open_fds/, 'percentunit'],
        [/^sum by \([\w, ]+\) \(rate\(animal_store_http_requests_total/, 'reqps'],
      ];
      const unit = units.find(([metric]) => metric.test(expr))?.[1];
      expect([title, fieldConfig?.defaults.unit ?? 'none']).toEqual([
        title,
        unit ?? expect.stringMatching(/^(short|none)$/),
      ]);
    }
    expect(new Set(panels.map(({ id }: any) => id)).size).toBe(panels.length);
  });

  itWith('promtool')('fire when, and only when, that has happened which they are about', () => {
    const file = 'docs/observability/alerts.test.yaml';
    const tested = parse(read(file)).tests.map(({ name }: any) => name);
    expect([...new Set(tested)]).toEqual(NAMES);
    // Prometheus's own default is a minute.
    const { groups } = parse(read(ALERTS));
    expect(groups.map(({ interval }: any) => interval)).toEqual(['15s']);
    // Each links to what to do.
    const entries = read('docs/operations.md').matchAll(/^- <a id="(\w+)"><\/a>\*\*(\w+)\*\*:/gm);
    const anchors = Array.from(entries, ([, id, name]) => {
      expect(id).toBe(name!.toLowerCase());
      return `docs/operations.md#${id}`;
    });
    const links = groups[0].rules.map(({ annotations }: any) => annotations.runbook_url);
    expect(anchors).toEqual(expect.arrayContaining(links));
    const args = ['test', 'rules', file];
    const said = execFileSync('promtool', args, { cwd: PROJECT_ROOT, encoding: 'utf8' });
    expect(said).toContain('SUCCESS');
  });
});

/** Series in promtool's notation by their names, without the label `job` if it is that of the service. */
type Series = Record<string, string>;

const REQUESTS = 'animal_store_http_requests_total';
const bucketsOf = (histogram: string, labels: string, buckets: Record<string, string>): Series =>
  Object.fromEntries(
    Object.entries(buckets).map(([le, values]) => [
      `${histogram}_seconds_bucket{${labels},le="${le}"}`,
      values,
    ]),
  );
/** One in a hundred statements, or requests, takes as long as the alert allows, or is in the next bucket. */
const slow = (limit: number, share: string, histogram: string, labels: string) =>
  bucketsOf(histogram, labels, {
    [limit]: `0+${share}x80`,
    [2 * limit]: '0+1000x80',
    '+Inf': '0+1000x80',
  });
const statements = (share: string, instance = 'a') =>
  slow(0.25, share, 'animal_store_statement_duration', `instance="${instance}",statement="s"`);
const requests = (share: string, operation = 'listPets') =>
  slow(0.5, share, 'animal_store_http_request_duration', `operation="${operation}"`);
const ofHaproxy = (of: number): Series => ({
  'haproxy_frontend_http_responses_total{job="haproxy",proxy="clients",code="2xx"}': '0+9800x80',
  'haproxy_frontend_http_responses_total{job="haproxy",proxy="clients",code="5xx"}': `0+${of}x80`,
  'haproxy_frontend_http_responses_total{job="haproxy",proxy="metrics",code="5xx"}': '0+900x80',
  'haproxy_server_http_responses_total{job="haproxy",proxy="animal-store",server="1",code="5xx"}':
    '0+50x80',
  'haproxy_server_http_responses_total{job="haproxy",proxy="animal-store",server="2",code="5xx"}':
    '0+50x80',
  'haproxy_server_http_responses_total{job="haproxy",proxy="animal-store",server="2",code="2xx"}':
    '0+9800x80',
  'haproxy_server_http_responses_total{job="haproxy",proxy="other",server="1",code="5xx"}':
    '0+90x80',
});
/** Of two processes, together. */
const responses = (code: string, each: number): Series => ({
  [`${REQUESTS}{instance="a",code="${code}"}`]: `0+${each}x80`,
  [`${REQUESTS}{instance="b",code="${code}"}`]: `0+${each}x80`,
});
const unavailable = (count: number, of: number, times = 80): Series => ({
  [`${REQUESTS}{operation="createPet",code=""}`]: `0+${of - count}x${times}`,
  [`${REQUESTS}{operation="createPet",code="unavailable"}`]: `0+${count}x${times}`,
});
const builds = (...labels: string[]): Series =>
  Object.fromEntries(
    labels.map((own, i) => [`animal_store_build_info{instance="${i}",${own}}`, '1x300']),
  );
const NEVER = undefined;

/**
 * Of each alert, what is just beyond its limit, with the second at which it first fires, and what is just within. A scrape is
 * after 15 seconds, or as many as are told.
 */
const LIMITS: [alert: string, firesAt: number | undefined, series: Series, pause?: number][] = [
  ['Down', NEVER, { 'up{job="other",instance="x"}': '0x80', 'up{instance="a"}': '1x80' }],
  ['NoneReady', 30, { 'up{instance="a"}': '1x80' }],
  ['NoneReady', NEVER, { 'animal_store_ready{instance="a"}': '1x80' }],
  ['ProxyFailing', 135, ofHaproxy(230)],
  ['ProxyFailing', NEVER, ofHaproxy(180)],
  ['Restarting', 60, { 'process_start_time_seconds{instance="a"}': '1 2 3 3 4x80' }],
  ['Restarting', NEVER, { 'process_start_time_seconds{instance="a"}': '1x79 2x79 3x79 4x80' }],
  ['Restarting', NEVER, { 'process_start_time_seconds{job="x"}': '1 2 3 4 5x80' }],
  ['Restarting', 300, { 'up{instance="a"}': '1x3 0x3 1x3 0x3 1x3 0x80' }],
  ['Restarting', NEVER, { 'up{job="other"}': '1 0 1 0 1 0 1 0x80' }],
  ['ReadinessFlaps', NEVER, { 'animal_store_ready{instance="a"}': '1 0 1 0 1x80' }],
  [
    'ReadinessFlaps',
    NEVER,
    { 'animal_store_ready{instance="a"}': '1x39 0x39 1x39 0x39 1x39 0x39' },
  ],
  ['VersionsDiffer', NEVER, builds('version="1",commit="x"', 'version="1",commit="x"')],
  ['VersionsDiffer', 3_600, builds('version="1",commit="x"', 'version="1",commit="y"')],
  ['VersionsDiffer', 3_600, builds('version="1",commit=""', 'version="2",commit=""')],
  ['Failing', NEVER, { [`${REQUESTS}{code="internal_error"}`]: '0x80' }],
  ['Unavailable', 135, unavailable(12, 1_000)],
  ['Unavailable', NEVER, unavailable(9, 1_000)],
  // Few, of a rare operation.
  ['Unavailable', 315, unavailable(1, 1, 20), 60],
  ['Unavailable', NEVER, unavailable(1, 1, 10), 120],
  [
    'DatabaseSlow',
    615,
    { ...statements('985'), 'nodejs_eventloop_lag_p99_seconds{instance="a"}': '0.09x80' },
  ],
  ['DatabaseSlow', NEVER, statements('995')],
  [
    'DatabaseSlow',
    NEVER,
    { ...statements('985'), 'nodejs_eventloop_lag_p99_seconds{instance="a"}': '0.12x80' },
  ],
  ['ProcessSlow', 615, requests('985')],
  ['ProcessSlow', NEVER, { ...requests('995'), ...requests('0', '/health/ready') }],
  ['ProcessSlow', NEVER, { ...requests('985'), ...unavailable(20, 1_000) }],
  [
    'ProcessSlow',
    NEVER,
    {
      ...requests('985'),
      'animal_store_database_connections_awaited{instance="a"}':
        '1 0 0x9 1 0x9 1 0x9 1 0x9 1 0x9 1',
    },
  ],
  ['Overloaded', 180, { 'animal_store_http_requests_queued{instance="a"}': '1x80' }],
  [
    'Overloaded',
    NEVER,
    { 'animal_store_http_requests_queued{instance="a"}': '9x5 0 9x5 0 9x5 0 9x5 0 9x5 0 9x5 0' },
  ],
  [
    'ConnectionsAwaited',
    180,
    { 'animal_store_database_connections_awaited{instance="a"}': '1x80' },
  ],
  [
    'ConnectionsAwaited',
    NEVER,
    { 'animal_store_database_connections_awaited{instance="a"}': '9x5 0 9x5 0 9x5 0 9x5 0 9x5 0' },
  ],
  ['DatabaseWarnings', 300, { 'animal_store_database_warnings{instance="a"}': '1x80' }],
  [
    'StandbyUnused',
    300,
    { 'animal_store_database_standby_in_use{instance="a",standby="s"}': '0x80' },
  ],
  ['EventLoopLag', 300, { 'nodejs_eventloop_lag_p99_seconds{instance="a"}': '0.21x80' }],
  ['EventLoopLag', NEVER, { 'nodejs_eventloop_lag_p99_seconds{instance="a"}': '0.19x80' }],
  ['EventLoopLag', NEVER, { 'nodejs_eventloop_lag_p99_seconds{job="other"}': '1x80' }],
  ['RejectedKeys', 1_185, responses('invalid_api_key', 8)],
  ['RejectedKeys', NEVER, responses('invalid_api_key', 7)],
  ['RateLimited', 1_185, responses('rate_limited', 8)],
  ['RateLimited', NEVER, responses('rate_limited', 7)],
  ['LogFailing', 60, { 'animal_store_log_lines_lost_total{instance="a"}': '0x3 1x80' }],
  ['LogFailing', NEVER, { 'animal_store_log_lines_lost_total{instance="a"}': '5x80' }],
  ['LogFailing', 75, { 'animal_store_log_bytes_waiting{instance="a"}': '0 1000001x80' }],
  ['LogFailing', NEVER, { 'animal_store_log_bytes_waiting{instance="a"}': '1000000x80' }],
  [
    'Descriptors',
    120,
    { 'process_open_fds{instance="a"}': '81x80', 'process_max_fds{instance="a"}': '100x80' },
  ],
  [
    'Descriptors',
    NEVER,
    { 'process_open_fds{job="x"}': '99x80', 'process_max_fds{job="x"}': '100x80' },
  ],
  [
    'Descriptors',
    NEVER,
    { 'process_open_fds{instance="a"}': '79x80', 'process_max_fds{instance="a"}': '100x80' },
  ],
  ['Memory', 300, { 'process_resident_memory_bytes{instance="a"}': '457000000x80' }],
  ['Memory', NEVER, { 'process_resident_memory_bytes{instance="a"}': '456000000x80' }],
  ['Memory', NEVER, { 'process_resident_memory_bytes{job="other"}': '999000000x80' }],
];

itWith('promtool')(
  'the alerts fire beyond their limits, as soon as they say, and not within',
  async () => {
    const tests = LIMITS.map(([name, firesAt, series, pause = 15], i) => {
      const firing = `ALERTS{alertname="AnimalStore${name}",alertstate="firing"}`;
      const isFiring = `label_replace(min(${firing}), "test", "${i}", "", "")`;
      const end = Math.max(...Object.values(series).map((values) => pause * lengthOf(values)));
      const at = (eval_time: number, expr: string, value?: number) => ({
        expr,
        eval_time: `${eval_time}s`,
        ...(value && { exp_samples: [{ labels: `{test="${i}"}`, value }] }),
      });
      return {
        name: `${name} ${i}`,
        interval: `${pause}s`,
        input_series: Object.entries(series).map(([one, values]) => ({
          series: /\bjob="/.test(one) ? one : one.replace('{', '{job="animal-store",'),
          values,
        })),
        promql_expr_test:
          firesAt === NEVER
            ? [
                at(
                  end,
                  `label_replace(count(count_over_time(${firing}[${end}s])), "test", "${i}", "", "")`,
                ),
              ]
            : [at(firesAt - 15, isFiring), at(firesAt, isFiring, 1)],
      };
    });
    const file = join(await temporaryFolder(), 'limits.yaml');
    const rule_files = [join(PROJECT_ROOT, ALERTS)];
    await writeFile(file, JSON.stringify({ rule_files, evaluation_interval: '15s', tests }));
    const { stdout, stderr } = spawnSync('promtool', ['test', 'rules', file], { encoding: 'utf8' });
    expect(stdout + stderr).toContain('SUCCESS');
  },
);

/** How many scrapes promtool's notation is for: a value, and what follows with `x`. */
const lengthOf = (values: string) =>
  values.split(' ').reduce((sum, one) => sum + 1 + Number(/x(\d+)$/.exec(one)?.[1] ?? 0), 0) - 1;

/** A metric's name and labels, with those that Prometheus adds, and its value. */
type Sample = [series: string, value: number];

const samplesOf = (text: string): Sample[] =>
  Array.from(text.matchAll(/^(\w+)(?:\{(.*)\})? (\S+)$/gm), ([, name, labels, value]) => [
    `${name}{${[labels, 'job="animal-store"', 'instance="a"'].filter(Boolean).join()}}`,
    OF_THE_MACHINE[name!] ?? Number(value) - (name === EXPIRY ? Date.now() / 1000 : 0),
  ]);

/** promtool's clock begins at 0. */
const EXPIRY = 'animal_store_api_key_expiry_timestamp_seconds';

/** Jest's process, in which the service runs, may have more memory and lag than the alerts allow. */
const OF_THE_MACHINE: Record<string, number> = {
  process_resident_memory_bytes: 100 * 2 ** 20,
  nodejs_eventloop_lag_p99_seconds: 0.01,
};

/**
 * Asks promtool about the alerts if gauges stay for an hour as they were in the last scrape, and counters go on as between
 * the last two. @returns its output.
 */
async function promtool(scrapes: Sample[][], tests: object): Promise<string> {
  const series = new Map<string, string[]>();
  scrapes.forEach((samples, i) => {
    for (const [name, value] of [
      ...samples,
      ['up{job="animal-store",instance="a"}', 1] as Sample,
    ]) {
      const values = series.get(name) ?? Array.from({ length: i }, () => '_');
      const isCounter = /^\w+(_total|_bucket|_count|_sum)\{/.test(name);
      const before = Number(values.at(-1));
      const step = isCounter && value > before ? value - before : 0;
      const isLast = i === scrapes.length - 1;
      const shown = `${value.toFixed(9)}${isLast ? `+${step.toFixed(9)}x240` : ''}`;
      series.set(name, [...values, Number.isNaN(value) ? '_' : shown]);
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
    expect(new Set(awaited.map(([, value]) => value))).toEqual(new Set([0]));
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

  const query = (sql: string) => service.query(sql);
  const create = () => service.api.post('/v1/pets').send({ name: 'Rex', categoryId: 1 });
  const setNextId = (id: string) => query(`select setval('pets_id_seq', ${id}, false)`);
  const warnings = () => metric(service, 'database_warnings');
  const sessions: PoolClient[] = [];

  /** What begins, what happens between two scrapes, what ends it, and the alerts that fire, without their prefix. */
  const TROUBLES: Record<
    string,
    { begin?(): unknown; meanwhile?(): unknown; end?(): unknown; alerts: string[] }
  > = {
    'a table is missing': {
      begin: async () => {
        await query('alter table pets rename to pets_that_were');
        await until('what else lacks with it is noticed', warnings, {
          holds: (count) => count > 0,
        });
      },
      end: async () => {
        await query('alter table pets_that_were rename to pets');
        await until('it is noticed', warnings, { holds: (count) => count === 0 });
      },
      alerts: ['DatabaseWarnings', 'NoneReady', 'NotReady'],
    },
    'an index is missing': {
      begin: async () => {
        await query('drop index pets_status_id_idx');
        await until('it is noticed', warnings, { holds: (count) => count > 0 });
      },
      end: async () => {
        await query('create index pets_status_id_idx on pets (status, id)');
        await until('it is noticed', warnings, { holds: (count) => count === 0 });
      },
      alerts: ['DatabaseWarnings'],
    },
    'the ids of pets begin again': {
      begin: async () => {
        await setNextId('1');
        await create().expect(201);
      },
      meanwhile: async () => {
        await setNextId('1');
        await create().expect(500);
      },
      end: () => setNextId('(select max(id) + 1 from pets)'),
      alerts: ['Failing'],
    },
    'a trigger makes creates slow': {
      begin: () =>
        query(`create function wait() returns trigger language plpgsql as $$
                 begin perform pg_sleep(0.6); return new; end $$;
               create trigger wait before insert on pets for each row execute function wait()`),
      meanwhile: () => create().expect(201),
      end: () => query('drop function wait cascade'),
      alerts: ['DatabaseSlow'],
    },
    'statements wait for a connection': {
      begin: async () => {
        const connect = async () => sessions.push(await service.pool.connect());
        await Promise.all(Array.from({ length: service.sessionsOfOne() }, connect));
        void connect();
      },
      end: async () => {
        sessions.splice(0).forEach((session) => session.release());
        await until('the last one got a connection', () => sessions.length === 1);
        sessions.splice(0).forEach((session) => session.release());
      },
      alerts: ['ConnectionsAwaited'],
    },
    'a key has expired that was in use': {
      begin: async () => {
        const { id } = await service.keys.issue('client', 86_400_000);
        await query(
          `update api_keys set created_at = now() - interval '60 days', last_used_at = now(), expires_at = now() where id = ${id}`,
        );
      },
      end: () => query(`delete from api_keys where name = 'client'`),
      alerts: ['KeyExpired'],
    },
    'clients have invalid keys': {
      meanwhile: () => {
        const list = () => service.anonymous.get('/v1/pets').set('Authorization', 'Bearer wrong');
        return Promise.all(Array.from({ length: 30 }, () => list().expect(401)));
      },
      alerts: ['RejectedKeys'],
    },
    'lines of the log are lost': {
      meanwhile: () => (logLosses.lines += 1),
      alerts: ['LogFailing'],
    },
  };

  itWith('promtool').each(Object.entries(TROUBLES))(
    'are those that are about it, and no others, while %s',
    async (_what, { begin, meanwhile, end, alerts }) => {
      await begin?.();
      const scrapes = [];
      try {
        for (const _ of [1, 2, 3]) {
          scrapes.push(await scrape());
          await meanwhile?.();
        }
        scrapes.push(await scrape());
      } finally {
        await end?.();
      }
      const exp_samples = alerts.map((name) => ({
        labels: `{alertname="AnimalStore${name}"}`,
        value: 1,
      }));
      const expr = 'count by (alertname) (ALERTS{alertstate="firing"})';
      const promql_expr_test = [{ expr, eval_time: '59m', exp_samples }];
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
