/** Clients of the service that go on after errors, and remember what they were told. */
import { Agent } from 'node:http';
import { setTimeout as wait } from 'node:timers/promises';
import type { Answer as Response } from '../support/answers.js';
import { query } from '../support/ask.js';
import { type Message, transmit } from '../support/send.js';
import type { Figure } from './report.js';

/** Milliseconds after which a response counts as missing. */
const PATIENCE = 15_000;

export interface Question extends Message {
  /** An API key. */
  key?: string;
  /** What the answers are told apart by. */
  kind?: string;
}

/** Without a status, no response came. */
export interface Answer extends Partial<Response> {
  /** When the request was sent: `performance.now()`. */
  at: number;
  ms: number;
}

/** Sends one request. */
export async function ask(
  origin: string,
  { key, kind: _kind, headers, ...message }: Question,
): Promise<Answer> {
  const at = performance.now();
  const all = {
    ...(key && { Authorization: `Bearer ${key}` }),
    ...(message.body && { 'Content-Type': 'application/json' }),
    ...headers,
  };
  const response = await transmit(origin, { ...message, headers: all, timeout: PATIENCE }).catch(
    () => undefined,
  );
  return { ...response, at, ms: performance.now() - at };
}

/** A createPet. @param idempotencyKey if it has one. */
export const create = (key: string, name: string, idempotencyKey?: string): Question => ({
  method: 'POST',
  path: '/v1/pets',
  key,
  body: JSON.stringify({ name, categoryId: 1 }),
  headers: idempotencyKey === undefined ? {} : { 'Idempotency-Key': idempotencyKey },
});

export const isServed = ({ status }: Answer) => status === 200 || status === 201;

/** Sends a request every `interval` ms, whatever becomes of those before, until told to stop. */
export class Stream {
  private readonly answers: (Answer & { question: Question })[] = [];
  private readonly pending = new Set<Promise<void>>();
  private readonly timer: NodeJS.Timeout;
  private readonly agent = new Agent({ keepAlive: true });

  /**
   * @param next makes the n-th request.
   * @param send sends it, once or until it is served.
   */
  constructor(origin: string, interval: number, next: (n: number) => Question, send = ask) {
    let n = 0;
    this.timer = setInterval(() => {
      const question = next(n++);
      const sent = send(origin, { agent: this.agent, ...question }).then((answer) => {
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

/** Clients that create without pause. Half of them send each create with a key, again and again until it is acknowledged. */
export class Creators {
  /** Names by id. */
  private readonly acknowledged = new Map<string | undefined, string>();
  private readonly refusals: Answer[] = [];
  private readonly end = new AbortController();
  private readonly clients: Promise<void>[];
  /** How long creates failed after each fault, ms. */
  readonly outages: number[] = [];

  constructor(
    private readonly origin: string,
    private readonly key: string,
  ) {
    this.clients = Array.from({ length: 8 }, (_, client) => this.work(client));
  }

  private async work(client: number): Promise<void> {
    const isKeyed = client % 2 === 1;
    for (let n = 0; !this.end.signal.aborted; n += 1) {
      const name = `${isKeyed ? 'keyed' : 'plain'}-${client}-${n}`;
      while (!(await this.attempt(name, isKeyed)) && isKeyed);
    }
  }

  /** @returns whether the pet was acknowledged. */
  private async attempt(name: string, isKeyed: boolean): Promise<boolean> {
    const answer = await ask(this.origin, create(this.key, name, isKeyed ? name : undefined));
    if (answer.status === 201) {
      this.acknowledged.set(/"id":(\d+)/.exec(answer.text!)?.[1], name);
      return true;
    }
    this.refusals.push(answer);
    await wait(20);
    return false;
  }

  /** Notes how long it takes from now until creates succeed again. */
  async recover(): Promise<void> {
    const since = performance.now();
    while (!isServed(await ask(this.origin, create(this.key, 'probe')))) {
      await wait(5);
    }
    this.outages.push(performance.now() - since);
  }

  /**
   * Ends them, and compares what was acknowledged with what the database at `url` has.
   *
   * @param least how many pets are to be acknowledged.
   */
  async stop(url: string, least: number): Promise<Figure[]> {
    this.end.abort();
    await Promise.all(this.clients);
    const rows = await query(url, 'select id::text, name from pets');
    const stored = new Map(rows.map(({ id, name }) => [id, name]));
    const names = rows.map(({ name }) => name).filter((name) => name !== 'probe');
    const [{ parted }] = await query(
      url,
      `select count(*)::int as parted
         from pets full join idempotency_keys on pet_id = pets.id
        where pets.id is null or (pet_id is null) = (name like 'keyed%')`,
    );
    const lost = [...this.acknowledged].filter(([id, name]) => stored.get(id) !== name);
    const told = this.refusals.filter(({ status }) => status !== undefined);
    return [
      ['pets acknowledged', this.acknowledged.size, `≥ ${least}`],
      ['of them lost', lost.length, '= 0'],
      ['pets stored twice', names.length - new Set(names).size, '= 0'],
      ['keys without pet, and pets without their key', parted, '= 0'],
      ['requests without a response', this.refusals.length - told.length],
      ['responses 503', told.filter(({ status }) => status === 503).length],
      ['other errors', told.filter(({ status }) => status !== 503).length, '= 0'],
      ['longest response', most(told.map(({ ms }) => ms)), '≤ 5,000', 'ms'],
      ['longest time until creates succeed again', most(this.outages), '≤ 2,000', 'ms'],
    ];
  }
}

export const most = (numbers: number[]) => Math.round(numbers.reduce((a, b) => Math.max(a, b), 0));

/** Milliseconds of the longest of responses that must all be served; infinite if one was not. */
export const longest = (answers: Answer[]) =>
  most(answers.map((answer) => (isServed(answer) ? answer.ms : Infinity)));

/** @param share 0.5 for the median. */
export const quantile = (numbers: number[], share: number) =>
  numbers.toSorted((a, b) => a - b)[Math.floor((numbers.length - 1) * share)] ?? NaN;

/** A percentile of the response times, in milliseconds. @param share 0.99 for the 99th. */
export function percentile(answers: Answer[], share: number): number {
  const times = answers.map(({ ms }) => ms);
  return Math.round(quantile(times, share));
}

/** The 99th. */
export const p99 = (answers: Answer[]) => percentile(answers, 0.99);
