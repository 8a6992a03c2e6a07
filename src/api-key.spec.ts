import { hashApiKey, isApiKey, newApiKey } from './api-key.js';

const KEY = newApiKey();

/** Every key that differs from {@link KEY} in one character. */
const changed = [...KEY].map((character, i) => {
  const other = character === 'A' ? 'B' : 'A';
  return KEY.slice(0, i) + other + KEY.slice(i + 1);
});

describe('an API key', () => {
  it('has a recognisable prefix, 256 random bits and a checksum, all of it a bearer token', () => {
    expect(KEY).toMatch(/^animalstore_[A-Za-z0-9_-]{48}$/);
    expect(isApiKey(KEY)).toBe(true);
  });

  it('is never issued twice', () => {
    expect(new Set(Array.from({ length: 10_000 }, newApiKey)).size).toBe(10_000);
  });

  it('is not recognised with any one character changed', () => {
    expect(changed.filter(isApiKey)).toEqual([]);
  });

  it.each([
    ['empty', ''],
    ['the prefix alone', 'animalstore_'],
    ['cut short', KEY.slice(0, -1)],
    ['longer', `${KEY}A`],
    ['padded', `${KEY}=`],
    ['without its prefix', KEY.slice('animalstore_'.length)],
    ['under a prefix in upper case', KEY.replace('animalstore_', 'ANIMALSTORE_')],
    ['written twice', KEY + KEY],
  ])('is not recognised when %s', (_title, text) => {
    expect(isApiKey(text)).toBe(false);
  });

  it('is hashed with SHA-256', () => {
    expect(hashApiKey('abc')).toBe(
      'ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad',
    );
  });
});
