import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import ts from 'typescript';
import { parse, parseAllDocuments } from 'yaml';
import { PROJECT_ROOT, VERSION } from '../../src/config/project-root.js';
import { readEnvironment } from '../../src/config/environment.js';
import { startService } from '../support/service.js';

const read = (file: string) => readFileSync(join(PROJECT_ROOT, file), 'utf8');
const objectsOf = (file: string) =>
  parseAllDocuments(read(`deploy/kubernetes/${file}`)).map((document) => {
    expect([...document.errors, ...document.warnings]).toEqual([]);
    return document.toJS();
  });

/** What TypeScript says of objects, with the types that are made of Kubernetes's own OpenAPI document. */
function typeErrors(objects: { apiVersion: string; kind: string }[]): string[] {
  const source = objects.map(({ apiVersion, kind, ...rest }, index) => {
    const module = apiVersion.includes('/')
      ? apiVersion.replace('.k8s.io', '')
      : `core/${apiVersion}`;
    return `import type { ${kind} as T${index} } from 'kubernetes-types/${module}';
      export const o${index}: T${index} = ${JSON.stringify({ apiVersion, kind, ...rest })};`;
  });
  const file = join(PROJECT_ROOT, 'test/operators/objects.ts');
  const options = {
    noEmit: true,
    strict: true,
    skipLibCheck: true,
    lib: ['lib.es5.d.ts'],
    module: ts.ModuleKind.Preserve,
    types: [],
  };
  const host = ts.createCompilerHost(options);
  const { getSourceFile } = host;
  host.getSourceFile = (name, ...rest) =>
    name === file
      ? ts.createSourceFile(name, source.join('\n'), ts.ScriptTarget.Latest)
      : getSourceFile(name, ...rest);
  return ts
    .getPreEmitDiagnostics(ts.createProgram([file], options, host))
    .map(({ messageText }) => ts.flattenDiagnosticMessageText(messageText, '\n'));
}

