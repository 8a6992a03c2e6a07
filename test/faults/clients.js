/** Clients of the service that never give up, and remember what they were told. */
import { Agent, request } from 'node:http';
import { setTimeout as wait } from 'node:timers/promises';

/** Milliseconds after which an answer counts as missing. */
const PATIENCE = 15_000;

/**
 * @typedef {object} Question
 * @property {string} [method]
 * @property {string} path
 * @property {string} [key] an API key.
 * @property {string} [body]
 * @property {Record<string, string>} [headers]
 * @property {Agent | false} [agent]
 *
 * @typedef {object} Answer
 * @property {number} [status] `undefined` where no answer came.
 * @property {import('node:http').IncomingHttpHeaders} [headers]
 * @property {string} [text]
 * @property {Error} [error] why none came.
 * @property {number} at when the request was sent: `performance.now()`.
 * @property {number} ms
 */

/**
 * Sends one request.
 *
 * @param {string} origin
 * @param {Question} question
 * @returns {Promise<Answer>}
 */
export function ask(origin, { method = 'GET', path, key, body, headers = {}, agent }) {
  const at = performance.now();
  return new Promise((resolve) => {
    const end = (answer) => resolve({ ...answer, at, ms: performance.now() - at });
    const outgoing = request(
      origin + path,
      {
        method,
        agent,
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
          end({ status: incoming.statusCode, headers: incoming.headers, text }),
        );
      },
    );
    outgoing.on('timeout', () => outgoing.destroy(new Error('no answer')));
    outgoing.on('error', (error) => end({ error }));
    outgoing.end(body);
  });
}

export const animal = (name) => JSON.stringify({ name, categoryId: 1 });

/** Asks every `interval` ms, whatever becomes of the questions before, until told to stop. */
export class Stream {
  /** @type {(Answer & { question: Question })[]} */
  answers = [];
  #asking = new Set();
  #timer;
  #agent = new Agent({ keepAlive: true });

  /**
   * @param {string} origin
   * @param {number} interval
   * @param {(n: number) => Question} next makes the n-th request.
   */
  constructor(origin, interval, next) {
    let n = 0;
    this.#timer = setInterval(() => {
      const question = next(n++);
      const asked = ask(origin, { agent: this.#agent, ...question }).then((answer) => {
        this.answers.push({ ...answer, question });
        this.#asking.delete(asked);
      });
      this.#asking.add(asked);
    }, interval);
  }

  /** @returns all answers, in the order in which they came. */
  async stop() {
    clearInterval(this.#timer);
    await Promise.all(this.#asking);
    this.#agent.destroy();
    return this.answers;
  }
}

/**
 * Waits until `condition` holds.
 *
 * @param {() => boolean | Promise<boolean>} condition
 * @param {number} limit milliseconds.
 * @returns the milliseconds that it took, or `limit`, in vain.
 */
export async function until(condition, limit) {
  const since = performance.now();
  while (!(await condition()) && performance.now() - since < limit) {
    await wait(10);
  }
  return performance.now() - since;
}

/** @param {number[]} numbers */
export const most = (numbers) => Math.round(numbers.reduce((a, b) => Math.max(a, b), 0));

/** @param {number[]} numbers @param {number} share */
export function percentile(numbers, share) {
  const sorted = numbers.toSorted((a, b) => a - b);
  return Math.round(sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? NaN);
}
