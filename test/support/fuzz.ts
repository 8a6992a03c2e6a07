/** A source of pseudo-random choices: the same seed makes the same ones (mulberry32). */
export class Chance {
  constructor(private state: number) {}

  /** @returns a whole number from 0 to `end` - 1. */
  below(end: number): number {
    this.state = (this.state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(this.state ^ (this.state >>> 15), 1 | this.state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return Math.floor((((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32) * end);
  }

  of<T>(choices: readonly T[]): T {
    return choices[this.below(choices.length)]!;
  }

  /** True once in `times`. */
  oneIn(times: number): boolean {
    return this.below(times) === 0;
  }
}

interface Parts {
  method: string;
  target: string;
  headers: [name: string, value: string][];
  body: string | undefined;
}

const METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'DELETE', 'OPTIONS', 'TRACE', 'CONNECT', 'get', 'Q'];

const ODD_TEXTS = [
  '',
  ' ',
  '\t',
  '0',
  '-0',
  '-1',
  '1e1',
  '0x10',
  '05',
  '1.5',
  '100',
  '101',
  '9007199254740993',
  '9223372036854775807',
  '9223372036854775808',
  '-9223372036854775808',
  '-9223372036854775809',
  '9'.repeat(400),
  'NaN',
  'null',
  'true',
  'undefined',
  '__proto__',
  'constructor',
  'toString',
  'available',
  'AVAILABLE',
  '%',
  '%00',
  '%0d%0a',
  '%ff',
  '%u0041',
  '%25',
  '..',
  '//',
  '\\',
  '?',
  '#',
  '&',
  ';',
  '*',
  "'",
  '"',
  '$1',
  "';drop table pets;--",
  '{{7*7}}',
  '${x}',
  '\x00',
  '\x7f',
  '\x80\xff',
  '\xef\xbb\xbf',
  '\xed\xa0\x80',
  '\r\n',
  '\n\n',
  'x'.repeat(300),
  'x'.repeat(20_000),
];

const ODD_JSON = [
  'null',
  'true',
  '[]',
  '{}',
  '""',
  '" "',
  '0',
  '-0',
  '-0.0',
  '1e2',
  '1e400',
  '-1e-400',
  '1E+0',
  '3.0',
  '0.1',
  '01',
  '+1',
  '.5',
  'NaN',
  'Infinity',
  '9223372036854775807',
  '9223372036854775808',
  `1${'0'.repeat(500)}`,
  '1e999999999',
  '"\\u0000"',
  '"\\ud800"',
  '"\\udc00\\ud800"',
  '"\\ud83d\\ude00"',
  '"\\x"',
  '"\t"',
  `"${'n'.repeat(255)}"`,
  `"${'n'.repeat(256)}"`,
  `"${'\xf0\x9f\x98\x80'.repeat(255)}"`,
  '"\xff"',
  "'single'",
  '{"__proto__":{"status":"sold"}}',
  '{"constructor":{"prototype":{}}}',
  '"available"',
  '"Available"',
  `${'['.repeat(31)}${']'.repeat(31)}`,
  `${'['.repeat(2_000)}`,
  `${'{"a":'.repeat(100)}1${'}'.repeat(100)}`,
];

const FIELDS = ['name', 'categoryId', 'status', 'id', '__proto__', 'constructor', 'toJSON', ''];

const PARAMETERS = ['limit', 'status', 'cursor', 'access_token', 'limit[]', '__proto__', 'x', ''];

const HEADER_NAMES = [
  'Host',
  'Authorization',
  'Content-Type',
  'Content-Length',
  'Content-Encoding',
  'Transfer-Encoding',
  'Idempotency-Key',
  'X-Request-Id',
  'X-Forwarded-For',
  'X-Forwarded-Host',
  'traceparent',
  'Origin',
  'Access-Control-Request-Method',
  'Connection',
  'Upgrade',
  'Expect',
  'Accept',
  'Range',
  'If-None-Match',
  'Cookie',
  'TE',
  'Trailer',
  'X-HTTP-Method-Override',
  'X',
  'X Y',
  '__proto__',
  'constructor',
  '',
];

const HEADER_VALUES = [
  'application/json',
  'application/json; charset=utf-8',
  'application/json; charset=utf-16',
  'text/plain',
  'multipart/form-data; boundary=x',
  'application/json, application/json',
  'chunked',
  'gzip, chunked',
  'identity',
  'gzip',
  'close',
  'keep-alive',
  'upgrade',
  'websocket',
  'h2c',
  '100-continue',
  '200-ok',
  'https://app.example',
  '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01',
  '203.0.113.7, 10.0.0.1',
  'Bearer animalstore_',
  'Basic dXNlcjpwYXNz',
  '"a quoted key"',
  'a-key',
  '4',
  '20000',
  ...ODD_TEXTS,
];

/** Makes requests that are nearly valid ones. */
export class Mutator {
  constructor(
    private readonly chance: Chance,
    private readonly key: string,
  ) {}

  /** @returns a request's bytes, one a character, changed in any place. */
  brokenBytes(): string {
    const { chance } = this;
    let bytes = render(this.validRequest());
    for (let i = 1 + chance.below(4); i > 0; i -= 1) {
      const at = chance.below(bytes.length + 1);
      const end = at + chance.below(chance.oneIn(8) ? bytes.length : 8);
      bytes = chance.of([
        () => bytes.slice(0, at) + String.fromCharCode(chance.below(256)) + bytes.slice(at + 1),
        () => bytes.slice(0, at) + chance.of(ODD_TEXTS) + bytes.slice(at),
        () => bytes.slice(0, at) + bytes.slice(end),
        () => bytes.slice(0, end) + bytes.slice(at),
        () => bytes.slice(0, at),
        () => bytes.slice(0, at) + bytes.slice(at).replace('\r\n', chance.of(['\n', '\r', ''])),
      ])();
    }
    return bytes;
  }

  /** @returns the bytes of a request that is well-formed, apart from its contents for the most part. */
  oddRequest(): string {
    const { chance } = this;
    const parts = this.validRequest();
    for (let i = 1 + chance.below(3); i > 0; i -= 1) {
      chance.of([
        () => this.changeTarget(parts),
        () => this.changeHeaders(parts),
        () => this.changeJson(parts),
        () => this.changeJson(parts),
      ])();
    }
    if (chance.oneIn(20)) {
      parts.method = chance.of(METHODS);
    }
    return render(parts);
  }

  private validRequest(): Parts {
    const { chance } = this;
    const headers: Parts['headers'] = [
      ['Host', 'test'],
      ['Authorization', `Bearer ${this.key}`],
    ];
    if (chance.oneIn(2)) {
      const body = '{"name":"Rex","categoryId":7,"status":"sold"}';
      headers.push(['Content-Type', 'application/json']);
      if (chance.oneIn(4)) {
        headers.push(['Idempotency-Key', `key-${chance.below(100)}`]);
      }
      return { method: 'POST', target: '/v1/pets', headers, body };
    }
    const target = chance.of([
      '/v1/pets',
      '/v1/pets?limit=20&status=available',
      '/v1/pets?limit=1',
      '/v1/pets/1',
      '/v1/pets/4711',
      '/v1/store/orders?limit=20',
      '/health/live',
      '/health/ready',
    ]);
    return { method: 'GET', target, headers, body: undefined };
  }

  private changeTarget(parts: Parts): void {
    const { chance } = this;
    const odd = () => chance.of(ODD_TEXTS).replaceAll(/[\0-\x20\x7f]/g, encodeURIComponent);
    const separator = parts.target.includes('?') ? '&' : '?';
    parts.target = chance.of([
      () => `${parts.target}${separator}${chance.of(PARAMETERS)}=${odd()}`,
      () => `${parts.target}${separator}${odd()}`,
      () => `/v1/pets/${odd()}`,
      () => `/${odd()}`,
      () => odd(),
      () => parts.target.replace(/[0-9]+/, odd()),
      () => `http://test${parts.target}`,
      () => parts.target.replaceAll('/', chance.of(['//', '\\', '%2f', '/./', '/'])),
    ])();
  }

  private changeHeaders({ headers }: Parts): void {
    const { chance } = this;
    const header: [string, string] = [chance.of(HEADER_NAMES), chance.of(HEADER_VALUES)];
    if (headers.length === 0) {
      headers.push(header);
      return;
    }
    const at = chance.below(headers.length);
    chance.of([
      () => headers.push(header),
      () => headers.push(header),
      () => headers.splice(at, 1),
      () => headers.splice(at, 0, headers[at]!),
      () => headers.splice(at, 1, [headers[at]![0], header[1]]),
      () => headers.splice(at, 1, [header[0], headers[at]![1]]),
      () => headers.splice(at, 1, [chance.of([' ', '\t', '']) + headers[at]![0], headers[at]![1]]),
      () => headers.push(...Array(chance.below(600)).fill(['X-Filler', 'x'])),
    ])();
  }

  private changeJson(parts: Parts): void {
    const { chance } = this;
    const { body } = parts;
    if (body === undefined) {
      return;
    }
    const at = chance.below(body.length);
    const odd = chance.of(ODD_JSON);
    const field = JSON.stringify(chance.of(FIELDS));
    parts.body = chance.of([
      () => odd,
      () => `{"name":${odd},"categoryId":7}`,
      () => `{"name":"Rex","categoryId":${odd}}`,
      () => `{"name":"Rex","categoryId":7,"status":${odd}}`,
      () => body.replace(/}$/, `,${field}:${odd}}`),
      () => body.replace(/^{/, `{${field}:${odd},`),
      () => `{${field}:${odd}}`,
      () => `[${body}]`,
      () => `${body}${chance.of([' ', '\n', '\0', ',', body, '//', '\xef\xbb\xbf'])}`,
      () => `${chance.of([' ', '\n', '\0', ',', '\xef\xbb\xbf', '\xff\xfe'])}${body}`,
      () => body.slice(0, at),
      () => body.slice(0, at) + String.fromCharCode(chance.below(256)) + body.slice(at + 1),
      () =>
        `${body.slice(0, -1)},"x":"${'x'.repeat(chance.of([16_000, 16_340, 17_000, 40_000]))}"}`,
      () => '',
    ])();
  }
}

function render({ method, target, headers, body }: Parts): string {
  const lines = headers.map(([name, value]) => `${name}: ${value}`);
  if (body !== undefined) {
    lines.push(`Content-Length: ${body.length}`);
  }
  return [`${method} ${target} HTTP/1.1`, ...lines, '', body ?? ''].join('\r\n');
}
