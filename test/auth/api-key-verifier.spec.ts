import { pino } from 'pino';
import type { DataSource } from 'typeorm';
import { newApiKey } from '../../src/auth/api-key.js';
import { ApiKeyVerifier, VERIFICATION } from '../../src/auth/api-key-verifier.js';

/** A database that finds, of the hashes it is asked for, those that `isValid`. */
function verifierOn(isValid: (hash: string) => boolean) {
  let statements = 0;
  const query = async ({ values: [hashes] }: { values: [string[]] }) => {
    statements += 1;
    return {
      rows: hashes.filter(isValid).map((hash, id) => ({ id: `${id}`, hash, expires_at: null })),
    };
  };
  const dataSource = { driver: { master: { query } } } as unknown as DataSource;
  const verifier = new ApiKeyVerifier(dataSource, pino({ level: 'silent' }));
  return { verifier, statements: () => statements, remembered: () => verifier['remembered'].size };
}

describe('ApiKeyVerifier', () => {
  it('refuses a key with a wrong checksum without asking the database', async () => {
    const { verifier, statements } = verifierOn(() => true);
    const [first, ...rest] = newApiKey().split('').toReversed();
    const mistyped = [first === 'A' ? 'B' : 'A', ...rest].toReversed().join('');
    expect(await verifier.verify(mistyped)).toBeUndefined();
    expect(statements()).toBe(0);
  });

  it('remembers nothing of unknown keys', async () => {
    const { verifier, remembered } = verifierOn(() => false);
    const strangers = Array.from({ length: 1_500 }, newApiKey);
    const callers = await Promise.all(strangers.map((key) => verifier.verify(key)));
    strangers.forEach((key) => verifier.recall(key));
    expect(callers.every((caller) => caller === undefined)).toBe(true);
    expect(remembered()).toBe(0);
  });

  it('remembers no more valid keys than its limit', async () => {
    const { verifier, remembered } = verifierOn(() => true);
    for (let i = 0; i <= VERIFICATION.keys / 1_000; i += 1) {
      await Promise.all(Array.from({ length: 1_000 }, () => verifier.verify(newApiKey())));
    }
    expect(remembered()).toBe(VERIFICATION.keys);
  });

  it('asks once for all keys that wait', async () => {
    const { verifier, statements } = verifierOn(() => true);
    await Promise.all(Array.from({ length: 100 }, () => verifier.verify(newApiKey())));
    expect(statements()).toBe(1);
  });

  it('recalls a key that it found valid', async () => {
    const { verifier } = verifierOn(() => true);
    const key = newApiKey();
    expect(verifier.recall(key)).toBeUndefined();
    expect(verifier.recall(key)).toBeUndefined();
    const caller = await verifier.verify(key);
    expect(verifier.recall(key)).toBe(caller);
  });
});
