import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse } from 'yaml';
import { PROJECT_ROOT } from '../../src/config/project-root.js';
import { itWith } from '../support/describe-with.js';
import { startService } from '../support/service.js';
import { DOCUMENTS, read } from '../support/documents.js';
import { temporaryFolder } from '../support/temporary-folder.js';

const ALERTS = 'docs/observability/alerts.yaml';

/** The names of all alerts. */
const NAMES: string[] = parse(read(ALERTS)).groups.flatMap(({ rules }: any) =>
  rules.map(({ alert }: any) => alert),
);

/**
 * What each alert is about: samples every 15 seconds, when it does not fire yet and when it does, its labels beside the
 * job, and its summary.
 */
const CASES: Record<string, any> = parse(
  `
AnimalStoreDown:
  series: { 'up{JOB,instance="a"}': '0x80', 'up{JOB,instance="b"}': '1x80' }
  times: [45s, 1m]
  labels: { severity: critical, instance: a }
  summary: a does not serve its metrics.
AnimalStoreAbsent:
  series: { 'up{job="other",instance="a"}': '1x80' }
  times: [4m, 5m]
  labels: { severity: critical }
  summary: Prometheus has no process to scrape.
AnimalStoreNotReady:
  series: { 'STORE_ready{JOB,instance="a"}': '0x80', 'STORE_ready{JOB,instance="b"}': '0 1 0 1x77' }
  times: [2m, 3m]
  labels: { severity: critical, instance: a }
  summary: a is not ready.
AnimalStoreFailing:
  series:
    STORE_http_requests_total{JOB,instance="a",operation="createPet",code="internal_error"}: '0x40 1x40'
  times: [9m, 11m]
  labels: { severity: critical, instance: a, operation: createPet, code: internal_error }
  summary: createPet responds with 500 on a.
AnimalStoreUnavailable:
  series:
    STORE_http_requests_total{JOB,operation="listPets"}: '0+950x80'
    STORE_http_requests_total{JOB,operation="none",code="unavailable"}: '0+50x80'
    STORE_http_requests_total{JOB,operation="/health/ready",code="unavailable"}: '0+50x80'
  times: [1m, 9m]
  labels: { severity: critical }
  summary: 5% of the responses are 503.
AnimalStoreDatabaseSlow:
  series:
    STORE_statement_duration_seconds_bucket{JOB,instance="a",statement="s",le="0.25"}: '0+90x80'
    STORE_statement_duration_seconds_bucket{JOB,instance="a",statement="s",le="0.5"}: '0+100x80'
    STORE_statement_duration_seconds_bucket{JOB,instance="a",statement="s",le="+Inf"}: '0+100x80'
    STORE_statement_duration_seconds_bucket{JOB,instance="b",statement="t",le="1"}: '0+100x80'
    STORE_statement_duration_seconds_bucket{JOB,instance="b",statement="t",le="+Inf"}: '0+100x80'
    nodejs_eventloop_lag_p99_seconds{JOB,instance="a"}: '0.02x80'
    nodejs_eventloop_lag_p99_seconds{JOB,instance="b"}: '0.15x80'
    STORE_http_request_duration_seconds_bucket{JOB,operation="listPets",le="0.5"}: '0+90x80'
    STORE_http_request_duration_seconds_bucket{JOB,operation="listPets",le="1"}: '0+100x80'
    STORE_http_request_duration_seconds_bucket{JOB,operation="listPets",le="+Inf"}: '0+100x80'
  times: [9m, 15m]
  labels: { severity: warning, statement: s }
  summary: 'The database is slow: one in a hundred statements s takes 475ms or more.'
AnimalStoreProcessSlow:
  series:
    STORE_http_request_duration_seconds_bucket{JOB,operation="listPets",le="0.5"}: '0+90x80'
    STORE_http_request_duration_seconds_bucket{JOB,operation="listPets",le="1"}: '0+100x80'
    STORE_http_request_duration_seconds_bucket{JOB,operation="listPets",le="+Inf"}: '0+100x80'
    STORE_statement_duration_seconds_bucket{JOB,instance="a",statement="s",le="0.1"}: '0+100x80'
    STORE_statement_duration_seconds_bucket{JOB,instance="a",statement="s",le="+Inf"}: '0+100x80'
  times: [9m, 15m]
  labels: { severity: warning, operation: listPets }
  summary: 'The process is slow, and the database is not: one in a hundred requests to listPets takes 950ms or more.'
AnimalStoreOverloaded:
  series:
    STORE_http_requests_queued{JOB,instance="a"}: '5x80'
    STORE_http_requests_queued{JOB,instance="b"}: '5 0 5 0 0x76'
  times: [2m, 6m]
  labels: { severity: warning, instance: a }
  summary: Requests wait for their handlers on a.
AnimalStoreConnectionsAwaited:
  series: { 'STORE_database_connections_awaited{JOB,instance="a"}': '2x80' }
  times: [2m, 6m]
  labels: { severity: warning, instance: a }
  summary: Statements wait for a connection to the database on a.
AnimalStoreStandbyUnused:
  series:
    STORE_database_standby_in_use{JOB,instance="a",standby="s:1"}: '0x80'
    STORE_database_standby_in_use{JOB,instance="a",standby="s:2"}: '0 0 0 1 0 0 0 1 1x72'
  times: [4m, 8m]
  labels: { severity: warning, instance: a, standby: 's:1' }
  summary: a does not read from the standby s:1.
AnimalStoreEventLoopLag:
  series: { 'nodejs_eventloop_lag_p99_seconds{JOB,instance="a"}': '0.4x80' }
  times: [4m, 6m]
  labels: { severity: warning, instance: a }
  summary: The event loop of a lags by 400ms.
AnimalStoreRejectedKeys:
  series: { 'STORE_http_requests_total{JOB,code="invalid_api_key"}': '0+50x80' }
  times: [14m, 17m]
  labels: { severity: warning }
  summary: 3.333 requests a second have an API key that is not valid.
`
    .replaceAll('JOB,', 'job="animal-store",')
    .replaceAll('STORE_', 'animal_store_'),
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
    // No functions, and no error code.
    const used = text.match(/\b(?!\w+_over_time|invalid_)[a-z]+(?:_[a-z\d]+){2,}/g);
    expect(samples).toEqual(expect.arrayContaining(used!));
  });

  it('have a heading and a paragraph for each alert in docs/operations.md, and no other', () => {
    const headings = [...read('docs/operations.md').matchAll(/^#### (Animal\w+)\n\n[^#\s]/gm)];
    expect(headings.map(([, name]) => name)).toEqual(NAMES);
  });

  itWith('promtool')(
    'fire when, and only when, that has happened which they are about',
    async () => {
      expect(Object.keys(CASES)).toEqual(NAMES);
      // Every case but one lacks the metric whose absence is an alert.
      const others = (one: string) => NAMES.filter((it) => it !== one && !it.endsWith('Absent'));
      const tests = Object.entries(CASES).map(([alertname, { series, times, labels, summary }]) => {
        const firing = {
          exp_labels: { job: 'animal-store', ...labels },
          exp_annotations: {
            summary,
            runbook_url: `docs/operations.md#${alertname.toLowerCase()}`,
          },
        };
        const [early, late] = times.map((eval_time: string) => ({ eval_time, exp_alerts: [] }));
        return {
          interval: '15s',
          input_series: Object.entries(series).map(([name, values]) => ({ series: name, values })),
          alert_rule_test: [
            { ...early, alertname },
            { ...late, alertname, exp_alerts: [firing] },
            ...others(alertname).map((other) => ({ ...late, alertname: other })),
          ],
        };
      });
      const rules = join(PROJECT_ROOT, ALERTS);
      const file = join(await temporaryFolder(), 'tests.yaml');
      const content = { rule_files: [rules], evaluation_interval: '15s', tests };
      // JSON is YAML.
      writeFileSync(file, JSON.stringify(content));
      const args = ['test', 'rules', file];
      expect(execFileSync('promtool', args, { encoding: 'utf8' })).toContain('SUCCESS');
    },
  );
});
