/** Clients of the service that never give up, and remember what they were told. */
import { Agent, type IncomingHttpHeaders, request } from 'node:http';

/** Milliseconds after which a response counts as missing. */
const PATIENCE = 15_000;

export interface Question {
  method?: string;
  path: string;
  /** An API key. */
  key?: string;
  body?: string;
  headers?: Record<string, string>;
  agent?: Agent | false;
}

export interface Answer {
  /** `undefined` if no response came; `error` says why. */
  status?: number;
  headers?: IncomingHttpHeaders;
  text?: string;
  error?: Error;
  /** When the request was sent: `performance.now()`. */
  at: number;
  ms: number;
}

/** Sends one request. */
export function ask(
  origin: string,
  { method = 'GET', path, key, body, headers = {}, agent }: Question,
): Promise<Answer> {
  const at = performance.now();
  return new Promise((resolve) => {
    const end = (answer: Omit<Answer, 'at' | 'ms'>) =>
      resolve({ ...answer, at, ms: performance.now() - at });
    const outgoing = request(
      origin + path,
      {
        method,
        ...(agent !== undefined && { agent }),
        timeout: PATIENCE,
        headers: {
          ...(key && { Authorization: `Bearer ${key}` }),
          ...(body && { 'Content-Type': 'application/json', 'Content-Length': body.length }),
          ...headers,
        },
      },
      (incoming) => {
        let text = '';
        incoming.on('data', (chunk) => (text += chunk));
        incoming.on('error', (error) => end({ error }));
        incoming.on('end', () =>
          end({ status: incoming.statusCode!, headers: incoming.headers, text }),
        );
      },
    );
    outgoing.on('timeout', () => outgoing.destroy(new Error('no response')));
    outgoing.on('error', (error) => end({ error }));
    outgoing.end(body);
  });
}

export const animal = (name: string) => JSON.stringify({ name, categoryId: 1 });

/** Sends a request every `interval` ms, whatever becomes of those before, until told to stop. */
export class Stream {
  private readonly answers: (Answer & { question: Question })[] = [];
  private readonly pending = new Set<Promise<void>>();
  private readonly timer: NodeJS.Timeout;
  private readonly agent = new Agent({ keepAlive: true });

  /** @param next makes the n-th request. */
  constructor(origin: string, interval: number, next: (n: number) => Question) {
    let n = 0;
    this.timer = setInterval(() => {
      const question = next(n++);
      const sent = ask(origin, { agent: this.agent, ...question }).then((answer) => {
        this.answers.push({ ...answer, question });
        this.pending.delete(sent);
      });
      this.pending.add(sent);
    }, interval);
  }

  /** @returns all responses, in the order in which they came. */
  async stop() {
    clearInterval(this.timer);
    await Promise.all(this.pending);
    this.agent.destroy();
    return this.answers;
  }
}

export const most = (numbers: number[]) => Math.round(numbers.reduce((a, b) => Math.max(a, b), 0));

export function percentile(numbers: number[], share: number): number {
  const sorted = numbers.toSorted((a, b) => a - b);
  return Math.round(sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? NaN);
}
