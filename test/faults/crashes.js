/** The service, PostgreSQL and both are killed under a stream of creates: what was acknowledged is there. */
import { setTimeout as wait } from 'node:timers/promises';
import { animal, ask } from './clients.js';
import { Service } from './processes.js';
import { note } from './report.js';

const CLIENTS = 8;

/** @param {{ postgres: import('./postgres.js').Postgres, isShort: boolean }} run */
export async function crashes({ postgres, isShort }) {
  const kills = isShort ? 3 : 24;
  await postgres.query('truncate pets, idempotency_keys cascade');
  let service = await Service.start(postgres.url);
  const { origin } = service;
  const end = new AbortController();
  const ledger = { acknowledged: new Map(), keyed: new Map(), unanswered: 0, wrong: 0 };
  const clients = Array.from({ length: CLIENTS }, (_, client) =>
    client % 2 === 0
      ? create(origin, postgres.key, client, ledger, end.signal)
      : createWithKeys(origin, postgres.key, client, ledger, end.signal),
  );
  try {
    for (let kill = 0; kill < kills; kill += 1) {
      // At no moment in particular.
      await wait(100 + Math.random() * 400);
      const victims = ['service', 'postgres', 'both'][kill % 3];
      await Promise.all([
        victims === 'postgres' ? undefined : service.end('SIGKILL'),
        victims === 'service' ? undefined : postgres.kill(),
      ]);
      if (victims !== 'service') {
        await postgres.start();
      }
      if (victims !== 'postgres') {
        service = await service.restart();
      }
    }
    await wait(300);
    end.abort();
    await Promise.all(clients);
    await report(postgres, ledger, kills);
  } finally {
    end.abort();
    await service.end('SIGKILL');
  }
}

async function report(postgres, { acknowledged, keyed, unanswered, wrong }, kills) {
  const rows = await postgres.query('select id::text, name from pets');
  const stored = new Map(rows.map(({ id, name }) => [id, name]));
  const lost = [...acknowledged].filter(([id, name]) => stored.get(id) !== name).length;
  const [{ parted }] = await postgres.query(
    `select count(*)::int as parted
       from (select from idempotency_keys left join pets on pets.id = pet_id where pets.id is null
             union all
             select from pets left join idempotency_keys on pet_id = pets.id
              where name like 'keyed%' and pet_id is null) as parted`,
  );
  const copies = new Map();
  for (const name of stored.values()) {
    copies.set(name, (copies.get(name) ?? 0) + 1);
  }
  const done = `${kills} kills -9, of the service, PostgreSQL and both in turns, under ${CLIENTS} clients that create without pause`;
  note('No acknowledged animal is lost', done, [
    { name: 'acknowledged', value: acknowledged.size, atLeast: kills * 10 },
    { name: 'lost', value: lost, is: 0 },
    { name: 'unanswered or refused', value: unanswered, atLeast: 1 },
    { name: 'answers other than 201 and 503', value: wrong, is: 0 },
  ]);
  note('A key and its animal are never parted, and a key creates one animal', done, [
    { name: 'keys, each sent until it was acknowledged', value: keyed.size, atLeast: kills * 5 },
    { name: 'keys without animal, or animals without key', value: parted, is: 0 },
    {
      name: 'keys with other than one animal',
      value: [...keyed.keys()].filter((name) => copies.get(name) !== 1).length,
      is: 0,
    },
  ]);
}

async function create(origin, key, client, ledger, signal) {
  for (let n = 0; !signal.aborted; n += 1) {
    const name = `plain ${client} ${n}`;
    await attempt(
      origin,
      { method: 'POST', path: '/v1/pets', key, body: animal(name) },
      name,
      ledger,
    );
  }
}

/** The same key until it is acknowledged. */
async function createWithKeys(origin, key, client, ledger, signal) {
  for (let n = 0; !signal.aborted; n += 1) {
    const name = `keyed ${client} ${n}`;
    const headers = { 'Idempotency-Key': name.replaceAll(' ', '-') };
    const request = { method: 'POST', path: '/v1/pets', key, headers, body: animal(name) };
    while (!(await attempt(origin, request, name, ledger)));
    ledger.keyed.set(name, true);
  }
}

/** @returns whether the animal was acknowledged. */
async function attempt(origin, request, name, ledger) {
  const { status, text } = await ask(origin, request);
  if (status === 201) {
    ledger.acknowledged.set(/"id":(\d+)/.exec(text ?? '')?.[1], name);
    return true;
  }
  ledger.unanswered += 1;
  if (status !== undefined && status !== 503) {
    ledger.wrong += 1;
  }
  await wait(5);
  return false;
}
