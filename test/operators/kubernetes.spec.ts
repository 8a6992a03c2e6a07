import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import ts from 'typescript';
import { parseAllDocuments } from 'yaml';
import { PROJECT_ROOT, VERSION } from '../../src/config/project-root.js';
import { readEnvironment } from '../../src/config/environment.js';
import { startService } from '../support/service.js';

const objectsOf = (file: string) =>
  parseAllDocuments(readFileSync(join(PROJECT_ROOT, 'deploy/kubernetes', file), 'utf8')).map(
    (document) => {
      expect([...document.errors, ...document.warnings]).toEqual([]);
      return document.toJS();
    },
  );

/** What TypeScript says of objects, with the types that are made of Kubernetes's own OpenAPI document. */
function typeErrors(objects: { apiVersion: string; kind: string }[]): string[] {
  const source = objects.map(({ apiVersion, kind, ...rest }, index) => {
    const module = apiVersion.includes('/') ? apiVersion : `core/${apiVersion}`;
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
  const [deployment, service, budget] = objectsOf('animal-store.yaml');
  const [job] = objectsOf('migrate.yaml');
  const pods = [deployment.spec.template, job.spec.template];
  const [serving] = deployment.spec.template.spec.containers;
  const valuesOf = (container: { env: { name: string; value: string }[] }) =>
    Object.fromEntries(container.env.map(({ name, value }) => [name, value]));

  it('has only fields that Kubernetes knows, with values of their types', () => {
    expect(typeErrors([deployment, service, budget, job])).toEqual([]);
    const misspelt = structuredClone(deployment);
    misspelt.spec.template.spec.containers[0].livenessProbe.timeoutSecond = 1;
    expect(typeErrors([misspelt])).toEqual([expect.stringContaining('timeoutSecond')]);
  });

  it('runs the image of this version, as any user but root, without capabilities, on a read-only file system', () => {
    for (const { spec } of pods) {
      expect(spec.securityContext).toMatchObject({
        runAsNonRoot: true,
        seccompProfile: { type: 'RuntimeDefault' },
      });
      expect(spec.containers).toEqual([
        expect.objectContaining({
          image: `animal-store-service:${VERSION}`,
          securityContext: {
            readOnlyRootFilesystem: true,
            allowPrivilegeEscalation: false,
            capabilities: { drop: ['ALL'] },
          },
        }),
      ]);
    }
  });

  it('has variables and ports that the service has', () => {
    const dockerfile = readFileSync(join(PROJECT_ROOT, 'Dockerfile'), 'utf8');
    const [, port] = /\bPORT=(\d+)/.exec(dockerfile)!;
    for (const { spec } of pods) {
      const { DATABASE_URL_FILE, ...values } = valuesOf(spec.containers[0]);
      const [{ mountPath }] = spec.containers[0].volumeMounts;
      expect(DATABASE_URL_FILE).toBe(`${mountPath}/database-url`);
      const DATABASE_URL = 'postgres://db/animals';
      const environment = readEnvironment({ NODE_ENV: 'production', DATABASE_URL, ...values });
      expect(Object.keys(environment)).toEqual(expect.arrayContaining(Object.keys(values)));
    }
    expect(serving.ports).toEqual([
      { name: 'http', containerPort: Number(port) },
      { name: 'metrics', containerPort: Number(valuesOf(serving)['METRICS_PORT']) },
    ]);
    expect(deployment.spec.template.metadata.annotations['prometheus.io/port']).toBe(
      valuesOf(serving)['METRICS_PORT'],
    );
    expect(service.spec.ports).toEqual([{ name: 'http', port: 80, targetPort: 'http' }]);
  });

  it('sends requests to the pods of the service alone, and evicts one of them at a time', () => {
    const { labels } = deployment.spec.template.metadata;
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
