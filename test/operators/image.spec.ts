import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { PROJECT_ROOT } from '../../src/config/project-root.js';
import { startService } from '../support/service.js';

const dockerfile = readFileSync(join(PROJECT_ROOT, 'Dockerfile'), 'utf8');

describe("the image's health check", () => {
  const [, command] = /^HEALTHCHECK [^[]*CMD (\[.+\])$/m.exec(dockerfile)!;
  const [file, ...args]: [string, ...string[]] = JSON.parse(command!);

  /** Whether it finds the process at `port` healthy. */
  async function isHealthy(port: number): Promise<boolean> {
    const env = { PATH: process.env['PATH'], PORT: String(port) };
    return promisify(execFile)(file, args, { env }).then(
      () => true,
      () => false,
    );
  }

  it('passes while the service is live, and fails once it is gone', async () => {
    const service = await startService();
    expect(await isHealthy(service.port)).toBe(true);
    await service.stop();
    expect(await isHealthy(service.port)).toBe(false);
  });

  it.each([
    ['another status', 503],
    ['no response', undefined],
  ])('fails on %s', async (_what, status) => {
    const server = createServer((request, response) => {
      if (status === undefined) {
        request.destroy();
      } else {
        response.writeHead(status).end();
      }
    });
    await once(server.listen(0, '127.0.0.1'), 'listening');
    expect(await isHealthy((server.address() as AddressInfo).port)).toBe(false);
    server.close();
  });
});
