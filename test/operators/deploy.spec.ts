import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import ts from 'typescript';
import { parseAllDocuments } from 'yaml';
import { PROJECT_ROOT, VERSION } from '../../src/config/project-root.js';
import { Environment, readEnvironment } from '../../src/config/environment.js';
import { itWith } from '../support/describe-with.js';
import { startService } from '../support/service.js';
import { read } from '../support/documents.js';
import { temporaryFolder } from '../support/temporary-folder.js';

const objectsOf = (file: string) =>
  parseAllDocuments(read(`deploy/kubernetes/${file}`)).map((document) => {
    expect([...document.errors, ...document.warnings]).toEqual([]);
    return document.toJS();
  });

/** What TypeScript says of objects, with the types that are made of Kubernetes's own OpenAPI document. */
function typeErrors(objects: { apiVersion: string; kind: string }[]): string[] {
  const source = objects.map((object, index) => {
    const { apiVersion, kind } = object;
    const module = /\//.test(apiVersion) ? apiVersion.replace('.k8s.io', '') : `core/${apiVersion}`;
    return `import type { ${kind} as T${index} } from 'kubernetes-types/${module}';
      export const o${index}: T${index} = ${JSON.stringify(object)};`;
  });
  const file = join(PROJECT_ROOT, 'test/operators/objects.ts');
  const module = ts.ModuleKind.Preserve;
  const options = { noEmit: true, strict: true, skipLibCheck: true, lib: ['lib.es5.d.ts'], module };
  const host = ts.createCompilerHost({ ...options, types: [] });
  const { getSourceFile } = host;
  host.getSourceFile = (name, ...rest) =>
    name === file
      ? ts.createSourceFile(name, source.join('\n'), ts.ScriptTarget.Latest)
      : getSourceFile(name, ...rest);
  return ts
    .getPreEmitDiagnostics(ts.createProgram([file], { ...options, types: [] }, host))
    .map(({ messageText }) => ts.flattenDiagnosticMessageText(messageText, '\n'));
}

const dockerfile = read('Dockerfile');
const [, command] = /^HEALTHCHECK [^[]*CMD (\[.+\])$/m.exec(dockerfile)!;
const [healthCheck, ...args]: [string, ...string[]] = JSON.parse(command!);

/** The exit code of the image's health check of the process at `port`. */
async function healthOf(port: number): Promise<number | null> {
  const child = spawn(healthCheck, args, { env: { PATH: process.env['PATH'], PORT: `${port}` } });
  return (await once(child, 'close'))[0];
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
    const image = `animal-store-service:${VERSION}`;
    expect([serving.image, migrating.image]).toEqual([image, image]);
    expect(job.metadata.name).toBe(`animal-store-migrate-${VERSION.replaceAll('.', '-')}`);
    expect(read('deploy/kubernetes/migrate.yaml')).toContain(`job/${job.metadata.name} `);
    expect(migrating.args).toEqual(['migrate', 'run']);
    const [{ args, volumeMounts }] = job.spec.template.spec.containers;
    const { mountPath } = volumeMounts.find(({ name }: { name: string }) => name === 'grants');
    expect(args.join()).toContain(`-v ON_ERROR_STOP=1 -f ${mountPath}/grants.sql`);
  });

  it('has variables, ports and files that the service has', () => {
    const [, port] = /\bPORT=(\d+)/.exec(dockerfile)!;
    for (const container of [serving, migrating]) {
      const { DATABASE_URL_FILE, ...values } = valuesOf(container);
      const [secret, ca] = container.volumeMounts;
      expect(DATABASE_URL_FILE).toBe(`${secret.mountPath}/database-url`);
      const parameters = `?sslmode=verify-full&sslrootcert=${ca.mountPath}/ca.pem`;
      expect(read('deploy/kubernetes/animal-store.yaml')).toContain(parameters);
      const DATABASE_URL = `postgres://db/animals${parameters}`;
      const environment = readEnvironment({ NODE_ENV: 'production', DATABASE_URL, ...values });
      expect(Object.keys(environment)).toEqual(expect.arrayContaining(Object.keys(values)));
    }
    expect(serving.ports).toEqual([
      { name: 'http', containerPort: Number(port) },
      { name: 'metrics', containerPort: Number(valuesOf(serving)['METRICS_PORT']) },
    ]);
  });

  it('is of the pods of the service, which have time to stop', () => {
    for (const { spec } of [deployment, budget]) {
      expect(spec.selector.matchLabels).toEqual(labels);
    }
    expect([policy.spec.podSelector.matchLabels, service.spec.selector]).toEqual([labels, labels]);
    // docs/operations.md, Stop.
    const needed = Number(valuesOf(serving)['DRAIN_SECONDS']) + 15;
    const { terminationGracePeriodSeconds } = deployment.spec.template.spec;
    expect(terminationGracePeriodSeconds).toBeGreaterThanOrEqual(needed);
  });

  it('probes paths that respond with 200 while the service is ready, as the image does until it is gone', async () => {
    const running = await startService();
    for (const { httpGet } of [serving.livenessProbe, serving.readinessProbe]) {
      expect((await fetch(`${running.origin}${httpGet.path}`)).status).toBe(200);
    }
    expect(await healthOf(running.port)).toBe(0);
    await running.stop();
    expect(await healthOf(running.port)).toBe(1);
  });
});

describe('the image', () => {
  it.each([503, undefined])('is not healthy if the status is %s', async (status) => {
    const server = createServer((request, response) =>
      status === undefined ? request.destroy() : response.writeHead(status).end(),
    ).listen(0, '127.0.0.1');
    await once(server, 'listening');
    expect(await healthOf((server.address() as AddressInfo).port)).toBe(1);
    server.close();
  });
});

const unit = read('deploy/animal-store@.service');
const valueOf = (name: string) => new RegExp(`^${name}=(.*)$`, 'm').exec(unit)![1]!;

describe('deploy/animal-store@.service', () => {
  it('starts the service as npm run start:prod does, on the port that the instance names', () => {
    const start = JSON.parse(read('package.json')).scripts['start:prod'];
    expect(`exec ${valueOf('ExecStart')}`).toBe(
      `${start.replace(' node', ' /usr/bin/node')} serve`,
    );
    const variables = valueOf('Environment').replaceAll('%i', '3000').split(' ');
    const values = Object.fromEntries(variables.map((variable) => variable.split('=')));
    expect(Object.keys(new Environment())).toEqual(expect.arrayContaining(Object.keys(values)));
    const { DATABASE_URL_FILE: _, ...others } = values;
    const environment = readEnvironment({ ...others, DATABASE_URL: 'postgres://db/animals' });
    expect(environment).toMatchObject({ NODE_ENV: 'production', PORT: 3000 });
  });

  it('gives a process the time that the longest DRAIN_SECONDS needs, and leaves no core dump', () => {
    expect(Number(valueOf('TimeoutStopSec'))).toBeGreaterThanOrEqual(60 + 15);
    expect(valueOf('LimitCORE')).toBe('0');
  });

  itWith('systemd-analyze')('is a unit that systemd reads', async () => {
    const folder = await temporaryFolder();
    const file = join(folder, 'animal-store@3000.service');
    writeFileSync(file, unit.replace('/usr/bin/node', process.execPath));
    const analyze = (...args: string[]) =>
      spawnSync('systemd-analyze', [...args, file], { encoding: 'utf8' });
    expect(analyze('verify')).toMatchObject({ status: 0, stderr: '' });
    // Of 100 for a unit that restricts nothing.
    expect(analyze('security', '--offline=true', '--threshold=20')).toMatchObject({ status: 0 });
  });
});
