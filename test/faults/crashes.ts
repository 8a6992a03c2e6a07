/** The service, PostgreSQL and both are killed under a stream of creates: what was acknowledged is there. */
import { setTimeout as wait } from 'node:timers/promises';
import { query } from '../support/ask.js';
import { animal, ask, type Question } from './clients.js';
import { note } from './report.js';
import { type Run, Service } from './service.js';

const CLIENTS = 8;

const VICTIMS = ['service', 'postgres', 'both'] as const;

/** What the clients were told. */
class Ledger {
  /** Names by id. */
  readonly acknowledged = new Map<string | undefined, string>();
  readonly keyed = new Set<string>();
  unanswered = 0;
  wrong = 0;

  constructor(
    private readonly origin: string,
    private readonly key: string,
  ) {}

  async create(client: number, signal: AbortSignal): Promise<void> {
    for (let n = 0; !signal.aborted; n += 1) {
      await this.attempt(`plain ${client} ${n}`);
    }
  }

  /** Sends the same key until it is acknowledged. */
  async createWithKeys(client: number, signal: AbortSignal): Promise<void> {
    for (let n = 0; !signal.aborted; n += 1) {
      const name = `keyed ${client} ${n}`;
      while (!(await this.attempt(name, { 'Idempotency-Key': name.replaceAll(' ', '-') })));
      this.keyed.add(name);
    }
  }

  /** @returns whether the animal was acknowledged. */
  private async attempt(name: string, headers: Question['headers'] = {}): Promise<boolean> {
    const { origin, key } = this;
    const request = { method: 'POST', path: '/v1/pets', key, headers, body: animal(name) };
    const { status, text } = await ask(origin, request);
    if (status === 201) {
      this.acknowledged.set(/"id":(\d+)/.exec(text!)?.[1], name);
      return true;
    }
    this.unanswered += 1;
    if (status !== undefined && status !== 503) {
      this.wrong += 1;
    }
    await wait(5);
    return false;
  }
}

export async function crashes({ postgres, key, isShort }: Run): Promise<void> {
  const kills = isShort ? 3 : 24;
  await query(postgres.url, 'truncate pets, idempotency_keys cascade');
  let service = await Service.start(postgres.url);
  const ledger = new Ledger(service.origin, key);
  const end = new AbortController();
  const clients = Array.from({ length: CLIENTS }, (_, client) =>
    client % 2 === 0
      ? ledger.create(client, end.signal)
      : ledger.createWithKeys(client, end.signal),
  );
  try {
    for (let kill = 0; kill < kills; kill += 1) {
      // At no moment in particular.
      await wait(100 + Math.random() * 400);
      const victims = VICTIMS[kill % VICTIMS.length];
      await Promise.all([
        victims === 'postgres' ? undefined : service.kill(),
        victims === 'service' ? undefined : postgres.kill(),
      ]);
      if (victims !== 'service') {
        await postgres.launch();
      }
      if (victims !== 'postgres') {
        service = await service.restart();
      }
    }
    await wait(300);
    end.abort();
    await Promise.all(clients);
    await report(postgres.url, ledger, kills);
  } finally {
    end.abort();
    await service.kill();
  }
}

async function report(url: string, ledger: Ledger, kills: number): Promise<void> {
  const rows = await query(url, 'select id::text, name from pets');
  const stored = new Map(rows.map(({ id, name }) => [id, name]));
  const lost = [...ledger.acknowledged].filter(([id, name]) => stored.get(id) !== name).length;
  const [{ parted }] = await query(
    url,
    `select count(*)::int as parted
       from (select from idempotency_keys left join pets on pets.id = pet_id where pets.id is null
             union all
             select from pets left join idempotency_keys on pet_id = pets.id
              where name like 'keyed%' and pet_id is null) as parted`,
  );
  const copies = new Map<string, number>();
  for (const name of stored.values()) {
    copies.set(name, (copies.get(name) ?? 0) + 1);
  }
  const done = `${kills} kills -9, of the service, PostgreSQL and both in turns, under ${CLIENTS} clients that create without pause`;
  note('No acknowledged animal is lost', done, [
    { name: 'acknowledged', value: ledger.acknowledged.size, atLeast: kills * 10 },
    { name: 'lost', value: lost, is: 0 },
    { name: 'unanswered or refused', value: ledger.unanswered, atLeast: 1 },
    { name: 'responses other than 201 and 503', value: ledger.wrong, is: 0 },
  ]);
  note('A key and its animal are never parted, and a key creates one animal', done, [
    {
      name: 'keys, each sent until it was acknowledged',
      value: ledger.keyed.size,
      atLeast: kills * 5,
    },
    { name: 'keys without animal, or animals without key', value: parted, is: 0 },
    {
      name: 'keys with other than one animal',
      value: [...ledger.keyed].filter((name) => copies.get(name) !== 1).length,
      is: 0,
    },
  ]);
}
