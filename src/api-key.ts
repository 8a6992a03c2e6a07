import { hash, randomBytes } from 'node:crypto';
import { decodeChecked, encodeChecked } from './checked-text.js';

/** Lets people and scanners for leaked secrets recognise a key of this service. */
export const KEY_PREFIX = 'animalstore_';

const SECRET_BYTES = 32;

/** @returns a new key: the prefix, then 256 random bits and a checksum in base64url, 60 characters in all. */
export const newApiKey = () => KEY_PREFIX + encodeChecked(KEY_PREFIX, randomBytes(SECRET_BYTES));

/** Whether `text` has the form of a key. A key with a wrong checksum was never issued. */
export function isApiKey(text: string): boolean {
  return (
    text.startsWith(KEY_PREFIX) &&
    decodeChecked(KEY_PREFIX, text.slice(KEY_PREFIX.length))?.length === SECRET_BYTES
  );
}

/** @returns the SHA-256 of the key's text, in hexadecimal. The service stores only this. */
export const hashApiKey = (key: string): string => hash('sha256', key, 'hex');
