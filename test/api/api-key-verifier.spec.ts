import { type Clock, install } from '@sinonjs/fake-timers';
import { pino } from 'pino';
import type { Pool } from 'pg';
import { hashApiKey, newApiKey } from '../../src/api-key.js';
import { ApiKeyVerifier, VERIFICATION } from '../../src/auth/api-key-verifier.js';

/** A database that finds, of the hashes it is asked for, those that `isValid`. Their keys expire in `expiresIn` ms. */
function verifierOn(isValid: (hash: string) => boolean, expiresIn: number | null = null) {
  let statements = 0;
  const sent: unknown[] = [];
  const query = async (_statement: unknown, [hashes]: [string[]]) => {
    statements += 1;
    sent.push(...hashes);
    return { rows: hashes.filter(isValid).map((hash, id) => [`${id}`, hash, expiresIn]) };
  };
  const pool = { query } as unknown as Pool;
  const verifier = new ApiKeyVerifier(pool, pino({ level: 'silent' }));
  return {
    verifier,
    /** Every value that the database was sent. */
    sent,
    statements: () => statements,
    remembered: () => verifier['remembered'].size,
  };
}

/** When what is under way has come to a halt. */
const settled = () => new Promise((resolve) => setImmediate(() => setImmediate(resolve)));

describe('ApiKeyVerifier', () => {
  let clock: Clock | undefined;
  afterEach(() => clock?.uninstall());
  const stopClock = () => {
    clock = install({ now: Date.now(), toFake: ['setTimeout', 'performance', 'Date'] });
    return clock;
  };

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

  it('asks once for all unknown keys of ten milliseconds, and for valid ones among them', async () => {
    const clock = stopClock();
    const known = newApiKey();
    const { verifier, statements } = verifierOn((hash) => hash === hashApiKey(known));
    await verifier.verify(newApiKey());
    expect(statements()).toBe(1);

    const strangers = Array.from({ length: 100 }, () => verifier.verify(newApiKey()));
    await settled();
    const later = [known, ...Array.from({ length: 900 }, newApiKey)].map((key) =>
      verifier.verify(key),
    );
    await clock.tickAsync(VERIFICATION.pauseAfterUnknown - 1);
    await settled();
    expect(statements()).toBe(1);
    await clock.tickAsync(1);
    await Promise.all(strangers);
    expect(statements()).toBe(2);

    await clock.tickAsync(VERIFICATION.pauseAfterUnknown);
    const [caller, ...unknown] = await Promise.all(later);
    expect(caller).toEqual({ keyId: expect.any(String) });
    expect(unknown.filter(Boolean)).toEqual([]);
    expect(statements()).toBe(3);
  });

  it('keeps valid keys waiting for nothing, one after the other and at once', async () => {
    stopClock();
    const { verifier, statements } = verifierOn(() => true);
    for (let i = 0; i < 10; i += 1) {
      const key = newApiKey();
      await Promise.all([verifier.verify(key), verifier.verify(key)]);
    }
    expect(statements()).toBe(10);
  });

  it('shows the database nothing of a key but its SHA-256', async () => {
    const { verifier, sent } = verifierOn(() => true);
    const keys = Array.from({ length: 100 }, newApiKey);
    await Promise.all(keys.map((key) => verifier.verify(key)));
    expect(sent.toSorted()).toEqual(keys.map(hashApiKey).toSorted());
  });

  it('recalls a key that it found valid', async () => {
    const { verifier } = verifierOn(() => true);
    const key = newApiKey();
    expect(verifier.recall(key)).toBeUndefined();
    expect(verifier.recall(key)).toBeUndefined();
    const caller = await verifier.verify(key);
    expect(verifier.recall(key)).toBe(caller);
  });

  it.each([
    ['4 seconds', null, 4_000],
    ['as long as it is valid', 1_500.25, 1_500],
  ])('recalls a key for %s, although the clock is set back', async (_what, expiresIn, recalled) => {
    const clock = stopClock();
    const { verifier } = verifierOn(() => true, expiresIn);
    const key = newApiKey();
    const caller = await verifier.verify(key);
    clock.setSystemTime(Date.now() - 3_600_000);
    clock.tick(recalled - 1);
    expect(verifier.recall(key)).toBe(caller);
    clock.tick(2);
    expect(verifier.recall(key)).toBeUndefined();
  });
});
