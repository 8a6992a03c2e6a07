import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import ts from 'typescript';
import { parseAllDocuments } from 'yaml';
import { PROJECT_ROOT, VERSION } from '../../src/config/project-root.js';
import { Environment, readEnvironment } from '../../src/config/environment.js';
import { ordinaryAccount } from '../support/account.js';
import { itWith } from '../support/describe-with.js';
import { read } from '../support/documents.js';
import { addPet, petNames } from '../support/pets.js';
import { Program } from '../support/program.js';
import { Project } from '../support/project.js';
import { temporaryFolder } from '../support/temporary-folder.js';

const objectsOf = (file: string) =>
  parseAllDocuments(read(`deploy/kubernetes/${file}`)).map((document) => {
    expect([...document.errors, ...document.warnings]).toEqual([]);
    return document.toJS();
  });

/** What TypeScript says of objects, with the types that are made of Kubernetes's own OpenAPI document. */
async function typeErrors(objects: { apiVersion: string; kind: string }[]): Promise<string[]> {
  const source = objects.map((object, index) => {
    const { apiVersion, kind } = object;
    const module = /\//.test(apiVersion) ? apiVersion.replace('.k8s.io', '') : `core/${apiVersion}`;
    return `import type { ${kind} as T${index} } from 'kubernetes-types/${module}';
      export const o${index}: T${index} = ${JSON.stringify(object)};`;
  });
  const file = join(await temporaryFolder(), 'objects.ts');
  await writeFile(file, source.join('\n'));
  const paths = { '*': [join(PROJECT_ROOT, 'node_modules/*')] };
  const flags = { noEmit: true, strict: true, skipLibCheck: true, types: [], paths };
  const options = { ...flags, lib: ['lib.es5.d.ts'], module: ts.ModuleKind.Preserve };
  return ts
    .getPreEmitDiagnostics(ts.createProgram([file], options))
    .map(({ messageText }) => ts.flattenDiagnosticMessageText(messageText, '\n'));
}

const dockerfile = read('Dockerfile');

describe('deploy/kubernetes', () => {
  const [deployment, service, policy, budget] = objectsOf('animal-store.yaml');
  const [job] = objectsOf('migrate.yaml');
  const [serving] = deployment.spec.template.spec.containers;
  const [migrating] = job.spec.template.spec.initContainers;
  const valuesOf = (container: { env: { name: string; value: string }[] }) =>
    Object.fromEntries(container.env.map(({ name, value }) => [name, value]));

  it('has only fields that Kubernetes knows, with values of their types', async () => {
    expect(await typeErrors([deployment, service, policy, budget, job])).toEqual([]);
  });

  it('migrates and then grants in a job that is named by the version', () => {
    const image = `animal-store-service:${VERSION}`;
    expect([serving.image, migrating.image]).toEqual([image, image]);
    expect(job.metadata.name).toBe(`animal-store-migrate-${VERSION.replaceAll('.', '-')}`);
    expect(read('deploy/kubernetes/migrate.yaml')).toContain(`job/${job.metadata.name} `);
    expect(migrating.args).toEqual(['migrate', 'run']);
    const [{ args, volumeMounts }] = job.spec.template.spec.containers;
    const { mountPath } = volumeMounts.find(({ name }: { name: string }) => name === 'grants');
    expect(args.join()).toContain(`-v ON_ERROR_STOP=1 -f ${mountPath}/grants.sql`);
  });

  it('has variables, ports, files and probes that the service has, and pods with time to stop', () => {
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
    const { METRICS_PORT, DRAIN_SECONDS } = valuesOf(serving);
    expect(serving.ports).toEqual([
      { name: 'http', containerPort: Number(/\bPORT=(\d+)/.exec(dockerfile)![1]) },
      { name: 'metrics', containerPort: Number(METRICS_PORT) },
    ]);
    const probes = [serving.livenessProbe, serving.readinessProbe];
    expect(probes.map(({ httpGet }) => httpGet.path)).toEqual(['/health/live', '/health/ready']);
    // docs/operations.md, Stop.
    const { terminationGracePeriodSeconds } = deployment.spec.template.spec;
    expect(terminationGracePeriodSeconds).toBeGreaterThanOrEqual(Number(DRAIN_SECONDS) + 15);
    const { labels } = deployment.spec.template.metadata;
    expect([
      ...[deployment, budget].map(({ spec }) => spec.selector.matchLabels),
      policy.spec.podSelector.matchLabels,
      service.spec.selector,
    ]).toEqual(Array(4).fill(labels));
  });
});

