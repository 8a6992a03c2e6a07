import { type Clock, install } from '@sinonjs/fake-timers';
import { hashApiKey, isApiKey, newApiKey } from '../../src/api-key.js';
import { ApiKeyVerifier } from '../../src/auth/api-key-verifier.js';
import { DATABASE_LIMITS } from '../../src/database/limits.js';
import { Gate } from '../../src/gate/gate.js';
import { HttpLimits } from '../../src/http/limits.js';
import { fakeSessions, LATER, poolWith } from '../support/sessions.js';
import { SILENT } from '../support/silent.js';

const newKeys = (length: number) => Array.from({ length }, newApiKey);

describe('an API key', () => {
  const KEY = newApiKey();

  it('has a recognisable prefix and 256 random bits, all of it a bearer token, and is hashed with SHA-256', () => {
    expect(KEY).toMatch(/^animalstore_[A-Za-z0-9_-]{48}$/);
    expect(new Set(newKeys(10_000)).size).toBe(10_000);
    expect(hashApiKey('abc')).toMatch(/^ba7816bf8f01cfea414140de5dae2223b00361a396177a9c/);
  });

  it('is recognised by its checksum: not with any one character changed, cut short, longer, twice, or with another prefix', () => {
    expect(isApiKey(KEY)).toBe(true);
    const others = [...KEY].map((character, i) => {
      return KEY.slice(0, i) + (character === 'A' ? 'B' : 'A') + KEY.slice(i + 1);
    });
    others.push('', KEY.slice(0, 12), KEY.slice(0, -1), KEY.slice(12), KEY + KEY);
    others.push(`${KEY}A`, `${KEY}=`, `${KEY}\0`, KEY.replace('animalstore', 'ANIMALSTORE'));
    expect(others.filter(isApiKey)).toEqual([]);
  });
});

