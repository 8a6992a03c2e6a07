import { execFileSync } from 'node:child_process';
import { cpSync, existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { parseEnv } from 'node:util';
import { parse } from 'yaml';
import { PROJECT_ROOT } from '../../src/config/project-root.js';
import { itWith } from '../support/describe-with.js';
import { read } from '../support/documents.js';

describe('docker-compose.yml', () => {
  const text = read('docker-compose.yml');
  const { services } = parse(text, { merge: true });

  it('takes exactly the variables of .env.example, and gives each to the service or publishes a port at it', () => {
    const variables = Object.keys(parseEnv(read('.env.example'))).toSorted();
    const used = (part: string) => [...part.matchAll(/\$\{(\w+)/g)].map(([, name]) => name!);
    expect([...new Set(used(text))].toSorted()).toEqual(variables);
    const { environment, ports, build } = services.api;
    const given = Object.entries<string | number>({ ...environment, ...build.args })
      .filter(([name, value]) => `${value}`.startsWith(`\${${name}:`))
      .map(([name]) => name);
    const others = ['DATABASE_PORT', 'BALANCER_PORT', 'PROMETHEUS_PORT', 'GRAFANA_PORT'];
    const all = new Set([...given, ...used(ports.join()), ...others]);
    expect([...all].toSorted()).toEqual(variables);
    expect(services.migrate.environment).toEqual(environment);
    expect(ports[0]).toMatch(`${environment.PUBLISHED_HOST}:`);
  });

  /** Where a container has the files of the project that are mounted in it. */
  const mounts = Object.fromEntries(
    Object.values<{ volumes?: string[] }>(services)
      .flatMap(({ volumes = [] }) => volumes)
      .filter((volume) => volume.startsWith('./'))
      .map((volume) => volume.split(':') as [string, string])
      .map(([file, target]) => [target, file]),
  );

  it('mounts, and watches, only what exists', () => {
    const watched = services.api.develop.watch.map(({ path }: { path: string }) => path);
    const paths = [...Object.values(mounts), ...watched];
    expect(paths.length).toBeGreaterThan(8);
    expect(paths.filter((path) => !existsSync(join(PROJECT_ROOT, path)))).toEqual([]);
  });

  it("gives Grafana the dashboard in the folder that it reads, and Prometheus's address", () => {
    const [{ options }] = parse(read('deploy/compose/grafana-dashboards.yaml')).providers;
    expect(mounts[`${options.path}/dashboard.json`]).toBe('./docs/observability/dashboard.json');
    const [{ url }] = parse(read('deploy/compose/grafana-datasource.yaml')).datasources;
    expect(Object.keys(services)).toContain(new URL(url).hostname);
  });

  itWith('promtool')('has Prometheus read its configuration, and the alerts', () => {
    const folder = mkdtempSync(join(tmpdir(), 'animal-store-prometheus-'));
    for (const [target, file] of Object.entries(mounts)) {
      if (target.startsWith('/etc/prometheus/')) {
        cpSync(join(PROJECT_ROOT, file), join(folder, basename(target)));
      }
    }
    const config = join(folder, 'prometheus.yml');
    expect(execFileSync('promtool', ['check', 'config', config], { encoding: 'utf8' })).toContain(
      '1 rule files found',
    );
    rmSync(folder, { recursive: true });
  });
});
