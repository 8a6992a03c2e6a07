import type { OutgoingHttpHeaders, Server, ServerResponse } from 'node:http';
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';
import formats from 'ajv-formats';
import { parse, parseNumberAndBigInt } from 'lossless-json';
import { parse as parseYaml } from 'yaml';
import { read } from './documents.js';
import { evidence } from './evidence.js';

interface Response {
  headers: Record<string, { required?: boolean; schema: { type: string } }>;
  content?: Record<string, { schema: object }>;
}

/** Makes a number of a bigint that a double can hold. */
const simplified = (_key: unknown, value: unknown) =>
  typeof value === 'bigint' && Number.isSafeInteger(Number(value)) ? Number(value) : value;

/** Parses JSON without loss: an integer that a double cannot hold becomes a bigint. */
export const parseExactly = (text: string): any => parse(text, simplified, parseNumberAndBigInt);

/** `docs/openapi.yaml`, parsed so too. */
export const DOCUMENT = parseYaml(read('docs/openapi.yaml'), simplified, { intAsBigInt: true });

/** The operations of one of the document's paths, by their methods in lower case. */
const operationsAt = (item: object) =>
  Object.entries<any>(item).filter(([, { operationId }]) => operationId !== undefined);

/**
 * @returns the document's operations, each with its examples as a request; `success` is the status of the response, and
 *   `headers` are those that are required.
 */
export function operations() {
  return Object.entries<any>(DOCUMENT.paths).flatMap(([template, item]) =>
    operationsAt(item).map(([method, { operationId, responses, parameters = [], requestBody }]) => {
      const all: Parameter[] = [...(item.parameters ?? []), ...parameters].map(resolved);
      const exampleOf = (one: Parameter) => String(one.example ?? examplesOf(one)[0]);
      const headers = all.filter((one) => one.in === 'header' && one.required);
      return {
        operationId: String(operationId),
        method: method.toUpperCase(),
        success: Number(Object.keys(responses).find((status) => status.startsWith('2'))),
        path:
          BASE +
          template.replaceAll(/\{(\w+)\}/g, (_all, name) =>
            exampleOf(all.find((one) => one.in === 'path' && one.name === name)!),
          ),
        headers: Object.fromEntries(headers.map((one) => [one.name, exampleOf(one)])),
        body: examplesOf(requestBody?.content['application/json'] ?? {})[0],
      };
    }),
  );
}

interface Parameter {
  name: string;
  in: string;
  required?: boolean;
  example?: unknown;
}

/** Where the document's paths begin. */
const BASE = '/v1';

/** Headers of HTTP itself and of the Fetch standard (CORS), which the document leaves out. */
const UNNAMED =
  /^(content-type|content-length|connection|x-content-type-options|vary|access-control-.+)$/;

// Spectral checks the schemas themselves, which takes long.
const ajv = new Ajv2020({
  allErrors: true,
  strictTypes: false,
  meta: false,
  validateSchema: false,
});
formats.default(ajv);
ajv.addVocabulary(['components', 'example']);
// Ajv takes a bigint for no number.
ajv.addKeyword({
  keyword: 'int64',
  compile:
    ([least, most]: [string, string]) =>
    (value: unknown) =>
      (typeof value === 'bigint' || Number.isInteger(value)) &&
      BigInt(value as bigint) >= BigInt(least) &&
      BigInt(value as bigint) <= BigInt(most),
});

const compiled = new Map<object, ValidateFunction>();

/** @returns what is wrong with `value` by a schema of the document. */
export function faultsBySchema(schema: object, value: unknown): string[] {
  let validate = compiled.get(schema);
  if (validate === undefined) {
    const { schemas } = DOCUMENT.components;
    validate = ajv.compile(checkable({ ...schema, components: { schemas } }) as object);
    compiled.set(schema, validate);
  }
  return validate(value) ? [] : validate.errors!.map((error) => ajv.errorsText([error]));
}

/** A schema that Ajv checks fully: `int64` in place of bounds that it cannot compare, and no further fields if some are required. */
function checkable(schema: unknown): unknown {
  if (Array.isArray(schema)) {
    return schema.map(checkable);
  }
  if (typeof schema !== 'object' || schema === null) {
    return schema;
  }
  const { format, minimum, maximum, required } = schema as Record<string, unknown>;
  if (format === 'int64') {
    return { int64: [String(minimum), String(maximum)] };
  }
  return {
    ...Object.fromEntries(Object.entries(schema).map(([name, value]) => [name, checkable(value)])),
    ...(Array.isArray(required) && { additionalProperties: false }),
  };
}

/** @returns how a response with the body `text` differs from the document. */
function faultsOf(method: string, target: string, sent: ServerResponse, text: string): string[] {
  const { statusCode: status } = sent;
  const headers = sent.getHeaders();
  // Letters mean the same percent-encoded (RFC 3986, section 6.2.2).
  const path = target.split('?')[0]!.replace(/%(?:[46][1-9a-f]|[57][0-9a])/gi, decodeURIComponent);
  const items = pathItems(path);
  // HEAD is handled as GET.
  const name = method === 'HEAD' ? 'get' : method.toLowerCase();
  const operation = items.find((item) => item[name])?.[name];
  const notAllowed = status === 405 && items.length > 0 && DOCUMENT['x-method-not-allowed'];
  const response: Response | undefined = resolved(operation?.responses[status] ?? notAllowed);
  const faults: string[] = [];
  if (response) {
    faults.push(...headerFaults(response, headers), ...contentFaults(response, headers, text));
  } else if (operation !== undefined) {
    faults.push('the document does not have this status');
  } else if (status >= 400) {
    faults.push(...bodyFaults(DOCUMENT.components.schemas.Error, text));
  } else if (path.startsWith(BASE) && method !== 'OPTIONS') {
    faults.push('the document does not have this operation');
  }
  if (
    status >= 400 &&
    text !== HEAD_ONLY &&
    faults.length === 0 &&
    parseExactly(text).status !== status
  ) {
    faults.push(`the body has another status: ${text}`);
  }
  return faults.map((fault) => `${method} ${path} ${status}: ${fault}`);
}

