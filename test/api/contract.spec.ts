import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PROJECT_ROOT } from '../../src/config/project-root.js';
import { Program } from '../support/program.js';
import { faultsOf, type SentAnswer } from '../support/contract.js';

const REX = '{"id":1,"name":"Rex","categoryId":7,"status":"sold"}';
const HEADERS = {
  'content-type': 'application/json; charset=utf-8',
  'cache-control': 'no-store',
  'x-request-id': 'abc',
};
const LIST: SentAnswer = {
  method: 'GET',
  path: '/v1/pets?limit=1',
  status: 200,
  headers: HEADERS,
  text: `[${REX}]`,
};
const CREATE: SentAnswer = {
  method: 'POST',
  path: '/v1/pets',
  status: 201,
  headers: { ...HEADERS, location: '/v1/pets/1' },
  text: REX,
};
const withHeaders = (answer: SentAnswer, headers: Record<string, string>): SentAnswer => ({
  ...answer,
  headers: { ...answer.headers, ...headers },
});
const rexWith = (field: string, value: string) =>
  REX.replace(new RegExp(`"${field}":[^,}]+`), `"${field}":${value}`);
const error = (status: number, code: string) => JSON.stringify({ code, message: 'Words.', status });

describe('holding an answer against the document', () => {
  const listError = (status: number, text: string) => ({ ...LIST, status, text });
  it.each<[string, SentAnswer, RegExp]>([
    ['an unlisted status', { ...LIST, status: 202 }, /this status/],
    ['an unlisted operation', { ...LIST, path: '/v1/store' }, /this operation/],
    ['an unlisted method', { ...LIST, method: 'PUT' }, /this operation/],
    ['an unlisted code', listError(400, error(400, 'invalid_json')), /code/],
    ['a body with another status', listError(400, error(404, 'invalid_request')), /status/],
    ['no Error', { ...LIST, path: '/x', status: 404, text: '{}' }, /required/],
    ['another status', { ...LIST, path: '/x', status: 404, text: error(400, 'a') }, /status/],
    ['one pet for many', { ...LIST, text: REX }, /array/],
    ['a missing field', { ...LIST, text: '[{"id":1,"name":"Rex","categoryId":7}]' }, /status/],
    ['an unlisted field', { ...CREATE, text: REX.replace('{', '{"colour":"red",') }, /additional/],
    ['an id over int64', { ...CREATE, text: rexWith('id', '9223372036854775808') }, /int64/],
    ['a name of white space', { ...CREATE, text: rexWith('name', '" "') }, /name/],
    ['another content type', withHeaders(LIST, { 'content-type': 'text/html' }), /content type/],
    ['a missing header', { ...CREATE, headers: HEADERS }, /location is missing/],
    [
      'an Allow with other methods',
      {
        ...withHeaders(LIST, { allow: 'GET, HEAD, OPTIONS' }),
        method: 'PUT',
        status: 405,
        text: error(405, 'method_not_allowed'),
      },
      /other methods/,
    ],
    ['an unlisted header', withHeaders(LIST, { etag: 'x' }), /header etag/],
  ])('finds %s', (_title, answer, fault) => {
    expect(faultsOf(answer).join()).toMatch(fault);
  });

  it('fails every file of tests with a difference, also the last of a worker', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'animal-store-late-'));
    const support = (file: string) => JSON.stringify(join(PROJECT_ROOT, 'test/support', file));
    const test = `import { serviceOfTests } from ${support('service.ts')};
      import { DOCUMENT } from ${support('contract.ts')};
      const service = serviceOfTests();
      it('lists', async () => {
        delete DOCUMENT.paths['/pets'].get.responses[200].headers['X-Request-Id'];
        await service.api.get('/v1/pets').expect(200);
      });`;
    const files = ['first', 'last'].map((name) => join(folder, `${name}.mjs`));
    await Promise.all(files.map((file) => writeFile(file, test)));
    const config = {
      rootDir: folder,
      testMatch: ['**/*.mjs'],
      moduleFileExtensions: ['mjs', 'js'],
      runner: join(PROJECT_ROOT, 'node_modules/jest-light-runner/src/index.js'),
      setupFiles: [join(PROJECT_ROOT, 'test/support/typescript.js')],
    };
    const args = ['jest', '--config', JSON.stringify(config), '--runInBand', '--json'];
    const { stdout } = await Program.start('npx', args, { cwd: PROJECT_ROOT }).outcome;
    await rm(folder, { recursive: true });
    const { testResults } = JSON.parse(stdout);
    expect(testResults.map(({ message }: any) => message)).toEqual(
      files.map(() =>
        expect.stringContaining('the document does not have the header x-request-id'),
      ),
    );
  });
});
