/** What serves creates is killed under them: no acknowledged pet is lost, none is stored twice. */
import { setTimeout as wait } from 'node:timers/promises';
import { administerKeys } from '../../src/auth/api-keys.js';
import { runMigrations } from '../../src/schema/migrations.js';
import { query } from '../support/ask.js';
import { Postgres, systemBinaries } from '../support/postgres.js';
import { until } from '../support/until.js';
import { Creators } from './clients.js';
import { setStandbyNames } from './database-away.js';
import { note, skip } from './report.js';
import { type Run, Service } from './service.js';

/** The service and PostgreSQL, in turns. */
export async function crashes({ postgres, key, count }: Run): Promise<void> {
  await query(postgres.url, 'truncate pets, idempotency_keys cascade');
  let service = await Service.start(postgres.url);
  const creators = new Creators(service.origin, key);
  for (let kill = 0; kill < count.kills; kill += 1) {
    // At no moment in particular.
    await wait(100 + Math.random() * 400);
    const isOfPostgres = kill % 2 === 1;
    const isOfService = !isOfPostgres || kill % 10 === 9;
    await Promise.all([isOfService && service.kill(), isOfPostgres && postgres.kill()]);
    if (isOfPostgres) {
      await postgres.launch();
    }
    if (isOfService) {
      service = await Service.start(postgres.url, { PORT: `${service.port}` });
    }
    await creators.recover();
  }
  note(
    `${count.kills} kills -9: of the service, of PostgreSQL, and every tenth time of both`,
    ...(await creators.stop(postgres.url, count.kills * 10)),
  );
  await service.kill();
}

/** The primary of two servers with synchronous replication; then the standby is promoted. */
export async function failovers({ count }: Run): Promise<void> {
  const done = `${count.failovers} failovers to the synchronous standby: kill -9 of the primary, pg_ctl promote`;
  const binaries = await systemBinaries();
  if (binaries === undefined) {
    return skip(done, 'PostgreSQL and its clients are not installed');
  }
  let primary = await Postgres.start([], binaries);
  await runMigrations(primary.url);
  const { key } = await administerKeys(primary.url, (keys) => keys.issue('failovers'));
  let standby = await primary.standby();
  await replicate(primary);
  const hosts = `127.0.0.1:${primary.port},127.0.0.1:${standby.port}`;
  const service = await Service.start(
    `postgres://postgres:${primary.password}@${hosts}/postgres?target_session_attrs=read-write`,
  );
  const creators = new Creators(service.origin, key);
  for (let failover = 0; failover < count.failovers; failover += 1) {
    await wait(500 + Math.random() * 500);
    await primary.kill();
    await standby.promote();
    [primary, standby] = [standby, primary];
    await creators.recover();
    await standby.follow(primary);
    await replicate(primary);
  }
  note(done, ...(await creators.stop(primary.url, count.failovers * 10)));
  await service.kill();
  await Promise.all([primary.stop(), standby.stop()]);
}

/** Makes commits wait for the standby. Resolves when they do. */
async function replicate({ url }: Postgres): Promise<void> {
  await setStandbyNames(url, `'*'`);
  const inSync = () => query(url, `select from pg_stat_replication where sync_state = 'sync'`);
  await until('commits wait for the standby', async () => (await inSync()).length === 1);
}
