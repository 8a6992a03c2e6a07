import { gzipSync } from 'node:zlib';
import { expectError } from '../support/answers.js';
import { send } from '../support/send.js';
import { serviceOfTests } from '../support/service.js';

const REX = '{"name":"Rex","categoryId":1}';
const JSON_TYPE = { 'Content-Type': 'application/json' };

describe('createPet 415', () => {
  const service = serviceOfTests();
  afterEach(async () => {
    expect(await service.query('select * from pets')).toEqual([]);
  });

  const refuses = async (headers: Record<string, string | string[]>, body: string | Buffer = REX) =>
    expectError(await send(service, { headers, body }), 415, 'unsupported_media_type');

  it.each([
    ...'text/plain text/json application/xml application/octet-stream application/jsonp */*'.split(
      ' ',
    ),
    ...'application/json5 application/json-patch+json application/vnd.api+json application/*'.split(
      ' ',
    ),
    ...'json application/x-www-form-urlencoded application/json,application/json'.split(' '),
    'multipart/form-data; boundary=x',
    'application/json, text/plain',
    'application/json; a=b, text/plain',
    'application/json;, text/plain',
    'application/json; charset=utf-8; charset=utf-16',
    'application/json; charset = utf-16',
    'application/json; charset=',
    'application/json; ;charset=latin1',
    'application/json;;a="',
    'application/json; charset="utf\\-16"',
    `application/json${'; '.repeat(4000)}@`,
    `application/json;${' '.repeat(8000)}@`,
    `application/json;a="${'\\"'.repeat(4000)}`,
    '',
  ])('refuses the media type %.60j', (type) => refuses({ 'Content-Type': type }));

  it.each('iso-8859-1 latin1 us-ascii utf-16 utf-16le utf-32 UTF-7 "utf-8_" x'.split(' '))(
    'refuses the charset %s',
    (charset) =>
      refuses({ 'Content-Type': `application/json; charset=${charset.replace('_', ' ')}` }),
  );

  it.each(['gzip', 'GZIP', 'deflate', 'br', 'zstd', 'compress', 'x', 'gzip, identity'])(
    'refuses the content coding %s',
    (coding) => refuses({ ...JSON_TYPE, 'Content-Encoding': coding }, gzipSync(REX)),
  );

  it.each<[string, Record<string, string | string[]>, string?]>([
    ['without a media type', {}],
    ['in chunks without a media type', { 'Transfer-Encoding': 'chunked' }],
    ['that is empty, of another media type', { 'Content-Type': 'text/plain' }, ''],
    ['of two media types', { 'Content-Type': ['application/json', 'application/json'] }],
  ])('refuses a body %s', (_what, headers, body = REX) => refuses(headers, body));
});
