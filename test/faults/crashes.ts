/** The service and PostgreSQL are killed in turns under creates: no acknowledged pet is lost, none is stored twice. */
import { setTimeout as wait } from 'node:timers/promises';
import { query } from '../support/ask.js';
import { Creators } from './clients.js';
import { note } from './report.js';
import { type Run, Service } from './service.js';

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
      service = await Service.start(postgres.url, { port: service.port });
    }
    await creators.recover();
  }
  note(
    `${count.kills} kills -9: of the service, of PostgreSQL, and every tenth time of both`,
    ...(await creators.stop(postgres.url, count.kills * 10)),
  );
  await service.kill();
}
