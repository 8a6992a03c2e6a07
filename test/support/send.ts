import { request } from 'node:http';
import type { Answer } from './answers.js';
import type { TestService } from './service.js';

/** What {@link send} sends. A body with `Transfer-Encoding: chunked` goes in two chunks, any other with its length. */
export interface Message {
  method?: string;
  path?: string;
  headers?: Record<string, string | string[]>;
  body?: string | Uint8Array;
}

/** Sends a message with the service's key and exactly these headers, which supertest would add to. */
export function send(service: TestService, message: Message): Promise<Answer> {
  const { method = 'POST', path = '/v1/pets', headers = {}, body = '' } = message;
  const bytes = Buffer.from(body);
  const isChunked = headers['Transfer-Encoding'] === 'chunked';
  return new Promise((resolve, reject) => {
    const outgoing = request(
      service.origin + path,
      {
        method,
        agent: false,
        headers: {
          Authorization: `Bearer ${service.key}`,
          ...(isChunked ? {} : { 'Content-Length': bytes.length }),
          ...headers,
        },
      },
      (incoming) => {
        const chunks: Buffer[] = [];
        incoming.on('data', (chunk: Buffer) => chunks.push(chunk));
        incoming.once('error', reject);
        incoming.once('end', () =>
          resolve({
            status: incoming.statusCode!,
            headers: incoming.headers,
            text: Buffer.concat(chunks).toString(),
          }),
        );
      },
    );
    outgoing.once('error', reject);
    if (isChunked) {
      outgoing.write(bytes.subarray(0, 10));
      outgoing.end(bytes.subarray(10));
    } else {
      outgoing.end(bytes);
    }
  });
}
