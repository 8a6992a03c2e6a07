import { parseQuery, pathAndQuery } from '../../src/http/request-target.js';

/** Bytes at which the ranges of UTF-8 begin and end (RFC 3629, section 4), and one of ASCII. */
const BYTES = [
  0x00, 0x25, 0x41, 0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc0, 0xc1, 0xc2, 0xdf, 0xe0, 0xe1,
  0xec, 0xed, 0xee, 0xef, 0xf0, 0xf1, 0xf3, 0xf4, 0xf5, 0xff,
];
const TAILS = [0x41, 0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc0];

/** Every sequence of up to three of these bytes, and those of four that a byte may begin. */
function* sequences(): Generator<number[]> {
  for (const first of BYTES) {
    yield [first];
    for (const second of BYTES) {
      yield [first, second];
      for (const third of BYTES) {
        yield [first, second, third];
      }
    }
    for (const second of TAILS) {
      for (const third of TAILS) {
        for (const fourth of TAILS) {
          yield [first, second, third, fourth];
        }
      }
    }
  }
}

const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** What the bytes are in UTF-8, if they are UTF-8. */
function decoded(bytes: number[]): string | undefined {
  try {
    return decoder.decode(Uint8Array.from(bytes));
  } catch {
    return undefined;
  }
}

const hex = (byte: number) => byte.toString(16).padStart(2, '0');

it('percent-encodings mean what they encode if that is UTF-8, and else themselves, in paths and queries', () => {
  const wrong: unknown[] = [];
  for (const bytes of sequences()) {
    const encoded = bytes.map((byte) => `%${hex(byte)}`).join('');
    const text = decoded(bytes);
    try {
      const path = decodeURIComponent(pathAndQuery(`/${encoded}`).slice(1));
      const { name } = parseQuery(`name=${encoded}`);
      // Of bytes that are not all UTF-8, those that are may be decoded.
      const isRight = text === undefined ? path.includes('%') && path === name : path === text;
      if (!isRight || name !== path) {
        wrong.push([encoded, path, name]);
      }
    } catch (error) {
      wrong.push([encoded, error]);
    }
  }
  expect(wrong.slice(0, 5)).toEqual([]);
});
