import { hash } from 'node:crypto';
import { pipeline, Readable } from 'node:stream';
import { setImmediate as turn } from 'node:timers/promises';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import type { Response } from 'express';

/** Content that is the same for every request: sent from memory, of which there is one copy however many clients read. */
export class StaticContent {
  private readonly bytes: Buffer;
  /** Of its bytes. */
  readonly hash: string;
  private readonly headers;
  private gzipped?: Promise<Buffer>;

  /** @param type the `Content-Type`, or the extension of a file of that type. */
  constructor(content: Buffer | string, type: string, headers: Record<string, string> = {}) {
    this.bytes = Buffer.from(content);
    this.hash = hash('sha1', this.bytes, 'base64url');
    this.headers = {
      ...headers,
      'Content-Type': type,
      // Weak, because it is that of the gzipped content too (RFC 9110, section 8.8.3.3).
      ETag: `W/"${this.hash}"`,
    };
  }

  /** Sends it, to be kept if the URL has the parameter `v` with its {@link hash}, gzipped if the client accepts that; or 304 if the client has it. Does not support ranges. */
  async sendTo(response: Response): Promise<void> {
    response.set(this.headers).vary('Accept-Encoding');
    const { req } = response;
    if (req.query['v'] === this.hash) {
      response.set('Cache-Control', 'public, max-age=31536000, immutable');
    }
    let { bytes } = this;
    if (req.acceptsEncodings('gzip', 'identity') === 'gzip') {
      this.gzipped ??= promisify(gzip)(this.bytes, { level: 9 });
      response.set('Content-Encoding', 'gzip');
      bytes = await this.gzipped;
    }
    if (req.method === 'HEAD' || req.fresh || bytes.length <= STEP) {
      response.send(bytes);
    } else {
      response.set('Content-Length', String(bytes.length));
      // Others come between, and what a client does not read stays here, where there is one copy for all.
      pipeline(Readable.from(stepsOf(bytes)), response, () => {});
    }
  }
}

/** Bytes of a large content that are sent at a time. */
const STEP = 64 * 1024;

async function* stepsOf(bytes: Buffer): AsyncGenerator<Buffer> {
  for (let start = 0; start < bytes.length; start += STEP) {
    yield bytes.subarray(start, start + STEP);
    // The system takes several at once.
    await turn();
  }
}
