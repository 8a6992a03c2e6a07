import { DOCUMENT, operations } from '../support/contract.js';
import { serviceOfTests } from '../support/service.js';
import { read } from '../support/documents.js';

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

describe('requests.http', () => {
  const service = serviceOfTests();

  it('has each operation of the OpenAPI document', () => {
    const ids = operations().map(({ operationId }) => operationId);
    const names = REQUESTS.map(({ title }) => /^\w+/.exec(title)![0]);
    expect([...new Set(names)].toSorted()).toEqual(ids.toSorted());
  });

  // One after the other: the first creates what another fetches.
  it.each(REQUESTS)('has a request that succeeds: $title', async (parsed) => {
    const { title, method, target, headers, body } = parsed;
    const filledIn = (text: string) =>
      text.replaceAll('{{base}}', `${service.origin}/v1`).replaceAll('{{key}}', service.key);
    const { status } = await fetch(filledIn(target), {
      method,
      headers: headers.map((header) => filledIn(header).split(': ') as [string, string]),
      ...(body !== '' && { body }),
    });
    const operation = operations().find(({ operationId }) => title.startsWith(operationId));
    expect(status).toBe(operation!.success);
    const [path] = Object.entries<any>(DOCUMENT.paths).find(([, item]) =>
      title.startsWith(item[method.toLowerCase()]?.operationId ?? '\0'),
    )!;
    const pattern = new RegExp(`^/v1${path.replaceAll(/\{\w+\}/g, '[^/]+')}$`);
    expect(new URL(filledIn(target)).pathname).toMatch(pattern);
  });
});
