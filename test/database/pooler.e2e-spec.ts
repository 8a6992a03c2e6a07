import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { freePort } from '../../scripts/free-port.mjs';
import { readEnvironment } from '../../src/config/environment.js';
import { connectToServe } from '../../src/database/connect.js';
import { postgresAccount } from '../../src/embedded-postgres/embedded-postgres.js';
import { OperatorError } from '../../src/errors/operator-error.js';
import { revertMigration, runMigrations } from '../../src/schema/migrations.js';
import { ask } from '../support/ask.js';
import { catalog } from '../support/catalog.js';
import { describeWith } from '../support/describe-with.js';
import { PATH, Program } from '../support/program.js';
import { createMigratedDatabase, dropDatabase, onServer } from '../support/database.js';
import { startService, type TestService } from '../support/service.js';
import { temporaryFolder } from '../support/temporary-folder.js';

const DATABASE_POOLER = 'transaction';

/** Starts a PgBouncer before one database, with one session to it. @returns the database's URL through it. */
async function pgBouncerBefore(database: string) {
  const { hostname, port, username, password, pathname } = new URL(database);
  const folder = await temporaryFolder();
  const listenPort = await freePort();
  const file = join(folder, 'pgbouncer.ini');
  await writeFile(
    file,
    `[databases]
    * = host=${hostname} port=${port} user=${username} password=${password}
    [pgbouncer]
    listen_addr = 127.0.0.1
    listen_port = ${listenPort}
    unix_socket_dir =
    auth_type = any
    pool_mode = transaction
    default_pool_size = 1
    ignore_startup_parameters = options,extra_float_digits
    `.replaceAll(/^ +/gm, ''),
  );
  // It does not run as root either.
  const ids = await postgresAccount(folder);
  const program = Program.start('pgbouncer', [file], { ids, env: { PATH } });
  await program.says(/process up/, 'stderr');
  const url = `postgres://pooled@127.0.0.1:${listenPort}${pathname}`;
  return { url, stop: () => program.end('SIGTERM') };
}

describeWith('pgbouncer')('behind PgBouncer in transaction mode', () => {
  let url: string;
  let pooler: Awaited<ReturnType<typeof pgBouncerBefore>>;
  beforeEach(async () => {
    url = await createMigratedDatabase();
    pooler = await pgBouncerBefore(url);
  });
  afterEach(async () => {
    await pooler.stop();
    await dropDatabase(url);
  });

  /** Settings of the database, as if they were of the role. The pooler must have no session yet. */
  const setForSessions = async (settings: Record<string, string>) => {
    const name = new URL(url).pathname.slice(1);
    for (const [setting, value] of Object.entries(settings)) {
      await onServer(`alter database ${name} set ${setting} = '${value}'`);
    }
  };

  async function refusal(variables: Record<string, string>): Promise<string> {
    const environment = readEnvironment({ DATABASE_URL: pooler.url, ...variables });
    const error = await connectToServe(pooler.url, environment).catch((cause: Error) => cause);
    expect(error).toBeInstanceOf(OperatorError);
    return (error as Error).message;
  }

  it('the service does not start unless it is told so, and changes no session', async () => {
    expect(await refusal({})).toMatch(/^There is a pooler at .* DATABASE_POOLER=transaction\.$/);
    const left = await ask(pooler.url, 'show statement_timeout');
    expect(left).toEqual({ statement_timeout: '0' });
  });

  it('it does not start without the settings that its role must have, and says how to set them for the role that logs in', async () => {
    await setForSessions({ default_transaction_isolation: 'serializable', role: 'pg_monitor' });
    const statements = (await refusal({ DATABASE_POOLER })).split('\n').slice(1);
    expect(statements.toSorted()).toEqual([
      `alter role postgres set default_transaction_isolation = 'read committed';`,
      `alter role postgres set jit = 'off';`,
      `alter role postgres set statement_timeout = '1500';`,
    ]);
  });

  it('two services respond to all of many requests at once with 2xx', async () => {
    await setForSessions({ jit: 'off', statement_timeout: '1500ms' });
    const start = () => startService({ DATABASE_POOLER }, pooler.url);
    const services = [await start(), await start()];
    const post = ({ api }: TestService) =>
      api.post('/v1/pets').send({ name: 'Rex', categoryId: 1 });
    await post(services[0]!).expect(201);
    const statuses: number[] = [];
    for (let round = 0; round < 20; round += 1) {
      const requests = services.flatMap((service, i) => [
        service.api.get('/v1/pets?limit=20'),
        service.api.get('/v1/pets?status=available&limit=3'),
        service.api.get('/v1/pets/1'),
        service.api.get('/v1/store/orders'),
        service.api.get('/health/ready'),
        post(service),
        // A new key, and that of the round before.
        post(service).set('Idempotency-Key', `${i}-${round}`),
        post(service).set('Idempotency-Key', `${i}-${round - 1}`),
      ]);
      statuses.push(...(await Promise.all(requests)).map(({ status }) => status));
    }
    await Promise.all(services.map((service) => service.stop()));
    expect(statuses.filter((status) => status >= 300)).toEqual([]);
  });

  it('migrations are refused before anything is changed', async () => {
    const refused = /migrations do not run through a pooler\. Set DATABASE_URL to /;
    const migrated = await catalog(url);
    await expect(revertMigration(pooler.url)).rejects.toThrow(refused);
    expect(await catalog(url)).toEqual(migrated);
    while (!(await revertMigration(url))!.startsWith('CreateIdempotencyKeys'));
    const reverted = await catalog(url);
    await expect(runMigrations(pooler.url)).rejects.toThrow(refused);
    expect(await catalog(url)).toEqual(reverted);
  });
});