describe('deploy/kubernetes', () => {
  const [deployment, service, policy, budget] = objectsOf('animal-store.yaml');
  const [job] = objectsOf('migrate.yaml');
  const [serving] = deployment.spec.template.spec.containers;
  const [migrating] = job.spec.template.spec.initContainers;
  const pods = [deployment.spec.template.spec, job.spec.template.spec];
  const containers = pods.flatMap((pod) => [...(pod.initContainers ?? []), ...pod.containers]);
  const { labels } = deployment.spec.template.metadata;
  const valuesOf = (container: { env: { name: string; value: string }[] }) =>
    Object.fromEntries(container.env.map(({ name, value }) => [name, value]));

  it('has only fields that Kubernetes knows, with values of their types', () => {
    expect(typeErrors([deployment, service, policy, budget, job])).toEqual([]);
    const misspelt = structuredClone(deployment);
    misspelt.spec.template.spec.containers[0].livenessProbe.timeoutSecond = 1;
    expect(typeErrors([misspelt])).toEqual([expect.stringContaining('timeoutSecond')]);
  });

  it('runs its containers as any user but root, without capabilities, on a read-only file system', () => {
    for (const { securityContext } of pods) {
      const seccompProfile = { type: 'RuntimeDefault' };
      expect(securityContext).toMatchObject({ runAsNonRoot: true, seccompProfile });
    }
    expect(containers).toHaveLength(3);
    for (const { securityContext } of containers) {
      expect(securityContext).toEqual({
        readOnlyRootFilesystem: true,
        allowPrivilegeEscalation: false,
        capabilities: { drop: ['ALL'] },
      });
    }
  });

  it('migrates and then grants in a job that is named by the version, which its first lines wait for', () => {
    expect([serving.image, migrating.image]).toEqual(
      Array(2).fill(`animal-store-service:${VERSION}`),
    );
    expect(job.metadata.name).toBe(`animal-store-migrate-${VERSION.replaceAll('.', '-')}`);
    expect(read('deploy/kubernetes/migrate.yaml')).toContain(`job/${job.metadata.name} `);
    expect(migrating.args).toEqual(['migrate', 'run']);
    const [{ args, volumeMounts }] = job.spec.template.spec.containers;
    const { mountPath } = volumeMounts.find(({ name }: { name: string }) => name === 'grants');
    expect(args.join()).toContain(`-v ON_ERROR_STOP=1 -f ${mountPath}/grants.sql`);
  });

  it('has variables, ports and files that the service has', () => {
    const [, port] = /\bPORT=(\d+)/.exec(read('Dockerfile'))!;
    for (const container of [serving, migrating]) {
      const { DATABASE_URL_FILE, ...values } = valuesOf(container);
      const [secret, ca] = container.volumeMounts;
      expect(DATABASE_URL_FILE).toBe(`${secret.mountPath}/database-url`);
      const DATABASE_URL = `postgres://db/animals?sslmode=verify-full&sslrootcert=${ca.mountPath}/ca.pem`;
      expect(read('deploy/kubernetes/animal-store.yaml')).toContain(
        DATABASE_URL.split('animals')[1],
      );
      const environment = readEnvironment({ NODE_ENV: 'production', DATABASE_URL, ...values });
      expect(Object.keys(environment)).toEqual(expect.arrayContaining(Object.keys(values)));
    }
    expect(serving.ports).toEqual([
      { name: 'http', containerPort: Number(port) },
      { name: 'metrics', containerPort: Number(valuesOf(serving)['METRICS_PORT']) },
    ]);
    expect(service.spec.ports).toEqual([
      { name: 'http', port: 80, targetPort: 'http' },
      { name: 'metrics', port: 9464, targetPort: 'metrics' },
    ]);
  });

  it('lets everybody connect to the service, and Prometheus alone to its metrics', () => {
    const [http, metrics] = policy.spec.ingress;
    expect(http).toEqual({ ports: [{ port: 'http' }] });
    expect(metrics.ports).toEqual([{ port: 'metrics' }]);
    expect(metrics.from).toHaveLength(1);
    expect(policy.spec.podSelector.matchLabels).toEqual(labels);
  });

  it('has Prometheus scrape the metrics as the job that the alerts name', () => {
    const config = parse(read('deploy/kubernetes/prometheus.yml'));
    const [{ job_name, relabel_configs, kubernetes_sd_configs, ...rest }] = config.scrape_configs;
    expect([rest, kubernetes_sd_configs]).toEqual([{}, [{ role: 'endpoints' }]]);
    expect(relabel_configs[0].regex).toBe(`${service.metadata.name};metrics`);
    const jobs = read('docs/observability/alerts.yaml').matchAll(/job="([^"]+)"/g);
    expect(new Set([...jobs].map(([, name]) => name))).toEqual(new Set([job_name]));
  });

  it('sends requests to the pods of the service alone, and evicts one of them at a time', () => {
    expect(deployment.spec.selector.matchLabels).toEqual(labels);
    expect(service.spec.selector).toEqual(labels);
    expect(budget.spec).toEqual({ maxUnavailable: 1, selector: { matchLabels: labels } });
    expect(deployment.spec.replicas).toBeGreaterThan(1);
    expect(job.spec.template.metadata.labels).not.toEqual(labels);
  });

  it('gives a process the time that it needs to stop', () => {
    const { terminationGracePeriodSeconds } = deployment.spec.template.spec;
    // docs/operations.md, Stop.
    const needed = Number(valuesOf(serving)['DRAIN_SECONDS']) + 15;
    expect(terminationGracePeriodSeconds).toBeGreaterThanOrEqual(needed);
  });

  it('probes paths that respond with 200 while the service is ready', async () => {
    const running = await startService();
    for (const { httpGet } of [serving.livenessProbe, serving.readinessProbe]) {
      expect((await fetch(`${running.origin}${httpGet.path}`)).status).toBe(200);
    }
    await running.stop();
  });
});
