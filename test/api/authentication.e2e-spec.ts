import { newApiKey } from '../../src/api-key.js';
import { type Answer, expectError } from '../support/answers.js';
import { exchange, request } from '../support/raw-http.js';
import { serviceOfTests, startService } from '../support/service.js';
import { until } from '../support/until.js';

const CHALLENGE = 'Bearer realm="animal-store"';
const INVALID_TOKEN = `${CHALLENGE}, error="invalid_token"`;

const VALID = 'Authorization: Bearer KEY';

function expect401(answer: Answer, isMissing: boolean, words: string[] = []): void {
  expectError(answer, 401, isMissing ? 'missing_api_key' : 'invalid_api_key', words);
  expect(answer.headers['www-authenticate']).toBe(isMissing ? CHALLENGE : INVALID_TOKEN);
}

const service = serviceOfTests();

/** A request with exactly these header lines, in which KEY stands for a valid key. */
const send = (line: string, headers: readonly string[], body?: string) => {
  const withKey = (text: string) => text.replaceAll('KEY', service.key);
  return exchange(
    service.port,
    request(withKey(line), headers.map(withKey), body && withKey(body)),
  );
};
const listPets = (...headers: string[]) => send('GET /v1/pets', headers);

describe('the Authorization header', () => {
  it.each([
    [[VALID]],
    [['authorization: bearer KEY']],
    [['AUTHORIZATION:BEARER    KEY']],
    [['Authorization: \t Bearer KEY \t ']],
  ])('lets in %j, also a new key, beside an access_token in the query', async (headers) => {
    const { key } = await service.keys.issue('new');
    const sent = headers.map((header) => header.replace('KEY', key));
    expect((await send('GET /v1/pets?access_token=x', sent)).status).toBe(200);
  });

  it.each(['Authorization:', 'X-API-Key: KEY', 'Cookie: access_token=KEY'])(
    'is asked for beside %j alone',
    async (header) => {
      expect401(await listPets(header), true);
    },
  );

  it.each<[headers: string[], words?: string]>([
    [['Authorization: Bearer\tKEY']],
    [['Authorization: Bearer']],
    [['Authorization: Bearer KEY KEY']],
    [['Authorization: Bearer KEY\xff']],
    [['Authorization: Bearer animalstore_']],
    [[VALID, VALID]],
    [['Authorization:', VALID]],
    [[VALID, 'Authorization:']],
    [['Authorization: KEY'], 'scheme Bearer is missing'],
    [['Authorization: BearerKEY'], 'scheme Bearer is missing'],
    [['Authorization: Basic dXNlcjpwYXNz'], 'scheme Bearer is missing'],
    [['Authorization: bearer_x'], 'scheme Bearer is missing'],
  ])('is refused as %j', async (headers, words = '') => {
    expect401(await listPets(...headers), false, [words]);
  });

  const JSON_TYPE = ['Content-Type: application/json'];
  const BODY = '{"name":"Rex","categoryId":1,"access_token":"KEY"}';
  it.each<[what: string, line: string, headers?: string[], body?: string]>([
    ['an access_token in the query', 'GET /v1/pets?access_token=KEY'],
    ['an access_token in a JSON body', 'POST /v1/pets', JSON_TYPE, BODY],
    ['a broken JSON body', 'POST /v1/pets', JSON_TYPE, '{"name":'],
    ['a body over the limit', 'POST /v1/pets', JSON_TYPE, 'x'.repeat(20_000)],
    ['a bad limit', 'GET /v1/pets?limit=0'],
    ['an unknown petId', 'GET /v1/pets/404'],
  ])('is judged before %s, which is no credential', async (_what, line, headers = [], body) => {
    expect401(await send(line, headers, body), true);
    for (const credential of [`Bearer ${newApiKey()}`, 'Bearer x', 'Basic x']) {
      const answer = await send(line, [`Authorization: ${credential}`, ...headers], body);
      expect401(answer, false);
    }
    expect(await service.query('select from pets')).toEqual([]);
  });
});

