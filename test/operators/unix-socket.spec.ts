import { chmod, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { runHere } from '../support/command.js';
import { itWith } from '../support/describe-with.js';
import { Postgres, systemBinaries } from '../support/postgres.js';
import { startService } from '../support/service.js';

const binaries = await systemBinaries();
itWith('PostgreSQL', binaries)(
  'with a PostgreSQL behind a Unix socket, commands run, and the service serves',
  async () => {
    const folder = await mkdtemp(join(tmpdir(), 'animal-store-socket-'));
    await chmod(folder, 0o777);
    const server = await Postgres.start([`unix_socket_directories=${folder}`]);
    const DATABASE_URL = `postgres://postgres:${server.password}@/postgres?host=${folder}&port=${server.port}`;
    const applied = await runHere('migrate run', { DATABASE_URL });
    const where = `Database postgres at ${folder}:${server.port}, role postgres`;
    expect(applied).toMatchObject({ code: 0, stderr: expect.stringContaining(where) });
    const checked = await runHere('check', { DATABASE_URL });
    expect(checked).toMatchObject({
      code: 0,
      stdout: expect.not.stringContaining(server.password),
    });
    const service = await startService({}, DATABASE_URL);
    await service.api.get('/v1/pets').expect(200);
    await service.stop();
    await server.stop();
    await rm(folder, { recursive: true });
  },
);
