import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

export interface Received {
  method: string;
  /** With the query. */
  path: string;
  headers: IncomingMessage['headers'];
  body: string;
}

export type Respond = (response: ServerResponse, request: Received) => unknown;

/** An HTTP server that is not the service: it responds as it is told, and knows what it received. */
export class OtherServer {
  readonly received: Received[] = [];
  respond: Respond = () => {};

  private constructor(private readonly server: Server) {}

  static async start(): Promise<OtherServer> {
    const server = createServer(async (request, response) => {
      const chunks: Buffer[] = [];
      for await (const chunk of request) {
        chunks.push(chunk);
      }
      const { method, url, headers } = request;
      const body = Buffer.concat(chunks).toString();
      const received = { method: method!, path: url!, headers, body };
      other.received.push(received);
      other.respond(response, received);
    });
    const other = new OtherServer(server);
    await once(server.listen(0, '127.0.0.1'), 'listening');
    return other;
  }

  get port(): number {
    return (this.server.address() as AddressInfo).port;
  }

  get base(): string {
    return `http://127.0.0.1:${this.port}/v1`;
  }

  async stop(): Promise<void> {
    this.server.closeAllConnections();
    await once(this.server.close(), 'close');
  }
}

export const json = (
  response: ServerResponse,
  status: number,
  body: unknown,
  headers: Record<string, string> = {},
) =>
  response
    .writeHead(status, { 'Content-Type': 'application/json; charset=utf-8', ...headers })
    .end(JSON.stringify(body));

export const error = (
  response: ServerResponse,
  status: number,
  code: string,
  headers: Record<string, string> = {},
) => json(response, status, { code, message: `The message of ${code}.`, status }, headers);

interface Stored {
  id: number;
  name: string;
  categoryId: number;
  status: string;
}

/**
 * A store in memory, with the parts of the interface that clients rely on: Idempotency-Keys, pages of `limit` pets whose
 * cursors are ids, and a rate limit, which resets a second after the first 429.
 */
export class OtherStore {
  readonly pets: Stored[] = [];
  /** How many requests were refused before each reset. */
  readonly refused: number[] = [];
  private readonly created = new Map<string, Stored>();
  private used = 0;
  private resetAt = Infinity;

  /** @param quota requests until the first 429. */
  constructor(private readonly quota = Infinity) {}

  readonly respond: Respond = (response, request) => {
    if (Date.now() >= this.resetAt) {
      this.used = 0;
      this.resetAt = Infinity;
    }
    this.used += 1;
    const rest = Math.max(0, this.quota - this.used);
    const limit: Record<string, string> =
      this.quota < Infinity ? { RateLimit: `"default";r=${rest};t=1` } : {};
    if (this.used > this.quota) {
      if (this.resetAt === Infinity) {
        this.resetAt = Date.now() + 1000;
        this.refused.push(0);
      }
      this.refused.push(this.refused.pop()! + 1);
      return error(response, 429, 'rate_limited', { ...limit, 'Retry-After': '1' });
    }
    return request.method === 'POST'
      ? this.create(response, request, limit)
      : this.list(response, request, limit);
  };

  private create(response: ServerResponse, { body, headers }: Received, limit: object): unknown {
    const key = String(headers['idempotency-key']);
    const known = this.created.get(key);
    if (known !== undefined) {
      return json(response, 201, known, { ...limit, 'Idempotent-Replayed': 'true' });
    }
    if (body.length > 16_384) {
      return error(response, 413, 'payload_too_large', { ...limit });
    }
    const fields = JSON.parse(body) as Stored;
    if (fields.name === '') {
      return error(response, 400, 'invalid_request', { ...limit });
    }
    const pet = { ...fields, id: this.pets.length + 1, status: fields.status ?? 'available' };
    this.pets.push(pet);
    this.created.set(key, pet);
    // The pet is stored, and the response is lost.
    return pet.id % 50 === 0 ? response.destroy() : json(response, 201, pet, { ...limit });
  }

  private list(response: ServerResponse, { path }: Received, limit: object): unknown {
    const { searchParams } = new URL(path, 'http://localhost');
    const from = Number(searchParams.get('cursor') ?? 0);
    const size = Number(searchParams.get('limit') ?? 20);
    const pets = this.pets.filter(({ id }) => id > from).slice(0, size + 1);
    const page = pets.slice(0, size);
    const Link = `</v1/pets?limit=${size}&cursor=${page.at(-1)?.id}>; rel="next"`;
    return json(response, 200, page, { ...limit, ...(pets.length > size && { Link }) });
  }
}