describe('an API key', () => {
  const found = async (id: string) => (await service.keys.list()).find((key) => key.id === id)!;

  const use = (key: string) => listPets(`Authorization: Bearer ${key}`);

  /** Uses the key without a pause until it is refused. @returns when it was last sent with success, and now. */
  async function refusal(key: string): Promise<{ lastUse: number; at: number }> {
    for (let lastUse = NaN, sentAt = Date.now(); ; lastUse = sentAt, sentAt = Date.now()) {
      const answer = await use(key);
      if (answer.status !== 200) {
        expectError(answer, 401, 'invalid_api_key');
        return { lastUse, at: Date.now() };
      }
    }
  }

  it('stops within 5 seconds of being revoked or deleted, and when it expires, not before, however much it is used', async () => {
    const { keys } = service;
    const [revoked, deleted] = await Promise.all([keys.issue('revoked'), keys.issue('deleted')]);
    expect([(await use(revoked.key)).status, (await use(deleted.key)).status]).toEqual([200, 200]);
    await keys.revoke(revoked.id);
    await service.query('delete from api_keys where id = $1', [deleted.id]);
    const since = Date.now();
    const expiring = await keys.issue('expiring', 1_000);
    const expiresAt = (await found(expiring.id)).expiresAt!.getTime();
    const [expired, ...others] = await Promise.all(
      [expiring, revoked, deleted].map(({ key }) => refusal(key)),
    );
    for (const { lastUse } of others) {
      expect(lastUse - since).toBeLessThan(5_000);
    }
    expect(expired!.at).toBeGreaterThanOrEqual(expiresAt);
    expect(expired!.lastUse).toBeLessThanOrEqual(expiresAt);
  });

  it('that is malformed, unknown, revoked or expired gets one and the same response', async () => {
    const revoked = await service.keys.issue('revoked');
    await service.keys.revoke(revoked.id);
    const expired = await service.keys.issue('expired', -1);
    const unknown = newApiKey();
    const mistyped = unknown.slice(0, -1) + (unknown.endsWith('A') ? 'B' : 'A');
    const keys = ['abc', mistyped, unknown, revoked.key, expired.key, `${revoked.key} x`];
    const [first, ...others] = (await Promise.all(keys.map(use))).map((answer) => ({
      ...answer,
      headers: { ...answer.headers, date: '', 'x-request-id': '' },
    }));
    expect401(first!, false);
    expect(others).toEqual(others.map(() => first));
  });

  it('is named in the log by its id if it is expired or revoked, and is not if it is unknown', async () => {
    const revoked = await service.keys.issue('revoked');
    await service.keys.revoke(revoked.id);
    const expired = await service.keys.issue('expired', -1);
    for (const [key, id] of [
      [revoked.key, revoked.id],
      [expired.key, expired.id],
      [newApiKey(), undefined],
    ] as const) {
      await use(key!);
      const line = await until('its line is logged', () =>
        service.log.map((text) => JSON.parse(text)).findLast(({ status }) => status === 401),
      );
      expect(line.key).toBe(id);
      service.log.length = 0;
    }
  });

  it('has its last use noted, also if it is revoked at once, and only its own', async () => {
    const { keys } = service;
    const names = ['used', 'leaked', 'unused'];
    const [used, leaked, unused] = await Promise.all(names.map((name) => keys.issue(name)));
    const lastUse = async ({ id }: { id: string }) => (await found(id)).lastUsedAt?.getTime();
    expect(await lastUse(used!)).toBeUndefined();
    const since = Date.now();
    expect([(await use(used!.key)).status, (await use(leaked!.key)).status]).toEqual([200, 200]);
    await keys.revoke(leaked!.id);
    for (const key of [used!, leaked!]) {
      await until('the use is noted', async () => (await lastUse(key)) !== undefined);
      expect(await lastUse(key)).toBeGreaterThan(since - 1_000);
    }
    expect(await lastUse(unused!)).toBeUndefined();
    // Once a minute: the use of a key is noted again if the last one is older.
    const age = 'update api_keys set last_used_at = now() - $2::interval where id = $1';
    await service.query(age, [leaked!.id, '2 hours']);
    await service.query(age, [used!.id, '61 seconds']);
    expect((await use(used!.key)).status).toBe(200);
    await until('a later use is noted', async () => (await lastUse(used!))! > since - 1_000);
    const before = await lastUse(used!);
    expect([(await use(used!.key)).status, (await use(unused!.key)).status]).toEqual([200, 200]);
    await until('the next is noted', async () => (await lastUse(unused!)) !== undefined);
    expect(await lastUse(used!)).toBe(before);
    expect(await lastUse(leaked!)).toBeLessThan(since - 3_600_000);
  });

  it('is not stored: the table holds neither its text nor its secret', async () => {
    const { key } = await service.keys.issue('secret');
    const rows = await service.query('select api_keys::text as row from api_keys');
    const secret = key.slice('animalstore_'.length);
    const bytes = Buffer.from(secret, 'base64url').subarray(0, 32).toString('hex');
    for (const text of [key, secret, bytes, Buffer.from(key).toString('hex')]) {
      expect(rows.filter(({ row }) => row.includes(text))).toEqual([]);
    }
  });
});

it('verifies new keys after another service of the same Node.js process has stopped', async () => {
  await (await startService({}, service.databaseUrl)).stop();
  const { key } = await service.keys.issue('new');
  await service.api.get('/v1/pets').set('Authorization', `Bearer ${key}`).expect(200);
});
