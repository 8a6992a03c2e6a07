import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { parseEnv } from 'node:util';
import { newApiKey } from '../../src/api-key.js';
import { administerKeys } from '../../src/auth/api-keys.js';
import { query } from '../support/ask.js';
import { runHere } from '../support/command.js';
import { read } from '../support/documents.js';
import { createGrantedRole, dropGrantedRole } from '../support/granted-role.js';
import { statusWith } from '../support/pets.js';
import { Project } from '../support/project.js';
import { createMigratedDatabase, dropDatabase, onServer } from '../support/database.js';
import { startService, type TestService } from '../support/service.js';

describe('the key command, whose role has the rights of docs/grants.sql for animals_keys alone', () => {
  const project = Project.ofTests();
  let owner: string;
  let DATABASE_URL: string;
  let service: TestService;
  beforeAll(async () => {
    owner = await createMigratedDatabase();
    const database = new URL(owner).pathname.slice(1);
    // What is shown does not depend on them.
    await onServer(`alter database ${database} set datestyle = 'German, DMY'`);
    await onServer(`alter database ${database} set timezone = 'Asia/Kathmandu'`);
    service = await startService({}, owner);
    DATABASE_URL = await createGrantedRole(owner, 'animals_keys');
  });
  beforeEach(() => query(owner, 'truncate api_keys'));
  afterAll(async () => {
    await service.stop();
    await dropGrantedRole(owner);
    await dropDatabase(owner);
  });

  const keys = (args: string, more: Record<string, string> = {}) =>
    runHere(`keys ${args}`.trim(), { DATABASE_URL, ...more });
  const statusOf = (key: string) => statusWith(`${service.origin}/v1`, key);

  /** The fields of each line. */
  async function list(): Promise<string[][]> {
    const { code, stdout } = await keys('list');
    expect([code, stdout]).toEqual([0, expect.not.stringContaining('animalstore_')]);
    return stdout.trimEnd().split('\n').map((line) => line.split('\t')); // prettier-ignore
  }

  const DAY = 86_400_000;

  it('creates a key that expires, prints it alone and once, lists it and revokes it', async () => {
    const name = `Rex's "collar"\n\tØ${'🐈'.repeat(83)}`;
    expect([...name]).toHaveLength(100);
    const args = ['create', '--name', name, '--expires', '90d'];
    const { code, stdout, stderr } = await project.run('keys', args, { DATABASE_URL });
    expect([code, stdout]).toEqual([0, expect.stringMatching(/^animalstore_[\w-]{48}\n$/)]);
    const [, id] = /^Database .+\nKey (\d+) for .+\n$/.exec(stderr)!;
    expect(stderr).not.toContain(stdout.trim());
    expect(await statusOf(stdout.trim())).toBe(200);
    const stateOf = async () => (await list())[0]![3]!;
    expect((await list())[0]!.slice(0, 2)).toEqual([id, JSON.stringify(name)]);
    const time = Date.parse(/^valid until (\S+Z)$/.exec(await stateOf())![1]!) - Date.now();
    expect(time).toBeGreaterThan(90 * DAY - 600_000);
    expect(time).toBeLessThanOrEqual(90 * DAY);
    await query(owner, 'update api_keys set expires_at = now()');
    expect(await stateOf()).toMatch(/^expired \d{4}-/);
    const LOCAL_API_KEY = stdout.trim();
    const admitted = await keys('admit --name local', { LOCAL_API_KEY });
    const why = expect.stringMatching(/LOCAL_API_KEY is revoked or expired/);
    expect([admitted.code, admitted.stderr]).toEqual([1, why]);

    expect(await keys(`revoke ${id}`)).toMatchObject({ code: 0, stdout: '' });
    expect(await stateOf()).toMatch(/^revoked \d{4}-/);
    const again = { code: 1, stdout: '', stderr: expect.stringContaining('revoked already') };
    expect(await keys(`revoke ${id}`)).toEqual(again);
  });

  it('lists when each key was created, until when it is valid, and when it was last used', async () => {
    const { id } = await administerKeys(owner, (those) => those.issue('one'));
    const time = (hour: number) => `2026-01-02T0${hour}:04:05.678Z`;
    const [created, expires, used, revoked] = [1, 2, 3, 4].map(time);
    const later = '2999-12-31T23:59:58.900Z';
    const shown: string[][] = [];
    for (const change of [
      `created_at = '${created}'`,
      `last_used_at = '${used}'`,
      `expires_at = '${later}'`,
      `expires_at = '${expires}'`,
      `expires_at = '-infinity'`,
      `expires_at = 'infinity'`,
      `revoked_at = '${revoked}'`,
    ]) {
      await query(owner, `update api_keys set ${change}`);
      shown.push(...(await list()));
    }
    const row = (state: string, use: string) => [id, '"one"', `created ${created}`, state, use];
    expect(shown).toEqual([
      row('valid', 'never used'),
      row('valid', `used ${used}`),
      row(`valid until ${later}`, `used ${used}`),
      row(`expired ${expires}`, `used ${used}`),
      row('expired', `used ${used}`),
      row('valid', `used ${used}`),
      row(`revoked ${revoked}`, `used ${used}`),
    ]);
  });

  it.each(['--expires=90d', '-', '-x'])('takes no option for a name: %s', async (name) => {
    for (const args of [
      ['keys', 'create', '--name', name],
      ['keys', 'create', `--name=${name}`, '--expires', '1d'],
      ['keys', 'admit', '--name', name],
    ]) {
      const outcome = await runHere(args, { DATABASE_URL, LOCAL_API_KEY: newApiKey() });
      expect(outcome).toMatchObject({
        code: 1,
        stdout: '',
        stderr: expect.stringContaining('hyphen'),
      });
    }
    expect(await query(owner, 'select from api_keys')).toEqual([]);
  });

  it('shows no character that controls a terminal or the direction of text, and others as they are', async () => {
    const hidden = '\u009b\u0085\u007f\u202e\u2066\u200f\u061c\u2028';
    await administerKeys(owner, (those) => those.issue(`Ж${hidden}👩‍🌾`));
    const escaped = '\\u009b\\u0085\\u007f\\u202e\\u2066\\u200f\\u061c\\u2028';
    expect((await list())[0]![1]).toBe(`"Ж${escaped}👩‍🌾"`);
  });

  it('creates keys that expire after seconds, minutes, hours and days', async () => {
    const lifetimes = { '90s': 90, '15m': 900, '36h': 129_600, '2d': 172_800 };
    const created = Object.keys(lifetimes).map((duration) => {
      const args = ['create', '--name', duration, '--expires', duration];
      return project.run('keys', args, { DATABASE_URL });
    });
    await Promise.all(created);
    const stored = await query(
      owner,
      'select name, extract(epoch from expires_at - created_at)::float as seconds from api_keys',
    );
    expect(Object.fromEntries(stored.map(({ name, seconds }) => [name, seconds]))).toEqual(
      lifetimes,
    );
    // They are listed in their order, although PostgreSQL has moved one.
    await query(owner, 'update api_keys set name = name where id = (select min(id) from api_keys)');
    const ids = (await list()).map(([id]) => Number(id));
    expect(ids).toEqual(ids.toSorted((one, other) => one - other));
  });

  it('admits a key chosen elsewhere, or in a file, again without change, and not after it is revoked', async () => {
    const LOCAL_API_KEY = newApiKey();
    const LOCAL_API_KEY_FILE = join(project.folder, 'key');
    await writeFile(LOCAL_API_KEY_FILE, `${LOCAL_API_KEY}\n`);
    const admit = (more = {}) => keys('admit --name local', { LOCAL_API_KEY, ...more });
    const none = await admit({ LOCAL_API_KEY: '' });
    expect([none.code, none.stderr]).toEqual([1, expect.stringMatching(/\nLOCAL_API_KEY/)]);
    const inFile = { LOCAL_API_KEY: '', LOCAL_API_KEY_FILE };
    expect(await admit(inFile)).toMatchObject({ code: 0, stdout: '' });
    expect(await statusOf(LOCAL_API_KEY)).toBe(200);
    expect(await admit()).toMatchObject({ code: 0, stdout: '' });
    const [[id, name], ...others] = (await list()) as [string[]];
    expect([name, others]).toEqual(['"local"', []]);
    await keys(`revoke ${id}`);
    const { code, stderr } = await admit();
    expect([code, stderr]).toEqual([1, expect.stringMatching(/LOCAL_API_KEY is revoked/)]);
  });

  it.each<[string, Record<string, string>]>([
    ['is public', { NODE_ENV: 'production', HOST: '127.0.0.1' }],
    ['is public', { HOST: '127.0.0.1', PUBLISHED_HOST: '192.168.1.127' }],
    ['is public', { HOST: '127.0.0.1.example' }],
    ['is valid', { HOST: '0.0.0.0', PUBLISHED_HOST: '[::1]' }],
    ['is valid', { NODE_ENV: 'development', HOST: 'localhost' }],
    ['is valid', {}],
  ])('says that the key of .env.example %s with %j', async (what, variables) => {
    const LOCAL_API_KEY = parseEnv(read('.env.example'))['LOCAL_API_KEY']!;
    const { code, stderr } = await keys('admit --name x', { ...variables, LOCAL_API_KEY });
    expect([stderr, code]).toEqual([expect.stringContaining(what), what === 'is valid' ? 0 : 1]);
    expect(await statusOf(LOCAL_API_KEY)).toBe(code === 0 ? 200 : 401);
  });

  it('revokes a key that it could not print, and says so', async () => {
    const command = `{ node dist/src/main.js keys create --name lost; echo "left with $?" >&2; } | true`;
    const { stderr } = await project.start('sh', ['-c', command], { DATABASE_URL }).outcome;
    expect(stderr).toMatch(
      /^Database .+\nKey \d+ could not be shown, and is revoked: .+\nleft with 1\n$/,
    );
    expect((await list())[0]![3]).toMatch(/^revoked /);
  });

  it('shows nothing of a key in whatever else it writes', async () => {
    const { id, key } = await administerKeys(owner, (those) => those.issue('Bello'));
    const LOCAL_API_KEY = newApiKey();
    const written: string[] = [];
    const write = async (code: number, args: string, variables = {}) => {
      const outcome = await keys(args, { LOG_LEVEL: 'trace', ...variables });
      expect([args, outcome.code]).toEqual([args, code]);
      written.push(outcome.stdout, outcome.stderr);
    };
    await write(0, 'list');
    await write(1, `revoke ${key}`);
    await write(0, `revoke ${id}`);
    await write(1, key);
    await write(1, `create --name x --expires ${key}`);
    await write(1, `create --${key}`);
    const hyphens = key.replace(/.(?=.{20}$)/, '-');
    await write(1, `revoke ${hyphens}`);
    await write(0, 'admit --name x', { LOCAL_API_KEY });
    await write(1, 'admit --name x', { LOCAL_API_KEY: `${LOCAL_API_KEY.slice(0, -1)}-` });
    await write(1, 'admit --name x', { LOCAL_API_KEY, DATABASE_URL: 'postgres://127.0.0.1:1/x' });
    await query(owner, 'alter table api_keys rename to hidden');
    await write(1, 'admit --name x', { LOCAL_API_KEY });
    await query(owner, 'alter table hidden rename to api_keys');
    // Its text, its secret part, and the bytes of that.
    const traces = [key, LOCAL_API_KEY].flatMap((each) => {
      const secret = each.slice('animalstore_'.length);
      return [secret.slice(-20), Buffer.from(secret, 'base64url').subarray(0, 32).toString('hex')];
    });
    for (const trace of ['animalstore_', ...traces]) {
      expect(written.filter((text) => text.includes(trace))).toEqual([]);
    }
  });

  it.each([
    '',
    'create',
    'create --name \u3000',
    'create --name x --expires 1w',
    'create --name x --expires 0d',
    'create --name x --expires 12345678s',
    `create --name ${'🐈'.repeat(101)}`,
    'revoke x',
    'revoke 9223372036854775808',
  ])('rejects the arguments %j with the usage and changes nothing', async (args) => {
    const wrong = { code: 1, stdout: '', stderr: expect.stringContaining('Usage:') };
    expect(await keys(args)).toEqual(wrong);
    expect(await query(owner, 'select from api_keys')).toEqual([]);
  });
});