/** A database that finds, of the hashes it is asked for, those that `isKnown`. Their keys expire in `expiresIn` ms. */
function verifierOn(
  isKnown: (hash: string) => boolean,
  expiresIn: number | null = null,
  isValid = true,
) {
  /** What the database was sent, by statement. */
  const sent: string[][] = [];
  const query = async (_statement: unknown, [hashes]: [string[]]) => {
    sent.push(hashes);
    return { rows: hashes.filter(isKnown).map((hash, id) => [`${id}`, hash, expiresIn, isValid]) };
  };
  const pool = poolWith(fakeSessions(query));
  const verifier = new ApiKeyVerifier(pool, SILENT, new Gate(new HttpLimits()));
  const verifyAll = (keys: string[]) =>
    Promise.all(keys.map(async (key) => (await verifier.verify(key, LATER))?.caller));
  return { verifier, verifyAll, sent };
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

  it('does not ask for keys with a wrong checksum, keeps valid ones waiting for nothing, asks once for all unknown ones of ten milliseconds, and for valid ones among them', async () => {
    const { tickAsync } = stopClock();
    const known = newApiKey();
    const { verifyAll, sent } = verifierOn((hash) => hash === hashApiKey(known));
    const mistyped = known.replace(/.$/, (end) => (end === 'A' ? 'B' : 'A'));
    expect(await verifyAll([mistyped, known])).toEqual([undefined, { keyId: '0' }]);
    // The database is shown nothing else of a key.
    expect(sent).toEqual([[hashApiKey(known)]]);
    await verifyAll([known]);
    await verifyAll(newKeys(1));
    expect(sent).toHaveLength(3);

    const strangers = verifyAll(newKeys(100));
    await settled();
    const later = verifyAll([known, ...newKeys(1_500)]);
    await tickAsync(9);
    await settled();
    expect(sent).toHaveLength(3);
    await tickAsync(1);
    await strangers;
    const [caller, ...unknown] = await later;
    expect(caller).toEqual({ keyId: expect.any(String) });
    expect(unknown.filter(Boolean)).toEqual([]);
    expect(sent).toHaveLength(4);

    // That a valid one was among them makes the next ones wait no less.
    const next = verifyAll(newKeys(1));
    await tickAsync(9);
    await settled();
    expect(sent).toHaveLength(4);
    await tickAsync(1);
    await next;
    expect(sent).toHaveLength(5);
  });

  it.each([
    ['4 seconds', null, 4_000],
    ['as long as it is valid', 1_500.25, 1_500],
  ])('recalls a key for %s, although the clock is set back', async (_what, expiresIn, recalled) => {
    const stopped = stopClock();
    // The database takes a second of that.
    const { verifier } = verifierOn(() => stopped.tick(1_000) > 0, expiresIn);
    const key = newApiKey();
    expect([verifier.recall(hashApiKey(key)), verifier.recall(hashApiKey(key))]).toEqual([
      undefined,
      undefined,
    ]);
    const { caller } = (await verifier.verify(key, LATER))!;
    stopped.setSystemTime(Date.now() - 3_600_000);
    stopped.tick(recalled - 1_001);
    expect(verifier.recall(hashApiKey(key))).toBe(caller);
    expect(caller).toBeDefined();
    stopped.tick(2);
    expect(verifier.recall(hashApiKey(key))).toBeUndefined();
  });

  it('verifies the keys in use every two seconds and notes their use, forgets others, remembers no unknown one, and does so when it stops', async () => {
    clock = install({ toFake: ['setInterval', 'clearInterval'] });
    const [used, unused, unknown] = newKeys(3) as [string, string, string];
    const { verifier, verifyAll, sent } = verifierOn((hash) => hash !== hashApiKey(unknown));
    const round = [[hashApiKey(used)], ['0']];
    await verifyAll([used, unused, unknown]);
    verifier.onModuleInit();
    for (let i = 0; i < 2; i += 1) {
      clock.tick(2_000);
      await settled();
      [used, unknown].forEach((key) => verifier.recall(hashApiKey(key)));
    }
    const first = [[used, unused].map(hashApiKey), ['0', '1']];
    expect(sent.slice(1)).toEqual([...first, ...round]);
    sent.length = 0;
    await verifier.onModuleDestroy();
    expect(sent).toEqual(round);
    clock.tick(2_000);
    expect(sent).toHaveLength(2);
  });

  it('looks a key up although the lookup of another one hangs, and two at most', async () => {
    const { tickAsync } = stopClock();
    const [first, second, ...others] = newKeys(4) as [string, string, ...string[]];
    const hanging = [first, ...others].map(hashApiKey);
    const query = jest.fn(async (_statement: unknown, [hashes]: [string[]]) => {
      const isHanging = hashes.some((hash) => hanging.includes(hash));
      return isHanging ? new Promise(() => {}) : { rows: [['7', hashes[0], null, true]] };
    });
    const pool = poolWith(fakeSessions(query));
    const verifier = new ApiKeyVerifier(pool, SILENT, new Gate(new HttpLimits()));
    const verify = async (key: string) => {
      const found = verifier.verify(key, LATER);
      await tickAsync(DATABASE_LIMITS.patience + 1);
      return found;
    };
    void verify(first);
    await settled();
    expect((await verify(second))?.caller).toEqual({ keyId: '7' });
    for (const key of others) {
      void verify(key);
      await tickAsync(3 * DATABASE_LIMITS.patience);
      await settled();
    }
    // Other operations have the other sessions.
    expect(query).toHaveBeenCalledTimes(3);
  });

  it('notes no use of a key that is revoked or expired', async () => {
    const { verifier, verifyAll, sent } = verifierOn(() => true, null, false);
    expect(await verifyAll(newKeys(1))).toEqual([{ keyId: '0' }]);
    await verifier.onModuleDestroy();
    expect(sent).toHaveLength(1);
  });

  it('warns if keys cannot be verified again, and stores their last use in the next round, also of a key that nobody uses any more', async () => {
    clock = install({ toFake: ['setInterval', 'clearInterval'] });
    const key = newApiKey();
    let isAway = false;
    const { verifier, verifyAll, sent } = verifierOn(() => {
      if (isAway) {
        throw new Error('it is away');
      }
      return true;
    });
    await verifyAll([key]);
    verifier.onModuleInit();
    const warn = jest.spyOn(SILENT, 'warn');
    verifier.recall(hashApiKey(key));
    for (isAway of [true, false]) {
      sent.length = 0;
      clock.tick(2_000);
      await settled();
    }
    expect(warn.mock.calls).toEqual([[{ reason: 'it is away' }, expect.any(String)]]);
    expect(sent).toEqual([[], ['0']]);
    warn.mockRestore();
    await verifier.onModuleDestroy();
  });

  it('forgets a key that nobody uses any more, also while no last use can be stored', async () => {
    clock = install({ toFake: ['setInterval', 'clearInterval'] });
    const key = newApiKey();
    let isReadOnly = true;
    const { verifier, verifyAll, sent } = verifierOn((sentOne) => {
      if (sentOne === '0' && isReadOnly) {
        throw new Error('it is read-only');
      }
      return true;
    });
    await verifyAll([key]);
    verifier.onModuleInit();
    const verified = [];
    for (isReadOnly of [true, true, false, false]) {
      sent.length = 0;
      clock.tick(2_000);
      await settled();
      verified.push([...sent]);
    }
    expect(verified).toEqual([[[hashApiKey(key)], ['0']], [[], ['0']], [[], ['0']], []]);
    expect(verifier.recall(hashApiKey(key))).toBeUndefined();
    await verifier.onModuleDestroy();
  });
});
