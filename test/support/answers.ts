import { KEY_PREFIX } from '../../src/api-key.js';
import type { TestService } from './service.js';

/** An answer as far as tests look at it. */
export interface Answer {
  status: number;
  headers: Record<string, any>;
  text: string;
  /** Of supertest's. */
  request?: { method: string; url: string };
}

/**
 * Expects an Error body and nothing else: `message` contains each of `words` and nothing of the service's inside. No API
 * key is anywhere in the answer.
 */
export function expectError(
  answer: Answer,
  status: number,
  code: string,
  words: readonly string[] = [],
) {
  const body = bodyOf(answer);
  const { request } = answer;
  const to = request && `${request.method} ${request.url}`;
  expect({ to, status: answer.status, body }).toStrictEqual({
    to,
    status,
    body: { code, message: expect.any(String), status },
  });
  const { message } = body;
  for (const word of words) {
    expect(message).toContain(word);
  }
  expect(message).not.toMatch(INSIDE);
  expect(answer.headers['content-type']).toBe('application/json; charset=utf-8');
  expect(answer.text + JSON.stringify(answer.headers)).not.toContain(KEY_PREFIX);
}

/** The body, parsed, or the beginning of one that is not JSON. */
function bodyOf({ headers, text }: Answer): any {
  try {
    return headers['content-type']?.startsWith('application/json') ? JSON.parse(text) : shown(text);
  } catch {
    return shown(text);
  }
}

const shown = (text: string): string => text.slice(0, 200);

/** Stacks, SQL, and what JSON parsers and drivers say. */
const INSIDE =
  /\n|    at |\.[jt]s:|node_modules|Error:|\b(?:select|insert|relation|constraint|bigint|syntax|token|unexpected)\b/i;

/** @returns the path that the answer's `Link` names as the next page, or `undefined` without a `Link`. */
export function nextPage({ headers: { link } }: Answer): string | undefined {
  if (link !== undefined) {
    expect(link).toMatch(/^<[^<>]+>; rel="next"$/);
  }
  return link?.slice(1, link.indexOf('>'));
}

/** Follows `Link` from `path` to the end. @returns every page. */
export async function walk(service: TestService, path: string): Promise<Answer[]> {
  const pages: Answer[] = [];
  for (let next: string | undefined = path; next !== undefined; next = nextPage(pages.at(-1)!)) {
    pages.push(await service.api.get(next).expect(200));
  }
  return pages;
}
