import { spawnSync } from 'node:child_process';
import { administer } from '../../src/database/database.js';
import { FULL_LENGTH } from '../support/full-length.js';
import { statusWith } from '../support/pets.js';
import { Project } from '../support/project.js';
import { until } from '../support/until.js';

describe('the key command', () => {
  const project = Project.ofTests();
  let variables: { DATABASE_URL: string };
  let base: string;
  beforeAll(async () => {
    variables = { DATABASE_URL: await project.createDatabase() };
    ({ base } = await project.serve({ ...variables, MIGRATE_ON_START: 'true' }));
  });

  const keys = (args: string[], more = {}) => project.run('keys', args, { ...variables, ...more });

  const onDatabase = (sql: string) =>
    administer(variables.DATABASE_URL, (dataSource) => dataSource.query(sql));

  const stored = () =>
    onDatabase('select id, name, hash, expires_at, revoked_at from api_keys order by id');

  async function list(): Promise<string[][]> {
    const { code, stdout } = await keys(['list']);
    expect(code).toBe(0);
    return stdout
      .trimEnd()
      .split('\n')
      .map((line) => line.split('\t'));
  }

  it('creates a key, prints it alone and once, and revokes it', async () => {
    const { code, stdout, stderr } = await keys(['create', '--name', 'Rex\'s "collar"\n\tØ']);
    expect(code).toBe(0);
    expect(stdout).toMatch(/^animalstore_[\w-]{48}\n$/);
    const key = stdout.trim();
    expect(stderr).not.toContain(key);
    expect(stderr.split('\n')).toHaveLength(2);
    expect(await statusWith(base, key)).toBe(200);

    const [line] = await list();
    expect(line!.slice(0, 2)).toEqual(['1', JSON.stringify('Rex\'s "collar"\n\tØ')]);
    expect(line![3]).toBe('valid');
    expect(line!.join()).not.toContain(key.slice('animalstore_'.length, -8));

    expect(await keys(['revoke', '1'])).toMatchObject({ code: 0, stdout: '' });
    await until('the key is refused', async () => (await statusWith(base, key)) === 401, 5);
    expect((await list())[0]![3]).toMatch(/^revoked \d{4}-/);
    expect(await keys(['revoke', '1'])).toMatchObject({
      code: 1,
      stdout: '',
      stderr: expect.stringContaining('revoked already'),
    });
  });

  it('creates a key that expires', async () => {
    const { stdout } = await keys(['create', '--name', 'brief', '--expires', '90d']);
    const key = stdout.trim();
    expect(await statusWith(base, key)).toBe(200);
    const [, validUntil] = /^valid until (\S+)$/.exec((await list()).at(-1)![3]!)!;
    const days = (Date.parse(validUntil!) - Date.now()) / 86_400_000;
    expect(days).toBeGreaterThan(89.9);
    expect(days).toBeLessThanOrEqual(90);

    await onDatabase(`update api_keys set expires_at = now() where name = 'brief'`);
    await until('the key is refused', async () => (await statusWith(base, key)) === 401);
    expect((await list()).at(-1)![3]).toMatch(/^expired \d{4}-/);
  });

  it('rotates a key: both are valid, and the old one expires after the overlap', async () => {
    const name = 'Tom "the cat"';
    const old = (await keys(['create', '--name', name])).stdout.trim();
    const id = (await list()).at(-1)![0]!;
    const { code, stdout, stderr } = await keys(['rotate', id, '--overlap', '24h']);
    expect(code).toBe(0);
    expect(stdout).toMatch(/^animalstore_[\w-]{48}\n$/);
    expect(stderr).not.toContain(stdout.trim());
    const [, until24h] = new RegExp(`\nKey ${id}: valid until (\\S+)\\.\n$`).exec(stderr)!;
    const hours = (Date.parse(until24h!) - Date.now()) / 3_600_000;
    expect(hours).toBeGreaterThan(23.9);
    expect(hours).toBeLessThanOrEqual(24);
    expect((await list()).slice(-2).map(([, ...rest]) => [rest[0], rest[2]])).toEqual([
      [JSON.stringify(name), `valid until ${until24h}`],
      [JSON.stringify(name), 'valid'],
    ]);
    for (const key of [old, stdout.trim()]) {
      expect(await statusWith(base, key)).toBe(200);
    }

    // An earlier end stays, and a later one gives way; the successor may be limited too.
    await keys(['rotate', id, '--overlap', '2d']);
    expect((await list()).find(([one]) => one === id)![3]).toBe(`valid until ${until24h}`);
    const second = await keys(['rotate', id, '--overlap', '1s', '--expires', '90d']);
    expect((await list()).at(-1)![3]).toMatch(/^valid until /);
    await until('the old key is refused', async () => (await statusWith(base, old)) === 401);
    for (const key of [stdout.trim(), second.stdout.trim()]) {
      expect(await statusWith(base, key)).toBe(200);
    }
  });

  it('rotates no key that is unknown, expired or revoked, and says which it is', async () => {
    const { stderr } = await keys(['create', '--name', 'ended', '--expires', '1d']);
    const [, id] = /^Key (\d+)/.exec(stderr)!;
    const refusal = async (one = id!) => {
      const before = await stored();
      const outcome = await keys(['rotate', one, '--overlap', '24h']);
      expect(outcome).toMatchObject({ code: 1, stdout: '' });
      expect(await stored()).toEqual(before);
      return outcome.stderr;
    };
    expect(await refusal('9223372036854775807')).toBe('There is no key 9223372036854775807.\n');
    await onDatabase(`update api_keys set expires_at = now() where id = ${id}`);
    expect(await refusal()).toMatch(/^Key \d+ is not valid: expired \d{4}-\S+\. Create /);
    await keys(['revoke', id!]);
    expect(await refusal()).toMatch(/^Key \d+ is not valid: revoked \d{4}-\S+\. Create /);
  });

  it('lists the same whatever the settings of the database, a key of infinite life as one without end', async () => {
    const before = await list();
    const database = new URL(variables.DATABASE_URL).pathname.slice(1);
    await onDatabase(`alter database ${database} set datestyle = 'German, DMY'`);
    await onDatabase(`alter database ${database} set timezone = 'Asia/Kathmandu'`);
    await onDatabase(`update api_keys set expires_at = 'infinity' where expires_at is null`);
    expect(await list()).toEqual(before);
    await onDatabase(`alter database ${database} reset all`);
  });

  it('admits a key chosen elsewhere, and again without change', async () => {
    const LOCAL_API_KEY = 'animalstore_ngtlj8jjjiShgVdwmhF_Qu2tfpiVJ1Fw1eNqn38bwECkUIZQ';
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

  it('revokes a key that it could not print, and says so', async () => {
    const command = `{ node dist/src/main.js keys create --name lost; echo "left with $?" >&2; } | true`;
    const { stderr } = spawnSync('sh', ['-c', command], {
      cwd: project.folder,
      env: { PATH: process.env['PATH'], ...variables },
      encoding: 'utf8',
    });
    expect(stderr).toMatch(/^Key \d+ could not be shown, and is revoked: .+\nleft with 1\n$/);
    expect((await list()).at(-1)).toEqual(
      expect.arrayContaining(['"lost"', expect.stringMatching(/^revoked /)]),
    );
  });

  it('leaves a key as it is whose successor it could not print', async () => {
    await keys(['create', '--name', 'kept']);
    const [id] = (await list()).at(-1)!;
    const command = `node dist/src/main.js keys rotate ${id} --overlap 1h | true`;
    spawnSync('sh', ['-c', command], {
      cwd: project.folder,
      env: { PATH: process.env['PATH'], ...variables },
    });
    expect((await list()).slice(-2).map((line) => line[3])).toEqual([
      'valid',
      expect.stringMatching(/^revoked /),
    ]);
  });

  it('takes a name of 100 characters, however many bytes they have', async () => {
    const { code } = await keys(['create', '--name', '🐈'.repeat(100)]);
    expect(code).toBe(0);
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
      ...(FULL_LENGTH
        ? [
            ['create'],
            ['create', '--name', ' '],
            ['list', '--colour', 'red'],
            ['create', 'collar', '--name', 'x'],
            ['list', 'all'],
            ['revoke', '1', '--name', 'x'],
            ['revoke', 'x'],
          ]
        : []),
    ];
    const before = await stored();
    const outcomes = await Promise.all(
      wrong.map(async (args) => {
        const { code, stdout, stderr } = await keys(args);
        return { args, code, stdout, isUsageShown: stderr.includes('Usage:') };
      }),
    );
    expect(outcomes).toEqual(
      wrong.map((args) => ({ args, code: 1, stdout: '', isUsageShown: true })),
    );
    expect(await stored()).toEqual(before);
  });

  it('refuses to admit what is no key of this service, without showing it', async () => {
    for (const LOCAL_API_KEY of ['', 'animalstore_sekrit']) {
      const { code, stdout, stderr } = await keys(['admit', '--name', 'x'], { LOCAL_API_KEY });
      expect([code, stdout]).toEqual([1, '']);
      expect(stderr).toMatch(/^LOCAL_API_KEY/);
      expect(stderr).not.toContain('sekrit');
    }
  });
});
