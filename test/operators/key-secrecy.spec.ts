import { newApiKey } from '../../src/api-key.js';
import { query } from '../support/ask.js';
import { Wire } from '../support/wire.js';
import { Project, type Variables } from '../support/project.js';

/** What of a key must not be seen: its text, its secret part, and the secret's bytes. */
function tracesOf(key: string): string[] {
  const secret = key.slice('animalstore_'.length);
  return [key, secret, Buffer.from(secret, 'base64url').subarray(0, 32).toString('hex')];
}

describe('a key is shown by keys create once, and is in nothing else that the command writes', () => {
  const project = Project.ofTests();
  let databaseUrl: string;
  let wire: Wire;
  let variables: Variables;
  beforeAll(async () => {
    databaseUrl = await project.createMigratedDatabase();
    wire = await Wire.to(databaseUrl);
    variables = { DATABASE_URL: wire.url, LOG_LEVEL: 'trace' };
  });
  afterAll(() => wire.cut());

  const keys = (args: string[], more: Variables = {}) =>
    project.run('keys', args, { ...variables, ...more });

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
    await query(databaseUrl, 'alter table api_keys rename to hidden');
    others.push(await keys(['create', '--name', 'x']));
    others.push(await keys(['admit', '--name', 'x'], { LOCAL_API_KEY }));
    await query(databaseUrl, 'alter table hidden rename to api_keys');
    const mend = wire.cut();
    others.push(await keys(['admit', '--name', 'x'], { LOCAL_API_KEY }));
    await mend();

    expect(others.map(({ code }) => code)).toEqual([0, 1, 0, 1, 1, 1, 1, 0, 1, 1, 1, 1]);
    const written = [created.stderr, ...others.flatMap(({ stdout, stderr }) => [stdout, stderr])];
    for (const trace of ['animalstore_', ...tracesOf(key), ...tracesOf(LOCAL_API_KEY)]) {
      expect(written.filter((text) => text.includes(trace))).toEqual([]);
    }
  });
});
