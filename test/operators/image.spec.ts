import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { PROJECT_ROOT } from '../../src/config/project-root.js';
import { startService } from '../support/service.js';

const read = (file: string) => readFileSync(join(PROJECT_ROOT, file), 'utf8');

describe('the image', () => {
  const dockerfile = read('Dockerfile');
  const [, command] = /^HEALTHCHECK [^[]*CMD (\[.+\])$/m.exec(dockerfile)!;
  const [file, ...args]: [string, ...string[]] = JSON.parse(command!);

  /** Whether its health check passes for the process at `port`. */
  async function isHealthy(port: number): Promise<boolean> {
    const env = { PATH: process.env['PATH'], PORT: String(port) };
    return promisify(execFile)(file, args, { env }).then(
      () => true,
      () => false,
    );
  }

  it('is healthy while the service is live, and no longer once it is gone', async () => {
    const service = await startService();
    expect(await isHealthy(service.port)).toBe(true);
    await service.stop();
    expect(await isHealthy(service.port)).toBe(false);
  });

  it.each([503, undefined])('is not healthy if the status is %s', async (status) => {
    const server = createServer((request, response) =>
      status === undefined ? request.destroy() : response.writeHead(status).end(),
    ).listen(0, '127.0.0.1');
    await once(server, 'listening');
    expect(await isHealthy((server.address() as AddressInfo).port)).toBe(false);
    server.close();
  });

  it('is made of versions that are named in full: Node, as in .nvmrc, and Debian packages', () => {
    const images = [...dockerfile.matchAll(/^FROM (\w+:.+?)(?: AS|$)/gm)].map(([, image]) => image);
    const version = new RegExp(`^node:${read('.nvmrc').trim()}\\.\\d+\\.\\d+-bookworm-slim$`);
    expect(images).toEqual([expect.stringMatching(version), images[0]]);
    const [, installed] = /apt-get install -y --no-install-recommends (.+?) &&/.exec(dockerfile)!;
    expect(installed!.split(' ')).toEqual([expect.stringMatching(/^'[a-z]+=\d[\w.-]+\*'$/)]);
  });
});
