import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { cp, mkdir, rename, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { dirname, join } from 'node:path';
import ts from 'typescript';
import { parse, parseAllDocuments } from 'yaml';
import { PROJECT_ROOT, VERSION } from '../../src/config/project-root.js';
import { Environment, readEnvironment } from '../../src/config/environment.js';
import { HttpLimits } from '../../src/http/limits.js';
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
const limits = new HttpLimits();

/** What docs/operations.md says, with the figures that the pattern captures. */
const inOperations = (pattern: RegExp) =>
  pattern.exec(read('docs/operations.md').replaceAll(/\s+/g, ' '))!.slice(1).map(Number);

/** Seconds that a supervisor gives a process beyond its DRAIN_SECONDS. */
const [GRACE] = inOperations(/at least `DRAIN_SECONDS` \+ (\d+) seconds/) as [number];
/** The longest DRAIN_SECONDS that is accepted. */
const LONGEST_DRAIN = 60;
const [MEMORY] = inOperations(/Give a container (\d+) MiB/) as [number];
const [PROBE_TIMEOUT] = inOperations(/Give probes a time-out of (\d+) seconds/) as [number];

it('the time that docs/operations.md gives a process to stop is longer than its requests may take, after any DRAIN_SECONDS', () => {
  const [drain, finish] = inOperations(/`DRAIN_SECONDS` \((\d+) by default\).+for at most (\d+) s/);
  expect(drain).toBe(new Environment().DRAIN_SECONDS);
  expect(finish).toBe(limits.stopTimeout / 1000);
  expect(GRACE).toBeGreaterThan(finish!);
  const variables = (seconds: number) => ({
    DATABASE_URL: 'postgres://db/animals',
    DRAIN_SECONDS: `${seconds}`,
  });
  expect(readEnvironment(variables(LONGEST_DRAIN)).DRAIN_SECONDS).toBe(LONGEST_DRAIN);
  expect(() => readEnvironment(variables(LONGEST_DRAIN + 1))).toThrow('DRAIN_SECONDS');
});

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
    // A locked table or a node that is lost ends an attempt.
    expect(job.spec.backoffLimit).toBeGreaterThan(0);
    const [{ args, volumeMounts }] = job.spec.template.spec.containers;
    const { mountPath } = volumeMounts.find(({ name }: { name: string }) => name === 'grants');
    expect(args.join()).toContain(`-v ON_ERROR_STOP=1 -f ${mountPath}/grants.sql`);
    // Its logs say why it failed, and `kubectl wait` may come late.
    expect(job.spec.template.spec.restartPolicy).toBe('Never');
    expect(job.spec.ttlSecondsAfterFinished).toBeGreaterThanOrEqual(3_600);
  });

  it('grants with the password of the URL in the environment of psql, and in no argument', async () => {
    const folder = await temporaryFolder();
    const file = join(folder, 'database-url');
    const address = 'db.example:5432/animals?sslmode=verify-full';
    await writeFile(file, `postgres://animals_migrator:p%40s%2Fs@${address}\n`);
    await writeFile(join(folder, 'psql'), '#!/bin/sh\necho "$PGPASSWORD" "$@"\n', { mode: 0o755 });
    const [{ command, args }] = job.spec.template.spec.containers;
    const [shell, option] = command;
    const script = args[0].replace('/run/secrets/animal-store/database-url', file);
    const env = { PATH: `${folder}:${process.env['PATH']}` };
    const { stdout } = spawnSync(shell, [option, script], { env, encoding: 'utf8' });
    expect(stdout).toMatch(`p@s/s -X postgres://animals_migrator@${address} -v ON_ERROR_STOP=1 `);
  });

  it('gives the service and the migrator a secret each, the job the grants, and both a certificate authority, if docs/deploy.md made one', () => {
    const authority = { name: 'animal-store-database-ca', optional: true };
    const sources = [deployment, job].map(({ spec }) =>
      spec.template.spec.volumes.map(
        ({ secret, configMap }: any) => secret?.secretName ?? configMap,
      ),
    );
    expect(sources).toEqual([
      ['animal-store', authority],
      ['animal-store-migrator', authority, { name: 'animal-store-grants' }],
    ]);
    for (const made of [
      'secret generic animal-store --from-file=database-url=service-url.txt',
      'secret generic animal-store-migrator --from-file=database-url=migrator-url.txt',
      'configmap animal-store-database-ca',
      'configmap animal-store-grants --from-file=docs/grants.sql',
    ]) {
      expect(read('docs/deploy.md')).toContain(`kubectl create ${made}`);
    }
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
    expect(probes.map(({ httpGet }) => httpGet)).toEqual([
      { path: '/health/live', port: 'http' },
      { path: '/health/ready', port: 'http' },
    ]);
    expect(probes.map(({ timeoutSeconds }) => timeoutSeconds)).toEqual(
      probes.map(() => PROBE_TIMEOUT),
    );
    // A busy process is not restarted for one late response.
    const { periodSeconds: pause, failureThreshold: failures = 3 } = serving.livenessProbe;
    expect(pause * failures).toBeGreaterThanOrEqual(2 * PROBE_TIMEOUT);
    // A pod that is not ready gets no requests before it stops listening.
    const { periodSeconds, failureThreshold } = serving.readinessProbe;
    expect(periodSeconds * failureThreshold).toBeLessThan(Number(DRAIN_SECONDS));
    const { terminationGracePeriodSeconds } = deployment.spec.template.spec;
    expect(terminationGracePeriodSeconds).toBeGreaterThanOrEqual(Number(DRAIN_SECONDS) + GRACE);
    const { labels } = deployment.spec.template.metadata;
    expect([
      ...[deployment, budget].map(({ spec }) => spec.selector.matchLabels),
      policy.spec.podSelector.matchLabels,
      service.spec.selector,
    ]).toEqual(Array(4).fill(labels));
    expect(service.spec.ports).toEqual([
      { name: 'http', port: 80, targetPort: 'http' },
      { name: 'metrics', port: Number(METRICS_PORT), targetPort: 'metrics' },
    ]);
    // Clients come through an ingress.
    expect(service.spec.type ?? 'ClusterIP').toBe('ClusterIP');
  });

  it('stops a pod in an upgrade only when a new one is ready, lets one be evicted at a time, and spreads pods over the nodes that there are', () => {
    const { replicas, strategy } = deployment.spec;
    expect(replicas).toBeGreaterThanOrEqual(2);
    expect(strategy).toEqual({ rollingUpdate: { maxUnavailable: 0, maxSurge: 1 } });
    expect(budget.spec).toMatchObject({ maxUnavailable: 1 });
    const { metadata, spec } = deployment.spec.template;
    expect(spec.topologySpreadConstraints).toEqual([
      {
        maxSkew: 1,
        topologyKey: 'kubernetes.io/hostname',
        whenUnsatisfiable: 'ScheduleAnyway',
        labelSelector: { matchLabels: metadata.labels },
      },
    ]);
  });

  it('lets only Prometheus, in the namespace monitoring, connect to the metrics, and to nothing else than them and HTTP', () => {
    expect(policy.spec.policyTypes).toEqual(['Ingress']);
    // Without ports, a rule would be for all.
    const rules: [port: string, from: unknown][] = policy.spec.ingress.flatMap(
      ({ ports = [{ port: 'any' }], from }: any) => ports.map(({ port }: any) => [port, from]),
    );
    const monitoring = { 'kubernetes.io/metadata.name': 'monitoring' };
    expect(read('docs/operations.md')).toContain('with Prometheus in the namespace `monitoring`');
    expect(rules).toEqual([
      ['http', undefined],
      ['metrics', [{ namespaceSelector: { matchLabels: monitoring } }]],
    ]);
  });

  it('has Prometheus scrape the metrics of each pod, in the job that the alerts expect', () => {
    const [job] = parse(read('deploy/kubernetes/prometheus.yml')).scrape_configs;
    expect(read('docs/observability/alerts.yaml')).toContain(`job="${job.job_name}"`);
    const [{ source_labels, regex, action }, ofInstance] = job.relabel_configs;
    expect([source_labels, regex, action]).toEqual([
      ['__meta_kubernetes_service_name', '__meta_kubernetes_endpoint_port_name'],
      `${service.metadata.name};metrics`,
      'keep',
    ]);
    // Only endpoints have these labels. The alerts name the pod.
    expect(job.kubernetes_sd_configs).toEqual([
      { role: 'endpoints', namespaces: { names: ['default'] } },
    ]);
    expect(ofInstance).toEqual({
      source_labels: ['__meta_kubernetes_pod_name'],
      target_label: 'instance',
    });
  });

  it('gives each container the memory that docs/operations.md gives it, and no rights', () => {
    expect(serving.resources.limits).toEqual({ memory: `${MEMORY}Mi` });
    for (const { spec } of [deployment.spec.template, job.spec.template]) {
      for (const container of [...spec.containers, ...(spec.initContainers ?? [])]) {
        expect(container.resources.limits.memory).toMatch(/^\d+Mi$/);
        // "Restricted", of Kubernetes's Pod Security Standards, and a root file system that cannot be written.
        expect(container.securityContext).toEqual({
          readOnlyRootFilesystem: true,
          allowPrivilegeEscalation: false,
          capabilities: { drop: ['ALL'] },
        });
      }
      expect(spec).toMatchObject({
        automountServiceAccountToken: false,
        // A Service `metrics` of the namespace would set METRICS_PORT.
        enableServiceLinks: false,
        securityContext: { runAsNonRoot: true, seccompProfile: { type: 'RuntimeDefault' } },
      });
      // The group of the process alone can read the secret.
      const [{ secret }] = spec.volumes;
      expect(secret.defaultMode.toString(8)).toBe('440');
      expect(spec.securityContext.fsGroup).toBe(spec.securityContext.runAsGroup);
      expect(spec.securityContext.runAsUser).toBeGreaterThan(0);
      expect(spec.securityContext.runAsGroup).toBeGreaterThan(0);
      expect(Object.keys(spec).filter((name) => name.startsWith('host'))).toEqual([]);
    }
  });
});

