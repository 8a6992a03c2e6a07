import { Client } from 'pg';
import { newApiKey } from '../../src/api-key.js';
import { Wire } from '../support/wire.js';
import { type Answer, exchange, request } from '../support/raw-http.js';
import { Project, type Variables } from '../support/project.js';
import { until } from '../support/until.js';

/** What of a key must not be seen: its text, its secret part, and the secret's bytes. */
function tracesOf(key: string): string[] {
  const secret = key.slice('animalstore_'.length);
  return [key, secret, Buffer.from(secret, 'base64url').subarray(0, 32).toString('hex')];
}

describe('a key is shown by keys create once, and is in nothing else that a program writes', () => {
  let project: Project;
  let databaseUrl: string;
  let wire: Wire;
  let variables: Variables;
  beforeAll(async () => {
    project = await Project.create();
    databaseUrl = await project.createDatabase();
    wire = await Wire.to(databaseUrl);
    variables = { DATABASE_URL: wire.url, LOG_LEVEL: 'trace' };
    const migration = await project.run('migrate', ['run'], variables);
    expect(migration).toMatchObject({ code: 0 });
  });
  afterAll(async () => {
    await project.remove();
    wire.cut();
  });

  const keys = (args: string[], more: Variables = {}) =>
    project.run('keys', args, { ...variables, ...more });

  /** Does `work` while tables that requests need have other names. */
  async function withoutTables(work: () => Promise<void>): Promise<void> {
    const operator = new Client({ connectionString: databaseUrl });
    await operator.connect();
    await operator.query('alter table pets rename to a; alter table api_keys rename to b');
    await work();
    await operator.query('alter table a rename to pets; alter table b rename to api_keys');
    await operator.end();
  }

  it('whatever is done with the command', async () => {
    const created = await keys(['create', '--name', 'x']);
    const key = created.stdout.trim();
    expect(created.stdout).toBe(`${key}\n`);
    const LOCAL_API_KEY = newApiKey();
    const mistyped = `${LOCAL_API_KEY.slice(0, -1)}-`;
    const others = [
      await keys(['list']),
      await keys(['revoke', key]),
      await keys(['revoke', '1']),
      await keys([key]),
      await keys(['create', key, '--name', 'x']),
      await keys(['create', '--name', 'x', '--expires', key]),
      await keys(['create', `--${key}`]),
      await keys(['admit', '--name', 'x'], { LOCAL_API_KEY }),
      await keys(['admit', '--name', 'x'], { LOCAL_API_KEY: mistyped }),
    ];
    await withoutTables(async () => {
      others.push(await keys(['create', '--name', 'x']));
      others.push(await keys(['admit', '--name', 'x'], { LOCAL_API_KEY }));
    });
    const mend = wire.cut();
    others.push(await keys(['admit', '--name', 'x'], { LOCAL_API_KEY }));
    await mend();

    expect(others.map(({ code }) => code)).toEqual([0, 1, 0, 1, 1, 1, 1, 0, 1, 1, 1, 1]);
    const written = [created.stderr, ...others.flatMap(({ stdout, stderr }) => [stdout, stderr])];
    for (const trace of ['animalstore_', ...tracesOf(key), ...tracesOf(LOCAL_API_KEY)]) {
      expect(written.filter((text) => text.includes(trace))).toEqual([]);
    }
  });

  it('whatever is asked of the service, and whatever fails', async () => {
    const issued = await Promise.all(
      ['valid', 'revoked', 'expired'].map(async (name, i) => {
        const args = ['create', '--name', name, ...(i === 2 ? ['--expires', '1s'] : [])];
        const { stdout, stderr } = await keys(args);
        return { key: stdout.trim(), id: /^Key (\d+)/.exec(stderr)![1]! };
      }),
    );
    const [valid, revoked] = issued;
    await keys(['revoke', revoked!.id]);
    const sent = [...issued.map(({ key }) => key), newApiKey(), `${valid!.key}x`, 'animalstore_x'];

    const { program, base } = await project.serve(variables);
    const { port } = new URL(base);
    const statuses = new Set<number>();
    const answers: string[] = [];

    async function askAll(): Promise<void> {
      for (const key of sent) {
        const bearer = `Authorization: Bearer ${key}`;
        const json = [bearer, 'Content-Type: application/json'];
        for (const bytes of [
          request('GET /v1/pets', [bearer]),
          request('GET /v1/pets/1', [bearer]),
          request('POST /v1/pets', json, '{"name":"Rex","categoryId":1}'),
          request('POST /v1/pets', [...json, `Idempotency-Key: ${key}`], '{"name":1}'),
          request('POST /v1/pets', json, `{"name":"${key}"`),
          request(`GET /v1/pets?limit=${key}&cursor=${key}&status=${key}`, [bearer]),
          request(`GET /v1/pets/${key}`, [bearer]),
          request(`GET /${key}?access_token=${key}`, [bearer]),
          request(`PATCH /v1/pets/${key}`, [bearer]),
          request('GET /v1/pets', [`${bearer} ${key}`]),
          request('GET /v1/pets', [`Authorization: ${key}`]),
          request('GET /v1/pets', [bearer, bearer]),
          request('GET /v1/pets', [bearer, `X-Request-Id: ${key}`]),
          request('GET /v1/pets', [bearer, `traceparent: ${key}`, `Cookie: ${key}`]),
          request('GET /v1/pets', [bearer, `Host: ${key}`]),
          request(`${key} /v1/pets`, [bearer]),
          `GET /v1/pets ${key}\r\n${key}\r\n\r\n`,
        ]) {
          const answer: Answer = await exchange(Number(port), bytes);
          statuses.add(answer.status);
          answers.push(JSON.stringify(answer));
        }
      }
    }

    await askAll();
    await withoutTables(askAll);
    const mend = wire.cut();
    await askAll();
    await program.says(/could not be verified again/);
    await mend();
    await until('the database is back', async () => {
      const bytes = request('GET /v1/pets', [`Authorization: Bearer ${valid!.key}`]);
      return (await exchange(Number(port), bytes)).status === 200;
    });
    const { code, stdout, stderr } = await program.end('SIGTERM');

    expect(code).toBe(0);
    expect([...statuses].toSorted()).toEqual([200, 201, 400, 401, 404, 405, 500, 503]);
    expect(stdout).toContain('"level":"error"');
    for (const trace of ['animalstore_', ...sent.slice(0, -1).flatMap(tracesOf)]) {
      expect([stdout, stderr, ...answers].filter((text) => text.includes(trace))).toEqual([]);
    }
  });
});
