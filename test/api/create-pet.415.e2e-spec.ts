import { gzipSync } from 'node:zlib';
import { expectError } from '../support/answers.js';
import { send } from '../support/send.js';
import { startService, type TestService } from '../support/service.js';

const REX = '{"name":"Rex","categoryId":1}';

describe('createPet 415', () => {
  let service: TestService;
  beforeAll(async () => {
    service = await startService();
  });
  afterEach(async () => {
    expect(await service.query('select * from pets')).toEqual([]);
  });
  afterAll(() => service.stop());

  const refuses = async (headers: Record<string, string | string[]>, body: string | Buffer = REX) =>
    expectError(await send(service, { headers, body }), 415, 'unsupported_media_type');

  it.each([
    'text/plain',
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
    'text/json',
    'application/x-www-form-urlencoded',
    'multipart/form-data; boundary=x',
    'application/octet-stream',
    'application/xml',
    'application/jsonp',
    'application/json5',
    'application/json-patch+json',
    'application/vnd.api+json',
    'application/*',
    '*/*',
    'json',
    'application/json, text/plain',
    'application/json,application/json',
    '',
  ])('refuses the media type %j', (type) => refuses({ 'Content-Type': type }));

  it.each([
    'iso-8859-1',
    'latin1',
    'us-ascii',
    'utf-16',
    'utf-16le',
    'utf-32',
    'UTF-7',
    '"utf-8 "',
    'x',
  ])('refuses the charset %s', (charset) =>
    refuses({ 'Content-Type': `application/json; charset=${charset}` }),
  );

  it.each(['gzip', 'GZIP', 'deflate', 'br', 'zstd', 'compress', 'x', 'gzip, identity'])(
    'refuses the content coding %s',
    (coding) => refuses({ 'Content-Type': 'application/json', 'Content-Encoding': coding }),
  );

  it('refuses a body in gzip', () =>
    refuses({ 'Content-Type': 'application/json', 'Content-Encoding': 'gzip' }, gzipSync(REX)));

  it('refuses a body without a media type', () => refuses({}));

  it('refuses a chunked body without a media type', () =>
    refuses({ 'Transfer-Encoding': 'chunked' }));

  it('refuses an empty body of another media type', () =>
    refuses({ 'Content-Type': 'text/plain' }, ''));

  it('refuses two media types', () =>
    refuses({ 'Content-Type': ['application/json', 'application/json'] }));
});