describe('Dockerfile', () => {
  const [, stage] = /\nFROM [^\n]+\n((?!.*\nFROM ).*)$/s.exec(dockerfile)!;
  const lines = (instruction: string) =>
    Array.from(stage!.matchAll(new RegExp(`^${instruction} (.+)$`, 'gm')), ([, rest]) => rest);

  it('makes an image that runs serve under an init as the account of Node, with the variables that docs/deploy.md names', () => {
    expect(lines('USER')).toEqual(['node']);
    const [init, ...program] = JSON.parse(lines('ENTRYPOINT')[0]!);
    expect([init, program]).toEqual(['tini', ['--', 'animal-store']]);
    expect(stage).toMatch(/\bapt-get install .*'tini=/);
    expect(lines('CMD')).toEqual(['["serve"]']);
    expect(lines('ENV')[0]).toMatch(/^NODE_ENV=production HOST=\* PORT=\d+$/);
    const port = /\bPORT=(\d+)/.exec(stage!)![1];
    expect(lines('EXPOSE')).toEqual([port]);
    const [timeout] = inOperations(/health check of the image has (\d+) seconds/);
    expect(lines('HEALTHCHECK')[0]).toContain(` --timeout=${timeout}s `);
    expect(stage).toContain(' ln -s /app/dist/src/main.js /usr/local/bin/animal-store\n');
  });

  it('makes an image without packages for development, in which no package ran a script, and that knows its commit', () => {
    expect(dockerfile.match(/^RUN npm (ci|prune).*$/gm)).toEqual([
      'RUN npm ci --omit=optional --ignore-scripts',
      'RUN npm prune --omit=dev --omit=optional --ignore-scripts',
    ]);
    const [, pruned] = /^FROM packages AS (\S+)\nRUN npm prune /m.exec(dockerfile)!;
    expect(lines('COPY')).toContain(`--from=${pruned} /app/node_modules node_modules`);
    expect(lines('ENV')).toContain('COMMIT=$COMMIT');
    expect(stage).toMatch(/\.version=\$VERSION \\\n +\S+\.revision=\$COMMIT\n/);
  });

  it('of deploy/tracing adds OpenTelemetry to the image, which still runs as the account of Node and ends in time', () => {
    const tracing = read('deploy/tracing/Dockerfile');
    expect(tracing).toMatch(/^ARG SERVICE\nFROM \$SERVICE\n/m);
    const last = (of: RegExp) => tracing.match(of)?.at(-1);
    expect(last(/^USER .+$/gm)).toBe('USER node');
    expect(last(/^WORKDIR .+$/gm)).toBe('WORKDIR /app');
    expect(tracing).toMatch(
      /^WORKDIR \/tracing\nCOPY .*tracing\.mjs \.\/\nRUN npm ci --ignore-scripts /m,
    );
    const [, timeout] =
      /^ENV NODE_OPTIONS=--import=\/tracing\/tracing\.mjs OTEL_EXPORTER_OTLP_TIMEOUT=(\d+)$/m.exec(
        tracing,
      )!;
    // It waits for a collector after the last response.
    expect(limits.stopTimeout + Number(timeout)).toBeLessThan(GRACE * 1_000);
  });

  it('has the certificate authorities of Node where docs/deploy.md says', () => {
    const [path] = /\/etc\/ssl\/\S+\.crt/.exec(read('docs/deploy.md'))!;
    expect(lines('RUN')).toContainEqual(
      expect.stringMatching(new RegExp(`tls\\.rootCertificates.* > ${path}$`)),
    );
  });

  it('builds on one version of Node in each stage, by its digest, and installs what package-lock.json has', () => {
    const images = Array.from(dockerfile.matchAll(/^FROM (\S+)/gm), ([, image]) => image!);
    const bases = images.filter((image) => image.startsWith('node:'));
    expect(bases).toHaveLength(2);
    expect(new Set(bases).size).toBe(1);
    expect(bases[0]).toMatch(/^node:[\d.]+-[\w-]+@sha256:[0-9a-f]{64}$/);
    expect(dockerfile).not.toMatch(/npm (install|i)\b/);
  });
});

describe('docker-compose.yml', () => {
  const { services, volumes } = parse(read('docker-compose.yml'), { merge: true });

  it('gives the service time to stop and an init, starts it again, and starts it on a migrated database', () => {
    const { stop_grace_period, init, restart, depends_on } = services.api;
    const seconds = Number(/^(\d+)s$/.exec(stop_grace_period)?.[1]);
    expect(seconds).toBeGreaterThanOrEqual(LONGEST_DRAIN + GRACE);
    expect([init, restart]).toEqual([true, 'unless-stopped']);
    expect(depends_on).toEqual({ migrate: { condition: 'service_completed_successfully' } });
    expect(services.migrate.depends_on).toEqual({ db: { condition: 'service_healthy' } });
    expect([services.migrate.command, services.migrate.restart]).toEqual([
      ['migrate', 'run'],
      'no',
    ]);
  });

  it.each([
    [0, ['keys admit --name local', 'serve']],
    [1, ['keys admit --name local']],
  ])(
    'admits the key, and becomes the service, which gets the signals, if that ends with %d',
    async (code, expected) => {
      const folder = await temporaryFolder();
      const stub = `#!/bin/sh\necho $$ "$@"\n[ "$1" != keys ] || exit ${code}\n`;
      await writeFile(join(folder, 'animal-store'), stub, { mode: 0o755 });
      const [shell, ...args] = services.api.entrypoint;
      const env = { PATH: `${folder}:${process.env['PATH']}` };
      const { stdout, status, pid } = spawnSync(shell, args, { env, encoding: 'utf8' });
      const ran = stdout
        .trim()
        .split('\n')
        .map((line) => /^(\d+) (.+)$/.exec(line)!);
      expect([status, ran.map(([, , command]) => command)]).toEqual([code, expected]);
      const served = ran.filter(([, , command]) => command === 'serve');
      expect(served.map(([, of]) => Number(of))).toEqual(code === 0 ? [pid] : []);
    },
  );

  it('keeps the animals in a volume, where the image of PostgreSQL has them', () => {
    const { db } = services;
    // Before 18, it was /var/lib/postgresql/data.
    expect(Number(/^postgres:(\d+)$/.exec(db.image)![1])).toBeGreaterThanOrEqual(18);
    const [[volume, path]] = db.volumes.map((each: string) => each.split(':'));
    expect([path, Object.keys(volumes)]).toEqual(['/var/lib/postgresql', [volume]]);
    const { interval, retries, test } = db.healthcheck;
    // Its first start takes a while.
    expect(parseInt(interval) * retries).toBeGreaterThanOrEqual(30);
    expect(test).toEqual(
      expect.arrayContaining(['CMD', 'pg_isready', '-h', '127.0.0.1', '-d', 'animals']),
    );
  });

  it('starts the service alone, and with a profile what docs/compose.md says', () => {
    const profiles = Object.entries<any>(services).map(([name, { profiles: [one] = [] }]) => [
      name,
      one,
    ]);
    expect(Object.fromEntries(profiles)).toEqual({
      db: undefined,
      migrate: undefined,
      api: undefined,
      haproxy: 'scale',
      prometheus: 'observability',
      grafana: 'observability',
    });
    for (const profile of ['scale', 'observability']) {
      expect(read('docs/compose.md')).toContain(` --profile ${profile} up `);
    }
  });

  it('publishes the ports at which the programs in the containers listen', () => {
    const [, port] = /\bPORT=(\d+)/.exec(dockerfile)!;
    const [, balancer] = /\{LISTEN-:(\d+)\}/.exec(read('deploy/haproxy.cfg'))!;
    const { api, haproxy } = services;
    const inContainer = (ports: string[]) => ports.map((each) => each.split(':').at(-1));
    expect(inContainer(api.ports)).toEqual([port, `${api.environment.METRICS_PORT}`]);
    expect(inContainer(haproxy.ports)).toEqual([balancer]);
    expect(haproxy.environment).toEqual({ PROCESSES: `api:${port}` });
  });

  it('has a Grafana in which nobody can change anything or log in, and that tells nobody of itself', () => {
    expect(services.grafana.environment).toEqual({
      GF_AUTH_ANONYMOUS_ENABLED: 'true',
      GF_AUTH_ANONYMOUS_ORG_ROLE: 'Viewer',
      GF_AUTH_DISABLE_LOGIN_FORM: 'true',
      GF_ANALYTICS_REPORTING_ENABLED: 'false',
      GF_ANALYTICS_CHECK_FOR_UPDATES: 'false',
    });
  });

  it('gives the service and its commands the database beside them, whatever DATABASE_URL the shell has', () => {
    const urls = Object.values<any>(services).map(({ environment }) => environment?.DATABASE_URL);
    const own = urls.filter((url) => url !== undefined);
    expect(own.length).toBeGreaterThanOrEqual(2);
    expect(new Set(own)).toEqual(new Set(['postgres://animals:animals@db:5432/animals']));
  });

  it('gives Prometheus the alerts, and the metrics of each container of the service, and Grafana the dashboard', () => {
    const filesOf = (volumes: string[]) =>
      Object.fromEntries(
        volumes.map((volume) => volume.split(':')).map(([from, to]) => [to!, from!]),
      );
    const file = '/etc/prometheus/prometheus.yml';
    const ofPrometheus = filesOf(services.prometheus.volumes);
    const { global, rule_files, scrape_configs } = parse(read(ofPrometheus[file]!));
    // Their names are relative to the folder of the file.
    const rules = rule_files.map((name: string) => ofPrometheus[join(file, '..', name)]);
    expect(rules).toEqual(['./docs/observability/alerts.yaml']);
    const [{ dns_sd_configs, job_name }] = scrape_configs;
    expect(read('docs/observability/alerts.yaml')).toContain(`{job="${job_name}"}`);
    const port = services.api.environment.METRICS_PORT;
    expect(dns_sd_configs).toMatchObject([{ names: ['api'], type: 'A', port }]);
    const provisioning = '/etc/grafana/provisioning';
    const ofGrafana = filesOf(services.grafana.volumes);
    const contentOf = (path: string) => parse(read(ofGrafana[`${provisioning}/${path}`]!));
    const [source] = contentOf('datasources/animal-store.yaml').datasources;
    const [, published] = /:(\d+)$/.exec(services.prometheus.ports[0])!;
    expect(source.url).toBe(`http://prometheus:${published}`);
    // The dashboard's own data source is the default.
    expect(source).toMatchObject({ type: 'prometheus', isDefault: true });
    // Grafana's rates would otherwise be of fewer samples than they need.
    expect(source.jsonData.timeInterval).toBe(global.scrape_interval);
    const [{ options }] = contentOf('dashboards/animal-store.yaml').providers;
    const dashboard = `${options.path}/dashboard.json`;
    expect(ofGrafana[dashboard]).toBe('./docs/observability/dashboard.json');
  });

  it('opens ports on the loopback address alone, unless PUBLISHED_ADDRESS says otherwise for those of the service', () => {
    const loopback = /^127\.0\.0\.1:/;
    const open = Object.entries<{ ports?: string[] }>(services).flatMap(([name, { ports = [] }]) =>
      ports.filter((port) => !loopback.test(port)).map((port) => [name, port]),
    );
    expect(open.map(([name]) => name)).toEqual(['api', 'api', 'haproxy']);
    for (const [, port] of open) {
      expect(port).toMatch(/^\$\{PUBLISHED_ADDRESS:-127\.0\.0\.1\}:/);
    }
  });
});

it('docs/deploy.md runs the image with the memory and the time to stop that docs/operations.md names, and no rights', () => {
  const [command] = /^ *docker run [^]*?[^\\]$/m.exec(read('docs/deploy.md'))!;
  const valueOfOption = (option: string) => new RegExp(`--${option} (\\S+)`).exec(command)?.[1];
  expect(valueOfOption('memory')).toBe(`${MEMORY}m`);
  const { DRAIN_SECONDS } = new Environment();
  expect(Number(valueOfOption('stop-timeout'))).toBeGreaterThanOrEqual(DRAIN_SECONDS + GRACE);
  expect(valueOfOption('restart')).toBe('unless-stopped');
  expect(valueOfOption('publish')).toMatch(/^127\.0\.0\.1:/);
  expect(command).toContain(' --read-only --cap-drop ALL --security-opt no-new-privileges ');
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

/** What the program needs, beside node_modules and package.json itself. */
const FILES: string[] = JSON.parse(read('package.json')).files;

describe('the files that package.json lists', () => {
  const BUILT = ['dist'];

  it('are those that the Dockerfile copies, and that its context has', () => {
    const [, stage] = /\nFROM [^\n]+\n((?!.*\nFROM ).*)$/s.exec(dockerfile)!;
    const copied = Array.from(stage!.matchAll(/^COPY (?:--from=\S+ )?(\S+) /gm), ([, from]) =>
      from!.replace('/app/', ''),
    );
    expect(copied.toSorted()).toEqual([...FILES, 'node_modules', 'package.json'].toSorted());
    // Nothing else, such as .env or the data of a development database, is sent to a builder.
    const [all, ...context] = read('.dockerignore').split('\n');
    expect(all).toBe('*');
    const fromContext = dockerfile.matchAll(/^COPY (?!--from)(.+) \S+$/gm);
    const needed = Array.from(fromContext, ([, files]) => files!.split(' ')).flat();
    const sent = context.filter((line) => line.startsWith('!')).map((line) => line.slice(1));
    expect(sent.toSorted()).toEqual([...new Set(needed)].toSorted());
  });

  it('are watched by docker compose, apart from scripts and from dist, whose sources are', () => {
    const { watch } = parse(read('docker-compose.yml'), { merge: true }).services.api.develop;
    const watched = watch.map(({ path }: { path: string }) => path);
    const files = FILES.filter((file) => ![...BUILT, 'scripts'].includes(file));
    expect(watched.toSorted()).toEqual([...files, 'package-lock.json', 'src'].toSorted());
  });
});

describe('the lines of docs/deploy.md for systemd', () => {
  const project = Project.ofTests();
  /** Run as they are, but in a folder in place of the root, and with the packages that are installed. */
  const deploy = async () => {
    const [, block] = /^## systemd$[^]*?^ {3}```sh\n([^]*?)^ {3}```$/m.exec(
      read('docs/deploy.md'),
    )!;
    const npm = join(project.folder, 'bin/npm');
    await mkdir(dirname(npm));
    const real = spawnSync('which', ['npm'], { encoding: 'utf8' }).stdout.trim();
    await writeFile(npm, `#!/bin/sh\n[ "$1" != pack ] || exec ${real} "$@"\n`, { mode: 0o755 });
    await cp(join(PROJECT_ROOT, 'deploy'), join(project.folder, 'deploy'), { recursive: true });
    for (const folder of ['opt', 'etc/systemd/system']) {
      await mkdir(join(project.folder, folder), { recursive: true });
    }
    const here = block!.replaceAll(/ \/(?=opt|etc)/g, ` ${project.folder}/`);
    const PATH = `${dirname(npm)}:${process.env['PATH']}`;
    const variables = { PATH, VERSION: 'v1', HOME: project.folder };
    const shell = project.start('sh', ['-e', '-c', here], variables);
    expect(await shell.outcome).toMatchObject({ code: 0 });
    return join(project.folder, 'opt/animal-store');
  };

  it('make a folder that serves the pages, and whose check fails without one of its files, with DOCS=off too', async () => {
    const folder = await deploy();
    const run = (...args: string[]) =>
      project.start(process.execPath, [join(folder, 'dist/src/main.js'), ...args], variables);
    const variables: Record<string, string> = {
      NODE_ENV: 'production',
      DATABASE_URL: await project.createMigratedDatabase(),
    };
    const program = run('serve');
    const [, base] = await program.says(/"address":"([^"]+)"/);
    for (const path of ['/docs', '/docs/guides/errors', '/docs/assets/docs.css', '/openapi.yaml']) {
      expect([path, (await fetch(new URL(path, base))).status]).toEqual([path, 200]);
    }
    await program.end('SIGTERM');
    variables['DOCS'] = 'off';
    for (const file of ['views/page.html', 'dist/src/app.js']) {
      await rename(join(folder, file), join(folder, 'moved'));
      const { code, stdout } = await run('check').outcome;
      const line = new RegExp(`^FAIL  program: .+${file}`, 'm');
      expect([code, stdout]).toEqual([1, expect.stringMatching(line)]);
      await rename(join(folder, 'moved'), join(folder, file));
    }
  });
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
    expect(Number(valueOf('TimeoutStopSec'))).toBeGreaterThanOrEqual(LONGEST_DRAIN + GRACE);
    expect(valueOf('LimitCORE')).toBe('0');
    expect(valueOf('MemoryMax')).toBe(`${MEMORY}M`);
  });

  it('starts the service again whenever it fails, for as long as it fails, and after a boot', () => {
    expect(valueOf('Restart')).toBe('on-failure');
    expect(valueOf('StartLimitIntervalSec')).toBe('0');
    // As of a database that is down: soon again, but not all the time.
    expect(Number(valueOf('RestartSec'))).toBeGreaterThanOrEqual(1);
    expect(Number(valueOf('RestartSec'))).toBeLessThanOrEqual(5);
    expect(valueOf('WantedBy')).toBe('multi-user.target');
    // A name of the database can be looked up by then.
    expect([valueOf('Wants'), valueOf('After')]).toEqual(Array(2).fill('network-online.target'));
  });

  it('fails a system call that its filter refuses, and ends no process for it', () => {
    expect(valueOf('SystemCallErrorNumber')).toBe('EPERM');
  });

  it('lets journald drop no lines of a process', () => {
    // With 0, systemd exports no limit of the unit, and journald has its own (systemd/systemd#22034).
    expect(valueOf('LogRateLimitIntervalSec')).toBe('1s');
    expect(Number(valueOf('LogRateLimitBurst'))).toBeGreaterThan(100_000);
  });

  it('runs as the account that docs/deploy.md creates, reads the files that it writes, and writes none', () => {
    const guide = read('docs/deploy.md');
    expect(guide).toContain(`\n   useradd --system ${valueOf('User')}\n`);
    const [, url] = /DATABASE_URL_FILE=(\S+)/.exec(valueOf('Environment'))!;
    expect(guide).toContain(`chown root:${valueOf('User')} ${url} && chmod 640 ${url}\n`);
    expect(guide).toContain(`ln -sfn /opt/animal-store-$VERSION ${valueOf('WorkingDirectory')}\n`);
    const files = Array.from(unit.matchAll(/^EnvironmentFile=-(.+)$/gm), ([, file]) => file);
    expect(files).toEqual(['/etc/animal-store/environment', '/etc/animal-store/environment-%i']);
    expect(unit).not.toMatch(/^(ReadWritePaths|StateDirectory|LogsDirectory)=/m);
  });

  /** The service needs the network, V8 compiles, and other settings of the unit imply the rest. */
  /** Of clients and the database, which may be on a socket of Unix, and of what tells the own addresses. */
  const FAMILIES = ['INET_INET6', 'UNIX', 'NETLINK'].map(
    (one) => `RestrictAddressFamilies_AF_${one}`,
  );

  const LEFT_OUT = [
    'PrivateNetwork',
    'IPAddressDeny',
    'MemoryDenyWriteExecute',
    'ProcSubset',
    'DeviceAllow',
    'PrivateUsers',
    'PrivateMounts',
    'RemoveIPC',
    'RootDirectoryOrRootImage',
    ...FAMILIES,
    ...['resources', 'privileged'].map((one) => `SystemCallFilter_${one}`),
  ];

  itWith('systemd-analyze')('has every other protection of systemd', async () => {
    const file = join(await temporaryFolder(), 'animal-store@3000.service');
    await writeFile(file, unit.replace('/usr/bin/node', process.execPath));
    const args = ['security', '--offline=true', '--json=short', file];
    const { stdout } = spawnSync('systemd-analyze', args, { encoding: 'utf8' });
    const unset = JSON.parse(stdout).filter(({ set }: { set: boolean }) => set === false);
    const names = unset.map((one: any) => one.json_field as string);
    expect(names.filter((name: string) => !LEFT_OUT.includes(name))).toEqual([]);
    expect(names).toEqual(expect.arrayContaining(FAMILIES));
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
