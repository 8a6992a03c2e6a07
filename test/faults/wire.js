/** A way to PostgreSQL that can be cut, silenced, and led to another server. */
import { once } from 'node:events';
import { connect, createServer } from 'node:net';

export class Wire {
  isSilent = false;
  /** A `postgres://` URL, once it is open. */
  url = '';
  #sockets = new Set();
  #server;

  /** @param port of the server that it leads to. */
  constructor(port) {
    this.target = port;
    this.#server = createServer((client) => {
      const upstream = connect(this.target, '127.0.0.1');
      // What was silent once stays so: packets are lost, and nobody tells.
      let isLost = false;
      for (const [from, to] of [
        [client, upstream],
        [upstream, client],
      ]) {
        this.#sockets.add(from);
        from.on('data', (bytes) => {
          isLost ||= this.isSilent;
          return isLost || to.write(bytes);
        });
        from.on('error', () => {});
        from.on('close', () => {
          this.#sockets.delete(from);
          to.destroy();
        });
      }
    });
  }

  async open() {
    this.#server.listen(this.port ?? 0, '127.0.0.1');
    await once(this.#server, 'listening');
    this.port = /** @type {import('node:net').AddressInfo} */ (this.#server.address()).port;
    this.url = `postgres://postgres@127.0.0.1:${this.port}/postgres`;
    return this;
  }

  /** Ends every connection and refuses new ones, until {@link open}. */
  cut() {
    this.#server.close();
    this.dropConnections();
  }

  dropConnections() {
    this.#sockets.forEach((socket) => socket.destroy());
  }
}
