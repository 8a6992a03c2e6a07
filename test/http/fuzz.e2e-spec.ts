import { connect } from 'node:net';
import { ERRORS } from '../../src/errors/errors.js';
import { FULL_LENGTH } from '../support/full-length.js';
import { heapInUse } from '../support/heap.js';
import { startService, type TestService } from '../support/service.js';
import { Chance, Mutator } from '../support/fuzz.js';

/** Another run is `FUZZ_SEED=… npm test -- test/support/fuzz`. */
const SEED = Number(process.env['FUZZ_SEED'] ?? 20_260_101);
const ANSWERS = FULL_LENGTH ? 20_000 : 5_000;
const CONNECTIONS = 16;

const STATUSES = new Set([200, 201, 204, ...Object.values(ERRORS).map(({ status }) => status)]);

/** Sends `bytes`, then nothing more. @returns all that came until the service ended the connection. */
function converse(port: number, bytes: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true });
    socket.on('data', (chunk) => chunks.push(chunk));
    socket.once('error', reject);
    socket.once('end', () => {
      socket.resetAndDestroy();
      resolve(Buffer.concat(chunks).toString('latin1'));
    });
    socket.write(
      `${bytes}GET /health/live HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n`,
      'latin1',
    );
    // What is not a whole request is an error once no more can come.
    socket.setTimeout(300, () => socket.end());
  });
}

/** Expects whole, well-formed answers and nothing else. @returns how many there are. */
function expectAnswers(received: string): number {
  let rest = received;
  let answers = 0;
  while (rest !== '') {
    if (rest.startsWith('HTTP/1.1 100 Continue\r\n\r\n')) {
      rest = rest.slice('HTTP/1.1 100 Continue\r\n\r\n'.length);
      continue;
    }
    const [head, status, fields] = /^HTTP\/1\.1 (\d{3}) [A-Za-z ]+\r\n(.*?)\r\n\r\n/s.exec(rest)!;
    rest = rest.slice(head.length);
    const headers = Object.fromEntries(
      fields!.split('\r\n').map((line) => {
        const [, name, value] = /^([A-Za-z-]+): ([\x20-\x7e]*)$/.exec(line)!;
        return [name!.toLowerCase(), value!];
      }),
    );
    expect(headers).toMatchObject({
      'x-request-id': expect.stringMatching(/^[!-~]{1,128}$/),
      'x-content-type-options': 'nosniff',
      'cache-control': 'no-store',
    });
    // The answer to HEAD has no body, and no body begins like an answer.
    const length = rest.startsWith('HTTP/') ? 0 : Number(headers['content-length'] ?? 0);
    const body = rest.slice(0, length);
    rest = rest.slice(length);
    expectBody(Number(status), body);
    answers += 1;
  }
  return answers;
}

function expectBody(status: number, text: string): void {
  expect(STATUSES).toContain(status);
  expect(status < 500 ? 'no fault of the service' : `${status} ${text}`).toBe(
    'no fault of the service',
  );
  if (text === '') {
    return;
  }
  const body = JSON.parse(Buffer.from(text, 'latin1').toString());
  if (status >= 400) {
    expect(body).toStrictEqual({ code: expect.any(String), message: expect.any(String), status });
    expect(ERRORS).toHaveProperty([body.code, 'status'], status);
  }
}

describe('requests that are nearly valid', () => {
  let service: TestService;
  beforeAll(async () => {
    service = await startService({ CORS_ORIGINS: 'https://app.example', TRUST_PROXY: '1' });
  });
  afterAll(() => service.stop());

  /** Sends requests until there are `count` answers. */
  async function fuzz(seed: number, count: number): Promise<void> {
    const mutator = new Mutator(new Chance(seed), service.key);
    const chance = new Chance(seed + 1);
    let answers = 0;
    const client = async () => {
      while (answers < count) {
        const bytes = chance.oneIn(4)
          ? mutator.brokenBytes()
          : Array.from({ length: 4 }, () => mutator.oddRequest()).join('');
        try {
          const found = expectAnswers(await converse(service.port, bytes));
          answers += found;
        } catch (error) {
          throw new Error(`seed ${SEED}, sent ${JSON.stringify(bytes)}: ${error}`, {
            cause: error,
          });
        }
      }
    };
    await Promise.all(Array.from({ length: CONNECTIONS }, client));
    service.log.length = 0;
  }

  it('all get an answer that the interface knows, and leave nothing behind', async () => {
    await fuzz(SEED + 2, 1_000);
    const heapBefore = heapInUse();
    await fuzz(SEED, ANSWERS);
    expect(heapInUse() - heapBefore).toBeLessThan(FULL_LENGTH ? 8_000_000 : 4_000_000);
    expect(service.pool.waitingCount).toBe(0);
    await service.api.get('/v1/pets').expect(200);
  });
});
