import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import type { Answer } from './answers.js';
import { evidence } from './evidence.js';

export type { Answer };

/** One connection, on which any bytes can be sent. Whatever takes over a minute to come is an error. */
export class RawConnection {
  private received = '';
  private readonly chunks: AsyncIterator<string>;

  private constructor(private readonly socket: Socket) {
    this.chunks = socket.setEncoding('latin1')[Symbol.asyncIterator]();
    // Whoever reads gets the error, too.
    socket.on('error', () => {});
    socket.setTimeout(60_000, () => socket.destroy(new Error('nothing came for a minute')));
  }

  /** @param localAddress from which the service sees it come: any of 127.0.0.0/8. */
  static async open(port: number, localAddress?: string): Promise<RawConnection> {
    const socket = connect({ port, host: '127.0.0.1', localAddress });
    await once(socket, 'connect');
    return new RawConnection(socket);
  }

  /** @param bytes a string stands for its characters' codes, one byte each. */
  send(bytes: string | Buffer): void {
    this.socket.write(bytes, 'latin1');
  }

  /** Says that nothing more will be sent, and goes on reading. */
  halfClose(): void {
    this.socket.end();
  }

  /** Leaves without a word: the service's side sees a reset connection. */
  vanish(): void {
    this.socket.resetAndDestroy();
  }

  /** @returns the next response; the names of its headers are in lower case. */
  async answer(method = 'GET'): Promise<Answer> {
    let head: RegExpExecArray | null = null;
    while ((head = /^HTTP\/1\.1 (\d{3}).*?\r\n\r\n/s.exec(this.received)) === null) {
      await this.receiveMore();
    }
    this.received = this.received.slice(head[0].length);
    const status = Number(head[1]);
    const fields = head[0].matchAll(/^([^:\r\n]+): ?(.*)\r$/gm);
    const headers = Object.fromEntries(
      Array.from(fields, ([, name, value]) => [name!.toLowerCase(), value!]),
    );
    const hasBody = method !== 'HEAD' && status >= 200 && status !== 204;
    const length = hasBody ? Number(headers['content-length']) : 0;
    if (Number.isNaN(length)) {
      throw new Error(`a response without Content-Length: ${head[0]}`);
    }
    while (this.received.length < length) {
      await this.receiveMore();
    }
    const body = this.received.slice(0, length);
    this.received = this.received.slice(length);
    return { status, headers, text: Buffer.from(body, 'latin1').toString() };
  }

  /** Whether the service has sent nothing on it, and has not ended it. */
  get isSilent(): boolean {
    return this.socket.bytesRead === 0 && !this.socket.readableEnded && !this.socket.destroyed;
  }

  /** Waits until the service ends the connection. @returns what came before that and no answer took. */
  async rest(): Promise<string> {
    while (await this.receive());
    return this.received;
  }

  private async receiveMore(): Promise<void> {
    if (!(await this.receive())) {
      throw new Error(`the connection ended after ${JSON.stringify(this.received)}`);
    }
  }

  private async receive(): Promise<boolean> {
    const what = `bytes on a connection, after ${JSON.stringify(this.received.slice(-500))}`;
    const { value, done } = await evidence.awaiting(what, () => this.chunks.next());
    this.received += value ?? '';
    return !done;
  }
}

/** Sends `bytes`, a request, on a connection of their own. @returns the first answer. */
export async function exchange(port: number, bytes: string | Buffer): Promise<Answer> {
  const connection = await RawConnection.open(port);
  connection.send(bytes);
  const answer = await connection.answer(String(bytes).split(' ', 1)[0]);
  connection.vanish();
  return answer;
}

/** The bytes of a request without a body, or with `body` and its length. */
export function request(line: string, headers: string[] = [], body?: string): string {
  const length = body === undefined ? [] : [`Content-Length: ${body.length}`];
  return [`${line} HTTP/1.1`, 'Host: test', ...headers, ...length, '', body ?? ''].join('\r\n');
}
