import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';

/** A way to PostgreSQL that can be cut. */
export class Wire {
  private readonly sockets = new Set<Socket>();
  private readonly server = createServer({ allowHalfOpen: true }, (client) => {
    const { port, hostname: host } = this.target;
    const upstream = connect({ port: Number(port), host, allowHalfOpen: true });
    for (const [from, to] of [[client, upstream] as const, [upstream, client] as const]) {
      this.sockets.add(from);
      from.on('data', (bytes) => this.isStalled || to.write(bytes));
      from.on('end', () => this.isStalled || to.end());
      from.on('error', () => {});
      from.on('close', () => to.destroy());
    }
  });
  private isStalled = false;

  private constructor(private readonly target: URL) {}

  static async to(url: string): Promise<Wire> {
    const wire = new Wire(new URL(url));
    await wire.listen(0);
    return wire;
  }

  get url(): string {
    return Object.assign(new URL(this.target), { host: `127.0.0.1:${this.port}` }).href;
  }

  /** Ends every connection and refuses new ones. @returns what undoes it. */
  cut(): () => Promise<void> {
    const { port } = this;
    this.server.close();
    this.sockets.forEach((socket) => socket.destroy());
    return () => this.listen(port);
  }

  /** Loses whatever is sent, and that a side has ended. @returns what undoes it, for connections made afterwards. */
  stall(): () => void {
    this.isStalled = true;
    return () => void (this.isStalled = false);
  }

  private get port(): number {
    return (this.server.address() as AddressInfo).port;
  }

  private async listen(port: number): Promise<void> {
    this.server.listen(port, '127.0.0.1');
    await once(this.server, 'listening');
  }
}
