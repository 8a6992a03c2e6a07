import { crc32 } from 'node:zlib';

/** Writes bytes as URL-safe text, with a checksum for typing errors: no signature. Another `purpose` cannot decode it. */
export function encodeChecked(purpose: string, bytes: Buffer): string {
  const checksum = Buffer.alloc(4);
  checksum.writeUInt32BE(crc32(bytes, crc32(purpose)));
  return Buffer.concat([bytes, checksum]).toString('base64url');
}

/** @returns the bytes of a text that {@link encodeChecked} wrote for `purpose`, or `undefined`. */
export function decodeChecked(purpose: string, text: string): Buffer | undefined {
  const bytes = Buffer.from(text, 'base64url').subarray(0, -4);
  return bytes.length > 0 && encodeChecked(purpose, bytes) === text ? bytes : undefined;
}
