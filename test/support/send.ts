import { type Agent, request } from 'node:http';
import { text } from 'node:stream/consumers';
import type { Answer } from './answers.js';
import type { TestService } from './service.js';

/** What {@link transmit} sends. A body with `Transfer-Encoding: chunked` goes in two chunks, any other with its length. */
export interface Message {
  method?: string;
  path?: string;
  headers?: Record<string, string | string[]>;
  body?: string | Uint8Array;
  agent?: Agent | false;
  /** Milliseconds without a byte after which it is given up. */
  timeout?: number;
}

/** Sends a message with exactly these headers, which supertest would add to. */
export function transmit(origin: string, message: Message): Promise<Answer> {
  const { path = '/', headers = {}, body = '', ...options } = message;
  const bytes = Buffer.from(body);
  const isChunked = headers['Transfer-Encoding'] === 'chunked';
  const all = { ...(isChunked ? {} : { 'Content-Length': bytes.length }), ...headers };
  return new Promise((resolve, reject) => {
    const outgoing = request(origin + path, { ...options, headers: all }, (incoming) =>
      text(incoming).then(
        (body) => resolve({ status: incoming.statusCode!, headers: incoming.headers, text: body }),
        reject,
      ),
    );
    outgoing.on('error', reject).on('timeout', () => outgoing.destroy(new Error('no response')));
    if (isChunked) {
      outgoing.write(bytes.subarray(0, 10));
    }
    outgoing.end(isChunked ? bytes.subarray(10) : bytes);
  });
}

/** Sends a message with the service's key. */
export function send(service: TestService, message: Message): Promise<Answer> {
  const headers = { Authorization: `Bearer ${service.key}`, ...message.headers };
  return transmit(service.origin, {
    method: 'POST',
    path: '/v1/pets',
    agent: false,
    ...message,
    headers,
  });
}
