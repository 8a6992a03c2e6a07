import { newApiKey } from '../../src/api-key.js';
import { ApiKeys } from '../../src/auth/api-keys.js';
import { expectError } from '../support/answers.js';
import { type Answer, exchange, RawConnection, request } from '../support/raw-http.js';
import { until } from '../support/until.js';
import { serviceOfTests } from '../support/service.js';

describe('an API key', () => {
  const service = serviceOfTests();
  let keys: ApiKeys;
  beforeAll(async () => {
    keys = service.keys;
  });

  const use = (key: string): Promise<Answer> =>
    exchange(service.port, request('GET /v1/pets', [`Authorization: Bearer ${key}`]));

  /**
   * Uses the key without a pause until it is refused.
   *
   * @returns when that was, and when the last request before it was sent: milliseconds since the epoch.
   */
  async function refusal(key: string): Promise<{ at: number; lastUse: number | undefined }> {
    for (let lastUse: number | undefined; ;) {
      const sentAt = Date.now();
      const answer = await use(key);
      if (answer.status !== 200) {
        expectError(answer, 401, 'invalid_api_key');
        return { at: Date.now(), lastUse };
      }
      lastUse = sentAt;
    }
  }

  it('works as soon as it is issued', async () => {
    const { key } = await keys.issue('new');
    expect((await use(key)).status).toBe(200);
  });

  it('works as soon as it is admitted', async () => {
    const key = newApiKey();
    expectError(await use(key), 401, 'invalid_api_key');
    await keys.admit(key, 'admitted');
    await keys.admit(key, 'admitted again');
    expect((await use(key)).status).toBe(200);
  });

  it('stops within 5 seconds of being revoked or deleted, however much it is used', async () => {
    const [revoked, deleted] = await Promise.all([keys.issue('revoked'), keys.issue('deleted')]);
    for (const { key } of [revoked, deleted]) {
      expect((await use(key)).status).toBe(200);
    }
    expect(await keys.revoke(revoked.id)).toBe(true);
    await service.query('delete from api_keys where id = $1', [deleted.id]);
    const since = Date.now();
    for (const { at } of await Promise.all([refusal(revoked.key), refusal(deleted.key)])) {
      expect(at - since).toBeLessThan(5_000);
    }
    expect(await keys.revoke(revoked.id)).toBe(false);
  });

  it('stops when it expires, not before, however much it is used', async () => {
    const { id, key } = await keys.issue('expiring', 1_500);
    const [{ expires_at: expiresAt }] = await service.query(
      'select expires_at from api_keys where id = $1',
      [id],
    );
    const { at, lastUse } = await refusal(key);
    expect(at).toBeGreaterThanOrEqual(expiresAt.getTime());
    expect(lastUse).toBeLessThanOrEqual(expiresAt.getTime());
  });

  it('that is malformed, unknown, revoked or expired gets one and the same answer, byte by byte', async () => {
    const revoked = await keys.issue('revoked');
    await keys.revoke(revoked.id);
    const expired = await keys.issue('expired', -1);
    const unknown = newApiKey();
    const mistyped = unknown.slice(0, -1) + (unknown.endsWith('A') ? 'B' : 'A');
    const credentials = ['abc', mistyped, unknown, revoked.key, expired.key].map(
      (key) => `Bearer ${key}`,
    );
    const answers = await Promise.all(
      [...credentials, `Bearer ${revoked.key} ${revoked.key}`].map(async (credential) => {
        const connection = await RawConnection.open(service.port);
        const headers = [`Authorization: ${credential}`, 'Connection: close'];
        connection.send(request('GET /v1/pets', headers));
        return (await connection.rest())
          .replace(/^Date: .{29}\r\n/m, '')
          .replace(/^X-Request-Id: [0-9a-f-]{36}\r\n/m, '');
      }),
    );
    expect(answers[0]).toMatch(
      /^HTTP\/1\.1 401 Unauthorized\r\n(?!.*^(Date|X-Request-Id):).*\}$/ms,
    );
    expect(answers.slice(1)).toEqual(answers.slice(1).map(() => answers[0]));
  });

  it('has its last use noted, and only its own', async () => {
    const used = await keys.issue('used');
    const unused = await keys.issue('unused');
    const issuedAt = Date.now();
    const lastUse = async (id: string) =>
      (await keys.list()).find((key) => key.id === id)!.lastUsedAt;
    expect(await lastUse(used.id)).toBeNull();
    expect((await use(used.key)).status).toBe(200);
    await until('the use is noted', async () => (await lastUse(used.id)) !== null);
    expect((await lastUse(used.id))!.getTime()).toBeGreaterThan(issuedAt - 1_000);
    expect(await lastUse(unused.id)).toBeNull();
  });

  it('has its last use noted although it is revoked at once', async () => {
    const { id, key } = await keys.issue('leaked');
    expect((await use(key)).status).toBe(200);
    await keys.revoke(id);
    await until('the use is noted', async () =>
      (await keys.list()).some((one) => one.id === id && one.lastUsedAt !== null),
    );
  });

  it('is not stored: the table holds neither its text nor its secret', async () => {
    const { key } = await keys.issue('secret');
    const rows: { row: string }[] = await service.query(
      'select api_keys::text as row from api_keys',
    );
    const secret = key.slice('animalstore_'.length);
    const bytes = Buffer.from(secret, 'base64url').subarray(0, 32).toString('hex');
    for (const text of [key, secret, bytes, Buffer.from(key).toString('hex')]) {
      expect(rows.filter(({ row }) => row.includes(text))).toEqual([]);
    }
  });
});
