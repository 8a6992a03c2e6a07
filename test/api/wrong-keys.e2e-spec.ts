import { once } from 'node:events';
import { connect } from 'node:net';
import { newApiKey } from '../../src/api-key.js';
import { VALID_KEYS, VERIFICATION } from '../../src/auth/api-key-verifier.js';
import type { Statement } from '../../src/database/statement.js';
import { FULL_LENGTH } from '../support/full-length.js';
import { heapInUse } from '../support/heap.js';
import { RawConnection, request } from '../support/raw-http.js';
import { serviceOfTests } from '../support/service.js';

const REQUESTS = FULL_LENGTH ? 50_000 : 10_000;
const CONNECTIONS = FULL_LENGTH ? 250 : 100;
/** Bytes of heap that a request may seem to leave: whatever is remembered of a key is more. */
const BYTES = FULL_LENGTH ? 80 : 150;
/** Requests that a connection sends before it waits for their answers. */
const AT_ONCE = 2;

/** A key that was never issued and whose checksum is wrong. */
function mistypedKey(): string {
  const key = newApiKey();
  return key.slice(0, -1) + (key.endsWith('A') ? 'B' : 'A');
}

describe('a flood of wrong keys, all different', () => {
  const service = serviceOfTests();
  afterEach(() => jest.restoreAllMocks());

  /** Sends requests with `count` keys. @returns how many were answered with each status, and what the log says of it. */
  async function flood(count: number, makeKey: () => string) {
    const statuses: Record<string, number> = {};
    const warnings: string[] = [];
    await Promise.all(
      Array.from({ length: CONNECTIONS }, async () => {
        const socket = connect(service.port, '127.0.0.1').setEncoding('latin1');
        let unread = '';
        let answers = 0;
        let sent = 0;
        const send = () => {
          const lines = Array.from({ length: AT_ONCE }, () =>
            request('GET /v1/pets', [`Authorization: Bearer ${makeKey()}`]),
          );
          sent += AT_ONCE;
          socket.write(lines.join(''));
        };
        socket.on('data', (text: string) => {
          unread += text;
          const found = [...unread.matchAll(/HTTP\/1\.1 (\d{3}) /g)];
          for (const [, status] of found) {
            statuses[status!] = (statuses[status!] ?? 0) + 1;
          }
          answers += found.length;
          const last = found.at(-1);
          unread = unread.slice(last === undefined ? -12 : last.index + last[0].length);
          if (answers === sent && sent < count / CONNECTIONS) {
            send();
          } else if (answers === sent) {
            socket.end();
          }
        });
        send();
        await once(socket, 'close');
        warnings.push(
          ...service.log.filter((line) => !['debug', 'info'].includes(JSON.parse(line).level)),
        );
        service.log.length = 0;
      }),
    );
    return { statuses, warnings };
  }

  /** Rounds in which the keys in use are verified again. */
  const rounds = (milliseconds: number) => Math.ceil(milliseconds / VERIFICATION.refreshEvery) + 1;

  it.each([
    ['with wrong checksums: no look at the database', mistypedKey, () => 0],
    [
      'with right checksums: a look at the database in ten milliseconds at most',
      newApiKey,
      (milliseconds: number) => milliseconds / VERIFICATION.pauseAfterUnknown + 1,
    ],
  ])('%s, no memory, and valid keys work', async (_title, makeKey, mostLookups) => {
    const keys = service.keys;
    const newKeys = await Promise.all(Array.from({ length: 10 }, () => keys.issue('new')));
    await flood(2_000, makeKey);
    const heapBefore = heapInUse();
    const query = jest.spyOn(service.pool, 'query');
    const startedAt = performance.now();

    let isOver = false;
    const valid: number[] = [];
    const others = (async () => {
      const connection = await RawConnection.open(service.port);
      while (!isOver) {
        const { key } = (valid.length % 2 === 0 && newKeys.pop()) || service;
        connection.send(request('GET /v1/pets?limit=1', [`Authorization: Bearer ${key}`]));
        valid.push((await connection.answer()).status);
      }
      connection.vanish();
    })();
    const answers = await flood(REQUESTS, makeKey);
    isOver = true;
    await others;
    const milliseconds = performance.now() - startedAt;

    expect(answers).toEqual({ statuses: { 401: REQUESTS }, warnings: [] });
    expect(newKeys).toEqual([]);
    expect(valid.filter((status) => status !== 200)).toEqual([]);
    const lookups = query.mock.calls.filter(
      ([statement]) => (statement as unknown as Statement).name === VALID_KEYS.name,
    ).length;
    expect(lookups).toBeGreaterThanOrEqual(10);
    // Besides those that wrong keys cause: one for each new key, and for a key whose next round came late.
    expect(lookups).toBeLessThanOrEqual(mostLookups(milliseconds) + rounds(milliseconds) + 15);
    query.mockClear();
    expect(heapInUse() - heapBefore).toBeLessThan(REQUESTS * BYTES);
  });
});