/** @returns the `Allow` of a path with these operations (RFC 9110, sections 9.3.2 and 9.3.7). */
export function allowOf(methods: string[]): string {
  const heads = methods.includes('GET') ? ['HEAD'] : [];
  return [...methods, ...heads, 'OPTIONS'].toSorted().join(', ');
}

/** @returns the methods that the document has for a path: of each template that it matches. */
export const methodsOf = (path: string): string[] => [
  ...new Set(
    pathItems(path).flatMap((item) => operationsAt(item).map(([method]) => method.toUpperCase())),
  ),
];

/** @returns what the document has for a path, by templates: the one with the fewest parameters is first. */
function pathItems(path: string): any[] {
  const parameters = (template: string) => template.split('{').length;
  return Object.keys(DOCUMENT.paths)
    .filter((one) => new RegExp(`^${BASE}${one.replaceAll(/\{\w+\}/g, '[^/]+')}$`).test(path))
    .toSorted((one, other) => parameters(one) - parameters(other))
    .map((template) => DOCUMENT.paths[template]);
}

function headerFaults(response: Response, sent: OutgoingHttpHeaders): string[] {
  const unknown = new Set(Object.keys(sent).filter((name) => !UNNAMED.test(name)));
  const faults = Object.entries(response.headers).flatMap(([title, header]) => {
    const name = title.toLowerCase();
    const { required, schema } = resolved(header);
    const value = sent[name];
    unknown.delete(name);
    if (value === undefined) {
      return required ? [`${name} is missing`] : [];
    }
    const typed = schema.type === 'integer' ? Number(value) : value;
    return faultsBySchema(schema, typed).map((fault) => `${name}: ${value}: ${fault}`);
  });
  return faults.concat(
    Array.from(
      unknown,
      (name) =>
        `${name} is not in docs/openapi.yaml. Describe it there, or, if every response has it, add it to UNNAMED in test/support/contract.ts`,
    ),
  );
}

/** @returns what a reference refers to, or `part` if it is none. */
export function resolved<Part>(part: Part | { $ref: string }): Part {
  const { $ref } = (part ?? {}) as { $ref?: string };
  const names = $ref?.split('/').slice(1) ?? [];
  return $ref === undefined ? (part as Part) : names.reduce((of, name) => of[name], DOCUMENT);
}

/** @returns the values of a media type's examples. */
export const examplesOf = ({ example, examples }: any): any[] =>
  examples === undefined ? [example] : Object.values<any>(examples).map(({ value }) => value);

/** Instead of the body of a response to HEAD, which has none. */
const HEAD_ONLY = 'no body';

function contentFaults(response: Response, sent: OutgoingHttpHeaders, text: string): string[] {
  const type = String(sent['content-type'] ?? '').split(';')[0]!;
  if (response.content === undefined) {
    return type === '' && ['', HEAD_ONLY].includes(text) ? [] : ['the document has no body'];
  }
  if (response.content[type] === undefined) {
    return [`the document does not have the content type ${type}`];
  }
  // Of a file, such as an image, the document has no more than its type.
  return type === 'application/json' ? bodyFaults(response.content[type].schema ?? {}, text) : [];
}

function bodyFaults(schema: object, text: string): string[] {
  if (text === HEAD_ONLY) {
    return [];
  }
  let value: unknown;
  try {
    value = parseExactly(text);
  } catch (error) {
    return [`${(error as Error).message} in ${text.slice(0, 200)}`];
  }
  return faultsBySchema(schema, value).map((fault) => `${fault} in ${text}`);
}

/**
 * Compares every response of `server` with the document, and shows the last ones to a test that fails.
 *
 * @returns the differences. The array grows with each response, so whoever stops the server checks that it is empty.
 */
export function holdToDocument(server: Server): string[] {
  const faults: string[] = [];
  server.prependListener('request', ({ method, url }, response: ServerResponse) => {
    const { write, end } = response;
    const respond = evidence.request(`${method} ${url}`);
    response.once('close', () => respond());
    let text = '';
    Object.assign(response, {
      write(...args: any[]) {
        text += args[0];
        return write.apply(response, args as never);
      },
      end(...args: any[]) {
        text += args[0] ?? '';
        // Node calls `writeHead` in it.
        const ended = end.apply(response, args as never);
        if (response.headersSent) {
          respond(response.statusCode, text);
          const body = method === 'HEAD' ? HEAD_ONLY : text;
          const { currentTestName = 'before or after the tests' } = expect.getState();
          faults.push(
            ...faultsOf(method!, url!, response, body).map((one) => `${currentTestName}: ${one}`),
          );
        }
        return ended;
      },
    });
  });
  return faults;
}
