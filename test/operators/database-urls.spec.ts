import { execFileSync, spawnSync } from 'node:child_process';
import { chmodSync, chownSync } from 'node:fs';
import { join } from 'node:path';
import { runMigrations } from '../../src/schema/migrations.js';
import { postgresAccount } from '../../src/embedded-postgres/embedded-postgres.js';
import { query } from '../support/ask.js';
import { describeWith } from '../support/describe-with.js';
import { DOCUMENTS, read } from '../support/documents.js';
import { Postgres, systemBinaries } from '../support/postgres.js';
import { Project } from '../support/project.js';
import { temporaryFolder } from '../support/temporary-folder.js';

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
    folder = await temporaryFolder();
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
  });
  afterAll(async () => {
    await server.stop();
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
      .replace(/(?<=sslrootcert=)\/.+/, at('ca.pem'));

  /** What check says of TLS, or else of the database. */
  async function check(url: string, variables: Record<string, string> = {}) {
    const { stdout } = await project.run('check', [], {
      DATABASE_URL: filledIn(url),
      ...variables,
    });
    return /^ok +TLS: .+|^FAIL .+/m.exec(stdout)?.[0];
  }

  const OF_TEST = 'postgres://USER:PASSWORD@HOST:PORT/NAME';
  const VERIFIED = /^ok +TLS: on, .+ is verified$/;
  it.each([
    ...URLS.map((url) => [url, /TLS: off/] as const),
    ...TLS.map((parameters) => [`${OF_TEST}${parameters}`, VERIFIED] as const),
  ])('connect psql and the service: %s', async (url, report) => {
    const variables = { PGPASSWORD: PASSWORD, PGPORT: String(server.port) };
    const env = { PATH: process.env['PATH'], ...variables };
    const command = ['--no-psqlrc', '-Atc', 'select 1', filledIn(url)];
    const psql = spawnSync('psql', command, { env, encoding: 'utf8' });
    expect([psql.stdout, psql.stderr]).toEqual(['1\n', '']);
    expect(await check(url, variables)).toMatch(report);
  });

  it('are many, and name a file of public certificate authorities, which the image has', () => {
    expect([URLS.length, TLS.length]).toEqual([8, 3]);
    const [, make, file] = /^RUN .*?(node -p .+) > (\/\S+)$/m.exec(read('Dockerfile'))!;
    expect(TLS).toContain(`?sslmode=verify-full&sslrootcert=${file}`);
    const bundle = execFileSync('sh', ['-c', make!], { encoding: 'utf8' });
    expect(bundle.match(/^-----END CERTIFICATE-----$/gm)!.length).toBeGreaterThan(100);
  });

  it.each([
    ['?sslrootcert=system', 'ca.pem', VERIFIED],
    ['?sslmode=require&sslrootcert=system', 'ca.pem', VERIFIED],
    ['?sslrootcert=system', '', /^FAIL +database: .*self-signed certificate/],
    ['?sslmode=no-verify', '', /^ok +TLS: on, .+ is not verified$/],
  ])('may end with %s if Node trusts "%s" too: %s', async (parameters, file, report) => {
    const NODE_EXTRA_CA_CERTS = file && at(file);
    expect(await check(OF_TEST + parameters, { NODE_EXTRA_CA_CERTS })).toMatch(report);
  });
});
