import { execFileSync, spawnSync } from 'node:child_process';
import { chmodSync, chownSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parse } from 'yaml';
import { PROJECT_ROOT } from '../../src/config/project-root.js';
import { runMigrations } from '../../src/schema/migrations.js';
import { postgresAccount } from '../../src/embedded-postgres/embedded-postgres.js';
import { query } from '../support/ask.js';
import { describeWith } from '../support/describe-with.js';
import { DOCUMENTS, read } from '../support/documents.js';
import { Postgres, systemBinaries } from '../support/postgres.js';
import { Project } from '../support/project.js';

const FILES = [
  ...DOCUMENTS.filter((file) => file !== 'CHANGELOG.md'),
  ...['animal-store.yaml', 'migrate.yaml'].map((file) => `deploy/kubernetes/${file}`),
  'deploy/animal-store@.service',
  '.env.example',
  'docker-compose.yml',
];
const allOf = (pattern: RegExp) => FILES.flatMap((file) => read(file).match(pattern) ?? []);
const URLS = [...new Set(allOf(/(?<![\w/])postgres:\/\/[^\s"`);]+(?<![.:,}])\}?/g))];
const TLS = [...new Set(allOf(/\?ssl[a-z]+=[^\s"`),;]+/g))];

describeWith('PostgreSQL', await systemBinaries())('the URLs of the documents', () => {
  const project = Project.ofTests();
  const PASSWORD = `it's %41 "$(x)" \\é/@:?`;
  let folder: string;
  let server: Postgres;
  const at = (file: string) => join(folder, file);
  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'animal-store-urls-'));
    const make = `req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=localhost -addext subjectAltName=DNS:localhost -keyout ${at('key')} -out ${at('ca.pem')}`;
    execFileSync('openssl', make.split(' '), { stdio: 'ignore' });
    const { uid = process.getuid!(), gid = process.getgid!() } = await postgresAccount(folder);
    chmodSync(folder, 0o777);
    chmodSync(at('key'), 0o600);
    chownSync(at('key'), uid, gid);
    server = await Postgres.start([
      'ssl=on',
      `ssl_key_file=${at('key')}`,
      `ssl_cert_file=${at('ca.pem')}`,
      `unix_socket_directories=${folder}`,
    ]);
    await runMigrations(server.url);
    const name = PASSWORD.replaceAll(`'`, `''`);
    await query(server.url, `create role other superuser login password '${name}'`);
    mkdirSync(at('grants'));
  });
  afterAll(async () => {
    await server.stop();
    rmSync(folder, { recursive: true });
  });

  /** The URL as an operator fills it in for the server of this test. */
  const filledIn = (url: string) =>
    url
      .replace(/^postgres:\/\/.*@(?=\/)/, 'postgres://other@')
      .replace(/^postgres:\/\/[^@]+@[^/]+/, `postgres://other:${encodeURIComponent(PASSWORD)}@HOST`)
      .replace(/HOST$|HOST(?=\/)/, `localhost:${server.port}`)
      .replace(/(?<=\/)(?:animals|NAME)(?=\}?\??)/, 'postgres')
      .replace(/\}$/, '')
      .replace(/(?<=host=).+/, folder)
      .replace(/(?<=sslrootcert=).+/, at('ca.pem'));

  async function connectWith(url: string) {
    const variables = { PGPASSWORD: PASSWORD, PGPORT: String(server.port) };
    const psql = spawnSync('psql', ['--no-psqlrc', '-Atc', 'select 1', url], {
      env: { PATH: process.env['PATH'], ...variables },
      encoding: 'utf8',
    });
    const { stdout } = await project.run('check', [], { DATABASE_URL: url, ...variables });
    const [tls] = /(?<=^ok +TLS: ).+/m.exec(stdout) ?? [stdout];
    return { psql: psql.stdout || psql.stderr, tls };
  }

  it.each(URLS)('connect psql and the service: %s', async (url) => {
    const outcome = await connectWith(filledIn(url));
    expect(outcome).toEqual({ psql: '1\n', tls: expect.stringMatching(/^off/) });
  });

  it.each(TLS)('encrypt and verify in psql and in the service: …%s', async (parameters) => {
    const { href } = Object.assign(new URL(server.url), { hostname: 'localhost' });
    const outcome = await connectWith(`${href}${filledIn(parameters)}`);
    expect(outcome).toEqual({ psql: '1\n', tls: expect.stringMatching(/^on, .+ is verified$/) });
  });

  it('are many, and name a file for a public certificate authority too, as psql needs it', () => {
    expect([URLS.length, TLS.length]).toEqual([8, 3]);
    expect(TLS).toContain('?sslmode=verify-full&sslrootcert=/etc/ssl/certs/ca-certificates.crt');
  });

  it.each([
    ['', { NODE_EXTRA_CA_CERTS: 'ca.pem' }, /^ok +TLS: on, .+ is verified$/m],
    ['sslmode=require&', { NODE_EXTRA_CA_CERTS: 'ca.pem' }, /^ok +TLS: on, .+ is verified$/m],
    ['', {}, /^FAIL +database: .*self-signed certificate/m],
  ])('may have %ssslrootcert=system: Node trusts with %j', async (mode, files, report) => {
    const { href } = Object.assign(new URL(server.url), { hostname: 'localhost' });
    const DATABASE_URL = `${href}?${mode}sslrootcert=system`;
    const trusted = Object.entries(files).map(([name, file]) => [name, at(file)]);
    const variables = { DATABASE_URL, ...Object.fromEntries(trusted) };
    expect((await project.run('check', [], variables)).stdout).toMatch(report);
  });

  it('in the secret of the Kubernetes job grant the rights, without the password in an argument', () => {
    const { spec } = parse(read('deploy/kubernetes/migrate.yaml')).spec.template;
    const [{ command, args }] = spec.containers;
    const url =
      filledIn('postgres://USER:PASSWORD@HOST/NAME?sslrootcert=x') + '&sslmode=verify-full';
    writeFileSync(at('database-url'), `${url}\n`);
    const script = `begin; ${`create role animals; create role animals_keys; create role animals_reader;`}
      ${read('docs/grants.sql')} rollback; \\! ps -o args= -p $PPID`;
    writeFileSync(at('grants/grants.sql'), script);
    const here = args.map((text: string) =>
      text.replaceAll('/run/secrets/animal-store', folder).replaceAll('/grants/', at('grants/')),
    );
    const [program, ...options] = command;
    const env = { PATH: process.env['PATH'] };
    const outcome = spawnSync(program, [...options, ...here], { env, encoding: 'utf8' });
    expect(outcome).toMatchObject({ status: 0, stderr: '' });
    expect(outcome.stdout).toContain('GRANT\nROLLBACK\n');
    const [arguments_] = /psql postgres.+$/m.exec(outcome.stdout)!;
    expect(arguments_).toContain(`postgres://other@localhost:${server.port}/postgres?sslrootcert=`);
  });

  it('find the public certificate authorities in the image, for psql and for Node', () => {
    const [, make, file] = /^RUN .*?(node -p .+) > (\/\S+)$/m.exec(read('Dockerfile'))!;
    expect(TLS.join('\n')).toContain(`sslrootcert=${file}\n`);
    const bundle = execFileSync('sh', ['-c', make!], { encoding: 'utf8', cwd: PROJECT_ROOT });
    expect(bundle.match(/^-----END CERTIFICATE-----$/gm)!.length).toBeGreaterThan(100);
  });
});
