import { EventEmitter, once } from 'node:events';
import { Duplex } from 'node:stream';
import { onClientError, rememberLatest } from '../../src/http/client-error.js';
import type { Response } from '../../src/http/response.js';
import { createLogger } from '../../src/logging/logger.js';

const log = createLogger('silent');

/** A connection whose client sends nothing more. */
class Connection extends Duplex {
  written = '';

  override _read() {}

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: () => void) {
    this.written += chunk;
    done();
  }
}

/** What the client reads after Node's HTTP server reports `code`. */
async function answerTo(code: string | undefined): Promise<string> {
  const socket = new Connection();
  onClientError(Object.assign(new Error('the reason'), { code }), socket, log);
  await once(socket, 'finish');
  return socket.written;
}

describe("what Node's HTTP server reports", () => {
  it.each([
    ['HPE_INVALID_METHOD', 400, 'invalid_request'],
    ['HPE_INVALID_EOF_STATE', 400, 'invalid_request'],
    ['ERR_ANYTHING', 400, 'invalid_request'],
    [undefined, 400, 'invalid_request'],
    ['ERR_HTTP_REQUEST_TIMEOUT', 408, 'request_timeout'],
    ['HPE_CHUNK_EXTENSIONS_OVERFLOW', 413, 'payload_too_large'],
    ['HPE_HEADER_OVERFLOW', 431, 'headers_too_large'],
  ])('as %s is answered with %i, and the connection ends', async (reported, status, code) => {
    const [head, body] = (await answerTo(reported)).split('\r\n\r\n');
    expect(head).toMatch(new RegExp(`^HTTP/1.1 ${status} [A-Z]`));
    expect(head).toContain('\r\nConnection: close');
    expect(head).toContain(`\r\nContent-Length: ${body!.length}`);
    expect(JSON.parse(body!)).toEqual({ code, message: expect.any(String), status });
    expect(body).not.toContain('the reason');
  });

  it('again and again, while an answer is on its way, is remembered once', () => {
    const answer = Object.assign(new EventEmitter(), { req: { complete: true } });
    const socket = Object.assign(new Connection(), { _httpMessage: answer });
    for (let i = 0; i < 100; i += 1) {
      onClientError(new Error('the reason'), socket, log);
    }
    expect(answer.listenerCount('close')).toBe(1);
  });

  it('of a connection that is being ended leaves it open, so that its client reads the answer', async () => {
    const socket = new Connection();
    for (let i = 0; i < 2; i += 1) {
      onClientError(new Error('the reason'), socket, log);
    }
    await once(socket, 'finish');
    expect(socket.destroyed).toBe(false);
    expect(socket.written.match(/HTTP\/1\.1/g)).toHaveLength(1);
  });

  it('of a body whose request has an answer on its way adds none to it, and ends the connection', () => {
    const socket = new Connection();
    const req = { complete: false, isBodyRead: true, socket };
    const answer = Object.assign(new EventEmitter(), { req, isAnswered: true });
    rememberLatest(answer as unknown as Response);
    Object.assign(socket, { _httpMessage: answer });
    onClientError(new Error('the reason'), socket, log);
    expect([socket.written, socket.writableEnded]).toEqual(['', false]);
    answer.emit('finish');
    expect([socket.written, socket.writableEnded]).toEqual(['', true]);
  });

  it('as a reset connection is not answered', () => {
    const socket = new Connection();
    onClientError(Object.assign(new Error('reset'), { code: 'ECONNRESET' }), socket, log);
    expect(socket.destroyed).toBe(true);
    expect(socket.written).toBe('');
  });

  it('of a connection that is closed already is not answered', () => {
    const socket = new Connection();
    socket.end();
    onClientError(new Error('late'), socket, log);
    expect(socket.destroyed).toBe(true);
  });
});
