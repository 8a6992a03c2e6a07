import { execFileSync } from 'node:child_process';
import { parse } from 'yaml';
import { PROJECT_ROOT } from '../../src/config/project-root.js';
import { itWith } from '../support/describe-with.js';
import { DOCUMENTS, read } from '../support/documents.js';
import { RawConnection } from '../support/raw-http.js';
import { serviceOfTests, startService } from '../support/service.js';
import { until } from '../support/until.js';

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
    // No functions, and no error code.
    const used = text.match(/\b(?!\w+_over_time|invalid_)[a-z]+(?:_[a-z\d]+){2,}/g);
    expect(samples).toEqual(expect.arrayContaining(used!));
  });

  itWith('promtool')('fire when, and only when, that has happened which they are about', () => {
    const file = 'docs/observability/alerts.test.yaml';
    expect(parse(read(file)).tests.map(({ name }: any) => name)).toEqual(NAMES);
    const args = ['test', 'rules', file];
    const said = execFileSync('promtool', args, { cwd: PROJECT_ROOT, encoding: 'utf8' });
    expect(said).toContain('SUCCESS');
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
      const errors = `{${labels},status="500",code="internal_error"}`;
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
