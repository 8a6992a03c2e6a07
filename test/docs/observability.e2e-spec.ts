import { execFileSync, spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse } from 'yaml';
import { PROJECT_ROOT } from '../../src/config/project-root.js';
import { exchange, request } from '../support/raw-http.js';
import { startService } from '../support/service.js';
import { DOCUMENTS } from '../support/documents.js';

const ALERTS = join(PROJECT_ROOT, 'docs/observability/alerts.yaml');
const read = (file: string) => readFileSync(join(PROJECT_ROOT, file), 'utf8');

interface Alert {
  alert: string;
  expr: string;
  labels: { severity: string };
  annotations: { summary: string; runbook_url: string };
}
const alerts: Alert[] = parse(readFileSync(ALERTS, 'utf8')).groups.flatMap(
  ({ rules }: { rules: Alert[] }) => rules,
);

const dashboard = JSON.parse(read('docs/observability/dashboard.json'));
const panels: { title: string; targets: { expr: string }[] }[] = dashboard.panels;
const variables: { query: string }[] = dashboard.templating.list;

/** What Prometheus adds to what it reads. */
const OF_PROMETHEUS = { metrics: ['up'], labels: ['job', 'instance', 'le'] };

const expressions: [where: string, expression: string][] = [
  ...alerts.map(({ alert, expr }): [string, string] => [alert, expr]),
  ...panels.flatMap(({ title, targets }) =>
    targets.map(({ expr }): [string, string] => [title, expr]),
  ),
  ...variables
    .map(({ query }) => /label_values\((.+), \w+\)/.exec(query)?.[1])
    .filter((query) => query !== undefined)
    .map((query): [string, string] => ['a variable', query]),
];

/** The names of labels in a PromQL expression: those that select, and those that group. */
function labelsIn(expression: string): string[] {
  const selecting = [...expression.matchAll(/[{,]\s*(\w+)\s*(?:=|!)/g)].map(([, name]) => name!);
  const grouping = [...expression.matchAll(/\bby \(([^)]*)\)/g)].flatMap(([, names]) =>
    names!.split(/,\s*/),
  );
  return [...selecting, ...grouping];
}

/** The names of metrics in a PromQL expression: every name that is no label, function or keyword. */
function metricsIn(expression: string): string[] {
  const rest = expression
    .replace(/\{[^}]*\}|\[[^\]]*\]|\bby \([^)]*\)/g, '')
    .replace(/\b\w+\s*\(|\b(?:sum|count)\b/g, '');
  return [...rest.matchAll(/[a-z_]\w*/gi)].map(([name]) => name);
}

describe('the dashboard and the alerts', () => {
  /** Names of samples, and of metrics as they are declared. */
  let samples: Set<string>;
  let declared: Set<string>;
  let labels: Set<string>;
  beforeAll(async () => {
    const service = await startService({ METRICS_PORT: '0' });
    await exchange(
      service.port,
      request('GET /v1/pets/1', [`Authorization: Bearer ${service.key}`]),
    );
    const response = await fetch(`http://127.0.0.1:${service.metricsPort()}/metrics`);
    const text = await response.text();
    await service.stop();
    const types = [...text.matchAll(/^# TYPE (\w+) (\w+)$/gm)];
    declared = new Set(types.map(([, name]) => name!));
    // Garbage was not necessarily collected.
    const parts = types.flatMap(([, name, type]) =>
      type === 'histogram' ? ['_bucket', '_sum', '_count'].map((part) => `${name}${part}`) : name!,
    );
    samples = new Set(parts);
    labels = new Set([...text.matchAll(/[{,](\w+)="/g)].map(([, name]) => name!));
  });

  it.each(expressions)('name only metrics that the service has: %s', (_where, expression) => {
    const names = metricsIn(expression);
    expect(names.length).toBeGreaterThan(0);
    expect([...samples, ...OF_PROMETHEUS.metrics]).toEqual(expect.arrayContaining(names));
  });

  it.each(expressions)('name only labels that metrics have: %s', (_where, expression) => {
    expect([...labels, ...OF_PROMETHEUS.labels]).toEqual(
      expect.arrayContaining(labelsIn(expression)),
    );
  });

  it('are beside a table of exactly the metrics that the service has, in docs/operations.md', () => {
    const own = [...declared].filter((name) => name.startsWith('animal_store_'));
    const documented = [...read('docs/operations.md').matchAll(/^\| `(animal_store_\w+)`/gm)];
    expect(documented.map(([, name]) => name).toSorted()).toEqual(own.toSorted());
    const named = DOCUMENTS.flatMap((file) => read(file).match(/\banimal_store_\w+/g) ?? []);
    expect([...declared, ...samples]).toEqual(expect.arrayContaining(named));
  });

  it('have a heading and a paragraph for each alert in docs/operations.md, and no other; alerts link to it', () => {
    const headings = [...read('docs/operations.md').matchAll(/^#### (Animal\w+)\n\n[^#\s]/gm)];
    expect(headings.map(([, name]) => name)).toEqual(alerts.map(({ alert }) => alert));
    for (const { alert, annotations } of alerts) {
      expect(annotations.runbook_url).toBe(`docs/operations.md#${alert.toLowerCase()}`);
    }
  });

  it('have a severity and a summary for each alert', () => {
    for (const { labels: given, annotations } of alerts) {
      expect(['critical', 'warning']).toContain(given.severity);
      expect(annotations.summary).toMatch(/\.$/);
    }
  });

  const hasPromtool = spawnSync('promtool', ['--version']).error === undefined;
  // A developer's machine may have no Prometheus; in CI these tests run, and fail without it.
  const withPromtool = hasPromtool || process.env['CI'] ? it : it.skip;
  const promtool = (...args: string[]) => execFileSync('promtool', args, { encoding: 'utf8' });

  withPromtool('are rules that Prometheus reads', () => {
    expect(promtool('check', 'rules', ALERTS)).toContain(`SUCCESS: ${alerts.length} rules found`);
  });

  withPromtool('alert when that happens which they are about', () => {
    const cases = join(PROJECT_ROOT, 'test/docs/alerts.promtool.yaml');
    const [{ alert_rule_test: tested }] = parse(readFileSync(cases, 'utf8')).tests;
    const names = tested.map(({ alertname }: { alertname: string }) => alertname);
    expect(names).toEqual(expect.arrayContaining(alerts.map(({ alert }) => alert)));
    expect(promtool('test', 'rules', cases)).toContain('SUCCESS');
  });
});
