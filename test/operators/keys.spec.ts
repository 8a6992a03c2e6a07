import { spawnSync } from 'node:child_process';
import { newApiKey } from '../../src/api-key.js';
import { query } from '../support/ask.js';
import { FULL_LENGTH } from '../support/full-length.js';
import { grantsTo } from '../support/granted-role.js';
import { statusWith } from '../support/pets.js';
import { Project } from '../support/project.js';
import { onServer } from '../support/service.js';
import { until } from '../support/until.js';

const KEY = /^animalstore_[\w-]{48}\n$/;

describe('the key command, whose role has the rights of docs/grants.sql for animals_keys alone', () => {
  const project = Project.ofTests();
  let owner: string;
  let role: string;
  let DATABASE_URL: string;
  let base: string;
  beforeAll(async () => {
    owner = await project.createDatabase();
    ({ base } = await project.serve({ DATABASE_URL: owner, MIGRATE_ON_START: 'true' }));
    role = `${new URL(owner).pathname.slice(1)}_keys`;
    const grants = grantsTo(role, 'animals_keys');
    await query(owner, `create role ${role} login password 'sekrit'`, grants);
    DATABASE_URL = Object.assign(new URL(owner), { username: role, password: 'sekrit' }).href;
  });
  // After the database, on which it has rights.
  afterAll(() => onServer(`drop role ${role}`));

  const keys = (args: string[], more = {}) => project.run('keys', args, { DATABASE_URL, ...more });

  /** Creates or rotates a key. @returns its text and its id. */
  async function make(...args: string[]): Promise<{ key: string; id: string; stderr: string }> {
    const { code, stdout, stderr } = await keys(args);
    expect([code, stdout]).toEqual([0, expect.stringMatching(KEY)]);
    expect(stderr).not.toContain(stdout.trim());
    return { key: stdout.trim(), id: /^Key (\d+) /.exec(stderr)![1]!, stderr };
  }

  async function list(): Promise<string[][]> {
    const { code, stdout } = await keys(['list']);
    expect([code, stdout]).toEqual([0, expect.not.stringContaining('animalstore_')]);
    return stdout.trimEnd().split('\n').map((line) => line.split('\t')); // prettier-ignore
  }

  const stateOf = async (id: string) => (await list()).find(([one]) => one === id)![3]!;

  const isRefused = (key: string) => async () => (await statusWith(base, key)) === 401;

  /** Milliseconds until the time in a text such as `valid until 2026-11-24T08:12:59.000Z`. */
  const timeTo = (text: string) => Date.parse(/until (\S+?Z)/.exec(text)![1]!) - Date.now();

  const HOUR = 3_600_000;

  it('creates a key, prints it alone and once, and revokes it', async () => {
    const name = 'Rex\'s "collar"\n\tØ';
    const { key, id, stderr } = await make('create', '--name', name);
    expect(stderr.split('\n')).toHaveLength(2);
    expect(await statusWith(base, key)).toBe(200);
    const [line] = await list();
    expect([line![0], line![1], line![3]]).toEqual([id, JSON.stringify(name), 'valid']);

    expect(await keys(['revoke', id])).toMatchObject({ code: 0, stdout: '' });
    await until('the key is refused', isRefused(key), 5);
    expect(await stateOf(id)).toMatch(/^revoked \d{4}-/);
    const again = await keys(['revoke', id]);
    expect(again).toMatchObject({ code: 1, stdout: '' });
    expect(again.stderr).toContain('revoked already');
  });

  it('creates a key that expires', async () => {
    const { key, id } = await make('create', '--name', '🐈'.repeat(100), '--expires', '90d');
    expect(await statusWith(base, key)).toBe(200);
    const time = timeTo(await stateOf(id));
    expect(time).toBeGreaterThan((90 * 24 - 1) * HOUR);
    expect(time).toBeLessThanOrEqual(90 * 24 * HOUR);
    await query(owner, `update api_keys set expires_at = now() where id = ${id}`);
    await until('the key is refused', isRefused(key));
    expect(await stateOf(id)).toMatch(/^expired \d{4}-/);
  });

  it('rotates a key: both are valid, and the old one expires after the overlap', async () => {
    const name = 'Tom "the cat"';
    const old = await make('create', '--name', name);
    const first = await make('rotate', old.id, '--overlap', '24h');
    const state = await stateOf(old.id);
    expect(first.stderr).toContain(`\nKey ${old.id}: ${state}.\n`);
    expect(timeTo(state)).toBeGreaterThan(23 * HOUR);
    expect(timeTo(state)).toBeLessThanOrEqual(24 * HOUR);
    expect((await list()).slice(-2).map((line) => [line[1], line[3]])).toEqual([
      [JSON.stringify(name), state],
      [JSON.stringify(name), 'valid'],
    ]);
    expect([await statusWith(base, old.key), await statusWith(base, first.key)]).toEqual([
      200, 200,
    ]);

    // An earlier end stays, and a later one gives way; the successor may be limited too.
    await make('rotate', old.id, '--overlap', '2d');
    expect(await stateOf(old.id)).toBe(state);
    const second = await make('rotate', old.id, '--overlap', '1s', '--expires', '90d');
    expect(await stateOf(second.id)).toMatch(/^valid until /);
    await until('the old key is refused', isRefused(old.key));
    expect([await statusWith(base, first.key), await statusWith(base, second.key)]).toEqual([
      200, 200,
    ]);
  });

  it('rotates no key that is unknown, expired or revoked, and says which it is', async () => {
    const { id } = await make('create', '--name', 'ended', '--expires', '1d');
    const refusal = async (one: string) => {
      const outcome = await keys(['rotate', one, '--overlap', '24h']);
      expect(outcome).toMatchObject({ code: 1, stdout: '' });
      return outcome.stderr;
    };
    const before = (await list()).length;
    expect(await refusal('9223372036854775807')).toBe('There is no key 9223372036854775807.\n');
    await query(owner, `update api_keys set expires_at = now() where id = ${id}`);
    expect(await refusal(id)).toMatch(/^Key \d+ is not valid: expired \d{4}-\S+\. Create /);
    await keys(['revoke', id]);
    expect(await refusal(id)).toMatch(/^Key \d+ is not valid: revoked \d{4}-\S+\. Create /);
    expect(await list()).toHaveLength(before);
  });

  it('lists the same whatever the settings of the database, a key of infinite life as one without end', async () => {
    const before = await list();
    const database = new URL(owner).pathname.slice(1);
    await query(
      owner,
      `alter database ${database} set datestyle = 'German, DMY'`,
      `alter database ${database} set timezone = 'Asia/Kathmandu'`,
      `update api_keys set expires_at = 'infinity' where expires_at is null`,
    );
    expect(await list()).toEqual(before);
    await query(owner, `alter database ${database} reset all`);
  });

  it('admits a key chosen elsewhere, again without change, and not after it is revoked', async () => {
    const LOCAL_API_KEY = newApiKey();
    const admit = () => keys(['admit', '--name', 'local'], { LOCAL_API_KEY });
    expect(await admit()).toMatchObject({ code: 0, stdout: '' });
    expect(await statusWith(base, LOCAL_API_KEY)).toBe(200);
    expect(await admit()).toMatchObject({ code: 0, stdout: '' });
    const [local, ...others] = (await list()).filter(([, name]) => name === '"local"');
    expect(others).toEqual([]);
    await keys(['revoke', local![0]!]);
    const { code, stderr } = await admit();
    expect([code, stderr]).toEqual([1, expect.stringMatching(/LOCAL_API_KEY is revoked/)]);
  });

  it.each(['', 'animalstore_sekrit'])(
    'refuses to admit %j, which is no key of this service, without showing it',
    async (LOCAL_API_KEY) => {
      const { code, stdout, stderr } = await keys(['admit', '--name', 'x'], { LOCAL_API_KEY });
      expect([code, stdout, stderr]).toEqual([1, '', expect.stringMatching(/^LOCAL_API_KEY/)]);
      expect(stderr).not.toContain('sekrit');
    },
  );

  it('revokes a key that it could not print, says so, and leaves the key as it is that it replaces', async () => {
    const { id } = await make('create', '--name', 'kept');
    for (const args of ['create --name lost', `rotate ${id} --overlap 1h`]) {
      const command = `{ node dist/src/main.js keys ${args}; echo "left with $?" >&2; } | true`;
      const env = { PATH: process.env['PATH'], DATABASE_URL };
      const { stderr } = spawnSync('sh', ['-c', command], {
        cwd: project.folder,
        env,
        encoding: 'utf8',
      });
      expect(stderr).toMatch(/^Key \d+ could not be shown, and is revoked: .+\nleft with 1\n$/);
    }
    expect((await list()).slice(-3).map((line) => line[3])).toEqual([
      'valid',
      expect.stringMatching(/^revoked /),
      expect.stringMatching(/^revoked /),
    ]);
  });

  it('refuses wrong arguments with the usage and changes nothing', async () => {
    const wrong = [
      [],
      ['create', '--name', '🐈'.repeat(101)],
      ['create', '--name', 'x', '--expires', '1w'],
      ['admit', '--name', 'x', '--expires', '5s'],
      ['revoke', '9223372036854775808'],
      ['rotate', '1'],
      ['rotate', '1', '--overlap', '0h'],
      ...(FULL_LENGTH ? [['create'], ['create', '--name', ' '], ['list', '--colour', 'red']] : []),
      ...(FULL_LENGTH
        ? [
            ['create', 'collar', '--name', 'x'],
            ['list', 'all'],
          ]
        : []),
      ...(FULL_LENGTH
        ? [
            ['revoke', '1', '--name', 'x'],
            ['revoke', 'x'],
          ]
        : []),
    ];
    const before = await list();
    for (const outcome of await Promise.all(wrong.map((args) => keys(args)))) {
      expect(outcome).toMatchObject({ code: 1, stdout: '' });
      expect(outcome.stderr).toContain('Usage:');
    }
    expect(await list()).toEqual(before);
  });
});
