import { newApiKey } from '../../src/api-key.js';
import { expectError } from '../support/answers.js';
import { exchange, RawConnection, request } from '../support/raw-http.js';
import { until } from '../support/until.js';
import { serviceOfTests } from '../support/service.js';

describe('an API key', () => {
  const service = serviceOfTests();

  const found = async (id: string) => (await service.keys.list()).find((key) => key.id === id)!;

  const use = (key: string) =>
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

  it('stops within 5 seconds of being revoked or deleted, however much it is used', async () => {
    const { keys } = service;
    const [revoked, deleted] = await Promise.all([keys.issue('revoked'), keys.issue('deleted')]);
    expect([(await use(revoked.key)).status, (await use(deleted.key)).status]).toEqual([200, 200]);
    expect(await keys.revoke(revoked.id)).toBe(true);
    await service.query('delete from api_keys where id = $1', [deleted.id]);
    const since = Date.now();
    for (const { at } of await Promise.all([refusal(revoked.key), refusal(deleted.key)])) {
      expect(at - since).toBeLessThan(5_000);
    }
    expect(await keys.revoke(revoked.id)).toBe(false);
  });

  it('stops when it expires, not before, however much it is used', async () => {
    const { id, key } = await service.keys.issue('expiring', 1_500);
    const expiresAt = (await found(id)).expiresAt!.getTime();
    const { at, lastUse } = await refusal(key);
    expect(at).toBeGreaterThanOrEqual(expiresAt);
    expect(lastUse).toBeLessThanOrEqual(expiresAt);
  });

  it('that is malformed, unknown, revoked or expired gets one and the same answer, byte by byte', async () => {
    const revoked = await service.keys.issue('revoked');
    await service.keys.revoke(revoked.id);
    const expired = await service.keys.issue('expired', -1);
    const unknown = newApiKey();
    const mistyped = unknown.slice(0, -1) + (unknown.endsWith('A') ? 'B' : 'A');
    const [first, ...others] = await Promise.all(
      ['abc', mistyped, unknown, revoked.key, expired.key, `${revoked.key} x`].map(async (key) => {
        const connection = await RawConnection.open(service.port);
        const headers = [`Authorization: Bearer ${key}`, 'Connection: close'];
        connection.send(request('GET /v1/pets', headers));
        return (await connection.rest())
          .replace(/^Date: .{29}\r\n/m, '')
          .replace(/^X-Request-Id: [0-9a-f-]{36}\r\n/m, '');
      }),
    );
    expect(first).toMatch(/^HTTP\/1\.1 401 Unauthorized\r\n(?!.*^(Date|X-Request-Id):).*\}$/ms);
    expect(others).toEqual(others.map(() => first));
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
