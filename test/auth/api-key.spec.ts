import { hashApiKey, isApiKey, newApiKey } from '../../src/api-key.js';

const KEY = newApiKey();

describe('an API key', () => {
  it('has a recognisable prefix, 256 random bits and a checksum, all of it a bearer token', () => {
    expect(KEY).toMatch(/^animalstore_[A-Za-z0-9_-]{48}$/);
    expect(isApiKey(KEY)).toBe(true);
    expect(new Set(Array.from({ length: 10_000 }, newApiKey)).size).toBe(10_000);
  });

  it('is not recognised with any one character changed', () => {
    const changed = [...KEY].map((character, i) => {
      return KEY.slice(0, i) + (character === 'A' ? 'B' : 'A') + KEY.slice(i + 1);
    });
    expect(changed.filter(isApiKey)).toEqual([]);
  });

  it('is not recognised if it is cut short, longer, twice, or has another prefix', () => {
    const [prefix, secret] = [KEY.slice(0, 12), KEY.slice(12)];
    const others = ['', prefix, KEY.slice(0, -1), `${KEY}A`, `${KEY}=`, `${KEY}\0`, KEY + KEY];
    expect([...others, secret, prefix.toUpperCase() + secret].filter(isApiKey)).toEqual([]);
  });

  it('is hashed with SHA-256', () =>
    expect(hashApiKey('abc')).toMatch(/^ba7816bf8f01cfea414140de5dae2223b00361a396177a9c/));
});
