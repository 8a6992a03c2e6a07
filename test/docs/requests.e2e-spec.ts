import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { PROJECT_ROOT } from '../../src/config/project-root.js';
import { DOCUMENT, operations } from '../support/contract.js';
import { serviceOfTests } from '../support/service.js';

const read = (file: string) => readFileSync(join(PROJECT_ROOT, file), 'utf8');

/** As editors read them: a title, which begins with the operation's name, the head, and a body after an empty line. */
const REQUESTS = read('requests.http')
  .split(/^### /m)
  .slice(1)
  .map((request) => {
    const [title, requestLine, ...rest] = request.trim().split('\n');
    const [method, target] = requestLine!.split(' ');
    const headers = rest.slice(0, rest.indexOf('') === -1 ? undefined : rest.indexOf(''));
    const body = rest.slice(headers.length + 1).join('\n');
    return { title: title!, method: method!, target: target!, headers, body };
  });

const nameOf = (title: string) => /^\w+/.exec(title)![0];

const OPERATIONS: Record<string, Record<string, any>> = DOCUMENT.paths;

describe('requests.http', () => {
  const service = serviceOfTests();

  it('has each operation of the OpenAPI document', () => {
    const ids = operations().map(({ operationId }) => operationId);
    expect(ids.length).toBeGreaterThan(3);
    const names = REQUESTS.map(({ title }) => nameOf(title));
    expect([...new Set(names)].toSorted()).toEqual(ids.toSorted());
  });

  // One after the other: the first creates what another fetches.
  it.each(REQUESTS)('has a request that succeeds: $title', async (request) => {
    const { title, method, target, headers, body } = request;
    const filledIn = (text: string) =>
      text.replaceAll('{{base}}', `${service.origin}/v1`).replaceAll('{{key}}', service.key);
    const { status } = await fetch(filledIn(target), {
      method,
      headers: headers.map((header) => filledIn(header).split(': ') as [string, string]),
      ...(body === '' ? {} : { body }),
    });
    expect(status).toBe(operations().find((it) => it.operationId === nameOf(title))!.success);
    const { pathname } = new URL(filledIn(target));
    const [path] = Object.entries(OPERATIONS).find(([, operations]) =>
      title.startsWith(operations[method.toLowerCase()]?.operationId ?? '\0'),
    )!;
    expect(pathname).toMatch(new RegExp(`^/v1${path.replaceAll(/\{\w+\}/g, '[^/]+')}$`));
  });
});