it.each([
  [200, 0],
  [503, 1],
])('the image has a health check that, of a status %d, ends with %d', async (status, code) => {
  const server = createServer(({ url }, response) =>
    response.writeHead(url === '/health/live' ? status : 404).end(),
  );
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const { port } = server.address() as AddressInfo;
  const [, command] = /^HEALTHCHECK [^[]*CMD (\[.+\])$/m.exec(dockerfile)!;
  const [program, ...args]: [string, ...string[]] = JSON.parse(command!);
  const env = { PATH: process.env['PATH'], PORT: `${port}` };
  expect((await Program.start(program, args, { env }).outcome).code).toBe(code);
  server.close();
});

/**
 * Runs a command as Kubernetes runs a container with the securityContext of deploy/kubernetes: no mount can be written to,
 * the user is in no list of users, and has no capabilities.
 */
const CONFINED = [
  '--mount',
  'sh',
  '-c',
  `findmnt --raw --noheadings --output TARGET | while read -r target; do
     mount -o remount,bind,ro "$target" 2>/dev/null
   done
   exec setpriv --reuid 10001 --regid 10001 --clear-groups --no-new-privs --bounding-set=-all --inh-caps=-all "$@"`,
  'sh',
];
const canConfine =
  ordinaryAccount() !== undefined && spawnSync('unshare', [...CONFINED, 'true']).status === 0;

// Skipped, in CI too, if this process may not mount: no package that CI installs gives it this right.
(canConfine ? describe : describe.skip)('the service with these restrictions', () => {
  const project = Project.ofTests();

  it('migrates, creates keys, and serves animals', async () => {
    const variables = { NODE_ENV: 'production', DATABASE_URL: await project.createDatabase() };
    const start = (...command: string[]) =>
      project.start('unshare', [...CONFINED, ...command], variables);
    const run = (...args: string[]) => start(process.execPath, 'dist/src/main.js', ...args);
    expect((await start('touch', '/tmp/x').outcome).code).toBe(1);
    expect(await run('migrate', 'run').outcome).toMatchObject({ code: 0 });
    const { stdout } = await run('keys', 'create', '--name', 'x').outcome;
    const program = run('serve');
    const [, base] = await program.says(/"address":"([^"]+)"/);
    await addPet(base!, stdout.trim(), 'Rex');
    expect(await petNames(base!, stdout.trim())).toEqual(['Rex']);
    expect((await program.end('SIGTERM')).code).toBe(0);
  });
});

const unit = read('deploy/animal-store@.service');
const valueOf = (name: string) => new RegExp(`^${name}=(.*)$`, 'm').exec(unit)![1]!;

describe('deploy/animal-store@.service', () => {
  it('starts the service as npm run start:prod does, on the port that the instance names, with time to stop and no core dump', () => {
    const start = JSON.parse(read('package.json')).scripts['start:prod'];
    const command = `${start.replace(' node', ' /usr/bin/node')} serve`;
    expect(`exec ${valueOf('ExecStart')}`).toBe(command);
    const variables = valueOf('Environment').replaceAll('%i', '3000').split(' ');
    const values = Object.fromEntries(variables.map((variable) => variable.split('=')));
    expect(Object.keys(new Environment())).toEqual(expect.arrayContaining(Object.keys(values)));
    const { DATABASE_URL_FILE: _, ...others } = values;
    const environment = readEnvironment({ ...others, DATABASE_URL: 'postgres://db/animals' });
    expect(environment).toMatchObject({ NODE_ENV: 'production', PORT: 3000 });
    // The longest DRAIN_SECONDS, and what docs/operations.md adds.
    expect(Number(valueOf('TimeoutStopSec'))).toBeGreaterThanOrEqual(60 + 15);
    expect(valueOf('LimitCORE')).toBe('0');
  });

  itWith('systemd-analyze')('is a unit that systemd reads', async () => {
    const file = join(await temporaryFolder(), 'animal-store@3000.service');
    await writeFile(file, unit.replace('/usr/bin/node', process.execPath));
    const analyze = (...args: string[]) =>
      spawnSync('systemd-analyze', [...args, file], { encoding: 'utf8' });
    expect(analyze('verify')).toMatchObject({ status: 0, stderr: '' });
    // Of 100 for a unit that restricts nothing.
    expect(analyze('security', '--offline=true', '--threshold=20')).toMatchObject({ status: 0 });
  });
});
