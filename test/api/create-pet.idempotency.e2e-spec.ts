import { createHash } from 'node:crypto';
import { install } from '@sinonjs/fake-timers';
import { Client } from 'pg';
import { createLogger } from '../../src/logging/logger.js';
import { IdempotentCreation } from '../../src/pets/idempotent-creation.js';
import { PetStore } from '../../src/pets/pet-store.js';
import { expectError } from '../support/answers.js';
import { describeNotOnCitus, itNotOnCitus } from '../support/citus.js';
import { DOCUMENT, faultsBySchema } from '../support/contract.js';
import { until } from '../support/until.js';
import { serviceOfTests, startService, type TestService } from '../support/service.js';

/** How many sessions of this database wait for a lock. */
const WAITING = `
  select count(*)::int as count from pg_stat_activity
   where datname = current_database() and wait_event_type = 'Lock'`;

const REX = { name: 'Rex', categoryId: 1 };
const MAX = { name: 'Max', categoryId: 2 };

describe('createPet with an Idempotency-Key', () => {
  const service = serviceOfTests();
  beforeEach(() => service.query('truncate pets, idempotency_keys cascade'));

  const create = (key: string, body: object = REX, apiKey = service.key, { anonymous } = service) =>
    anonymous
      .post('/v1/pets')
      .set('Authorization', `Bearer ${apiKey}`)
      .set('Idempotency-Key', key)
      .send(body);
  const [{ schema: documented }] = DOCUMENT.paths['/pets'].post.parameters;
  const isDocumented = (key: string) => faultsBySchema(documented, key).length === 0;
  const isReplayed = ({ headers }: { headers: Record<string, string> }) =>
    headers['idempotent-replayed'] === 'true';

  const count = async (table: 'pets' | 'idempotency_keys') =>
    (await service.query(`select count(*)::int from ${table}`))[0].count;

  /** Calls `work` with another session, which is in a transaction and has run `statement`. Rolls it back. */
  async function whileHeld<T>(statement: string, work: (holder: Client) => Promise<T>): Promise<T> {
    const holder = new Client({ connectionString: service.databaseUrl });
    await holder.connect();
    try {
      await holder.query(`begin; ${statement}`);
      return await work(holder);
    } finally {
      await holder.end();
    }
  }

  /** Waits until sessions wait for a lock of the holder. */
  const untilBlocked = (holder: Client, sessions = 1, seconds = 60) => {
    const areBlocked = async () => (await holder.query(WAITING)).rows[0].count >= sessions;
    return until('they wait', areBlocked, seconds);
  };

  it('creates one animal, and answers every later request with it', async () => {
    const first = await create('a-key').expect(201);
    expect(first.headers).not.toHaveProperty('idempotent-replayed');
    for (const key of ['a-key', '"a-key"']) {
      const again = await create(key).expect(201);
      expect([again.text, again.headers['location'], isReplayed(again)]).toEqual([
        first.text,
        first.headers['location'],
        true,
      ]);
    }
    expect(await count('pets')).toBe(1);
  });

  it('knows the body that another version of the service recorded', async () => {
    await service.query(
      `with pet as (insert into pets (name, category_id) values ('Rex', 1) returning id)
       insert into idempotency_keys (api_key_id, key, body_hash, pet_id)
       select api_keys.id, 'earlier', $1, pet.id from api_keys, pet`,
      [createHash('sha256').update('["Rex","1","available"]').digest()],
    );
    expect(isReplayed(await create('earlier').expect(201))).toBe(true);
    expect(await count('pets')).toBe(1);
  });

  it('creates one animal for each of a hundred keys, however many requests with it come at once', async () => {
    const bodies = Array.from({ length: 300 }, (_, n) => ({ ...REX, categoryId: n % 100 }));
    const createAll = () =>
      Promise.all(bodies.map((body) => create(`many-${body.categoryId}`, body)));
    const answers = await createAll();
    expect(answers).toMatchObject(bodies.map((body) => ({ status: 201, body })));
    expect(answers.filter(isReplayed)).toHaveLength(200);
    expect((await createAll()).map(({ text }) => text)).toEqual(answers.map(({ text }) => text));
    expect(await count('pets')).toBe(100);
  });

  it('creates a pet or says 401, while a process still trusts an API key that was deleted', async () => {
    const { id, key } = await service.keys.issue('deleted');
    const first = await create('before', REX, key).expect(201);
    await service.query('delete from api_keys where id = $1', [id]);
    await create('after', REX, key).expect(201);
    expect((await create('before', REX, key).expect(201)).text).toBe(first.text);
    await until('the key is refused', async () => {
      const { status } = await create('after', REX, key);
      expect([201, 401]).toContain(status);
      return status === 401;
    });
  });

  it('takes a body of the same meaning for the same body, and rejects one with another field', async () => {
    const first = await create('k').expect(201);
    const again = await create('k', { status: 'available', categoryId: 1, name: 'Rex', x: 'red' });
    expect(again.text).toBe(first.text);
    for (const field of [{ name: 'Max' }, { categoryId: 2 }, { status: 'sold' }]) {
      expectError(await create('k', { ...REX, ...field }), 422, 'idempotency_key_reused');
    }
    expect(await count('pets')).toBe(1);
  });

  it('scopes a key to the API key, also at once', async () => {
    const other = await service.keys.issue('other');
    await create('earlier', REX, other.key).expect(201);
    const answers = await Promise.all([create('shared'), create('shared', MAX, other.key)]);
    expect(answers.map(({ status }) => status)).toEqual([201, 201]);
    expect(answers.filter(isReplayed)).toEqual([]);
    expect(await count('pets')).toBe(3);
  });

  describeNotOnCitus('while another process works on the first request', () => {
    let other: TestService;
    beforeAll(async () => {
      other = await startService({}, service.databaseUrl);
    });
    afterAll(() => other.stop());

    it('answers twins at once with 409, locks no other key, nor migrations, and creates one animal', async () => {
      const slow = { name: 'slow', categoryId: 1 };
      await service.query(
        `create function wait() returns trigger language plpgsql as
           'begin perform pg_advisory_xact_lock(1); return new; end';
         create trigger wait before insert on pets for each row when (new.name = 'slow') execute function wait()`,
      );
      const creation = await whileHeld('select pg_advisory_xact_lock(1)', async (holder) => {
        const first = create('slow', slow, service.key, other).then((answer) => answer);
        await untilBlocked(holder);
        const { rows } = await holder.query(
          `select objsubid as parts, classid = hashint8(min(id))::oid as "isOfApiKey"
             from pg_locks, api_keys
            where locktype = 'advisory' and granted and pid <> pg_backend_pid()
              and database = (select oid from pg_database where datname = current_database())
            group by objsubid, classid`,
        );
        expect(rows).toEqual([{ parts: 2, isOfApiKey: true }]);
        const twins = Array.from({ length: 10 }, () => create('slow', slow));
        const others = Array.from({ length: 10 }, (_, n) => create(`other-${n}`));
        for (const answer of await Promise.all(twins)) {
          expectError(answer, 409, 'idempotency_key_in_use');
          expect(answer.headers['retry-after']).toBe('1');
        }
        expect((await Promise.all(others)).map(({ status }) => status)).toEqual(
          others.map(() => 201),
        );
        return { first };
      });
      const created = await creation.first;
      expect(created.status).toBe(201);
      expect((await create('slow', slow)).text).toBe(created.text);
      expect(await count('pets')).toBe(11);
    });
  });

  it.each([undefined, REX, MAX])(
    'answers those of twins at once that have another body with 422, after a request with %j',
    async (earlier) => {
      const first = earlier && (await create('twins', earlier).expect(201));
      const twins = [REX, MAX, REX, MAX].map((body) => create('twins', body));
      const answers = await Promise.all(twins);
      const created = answers.filter(({ status }) => status === 201).map(({ text }) => text);
      expect(new Set([...created, first?.text ?? created[0]]).size).toBe(1);
      expect(created).toHaveLength(2);
      for (const answer of answers.filter(({ status }) => status !== 201)) {
        expectError(answer, 422, 'idempotency_key_reused');
      }
      expect(await count('pets')).toBe(1);
    },
  );

  it.each(['pets', 'idempotency_keys'])(
    'answers 503, not 409, where it is the table %s that keeps it waiting',
    async (table) => {
      await create('earlier').expect(201);
      await whileHeld(`lock table ${table} in access exclusive mode`, async () =>
        expectError(await create('slow'), 503, 'unavailable'),
      );
      await create('slow').expect(201);
    },
  );

  itNotOnCitus('deletes old records while others are in use, and waits for nobody', async () => {
    await service.query(
      `with pets as (
         insert into pets (name, category_id) select 'Rex', 1 from generate_series(1, 2500) returning id
       )
       insert into idempotency_keys (api_key_id, key, body_hash, pet_id, created_at)
       select 1, id, '', id, now() - interval '25 hours' from pets`,
    );
    const oldest = `select from idempotency_keys where key = (select min(key) from idempotency_keys) for update`;
    await whileHeld(oldest, async (holder) => {
      await service.get(IdempotentCreation).deleteOldKeys();
      expect(await count('idempotency_keys')).toBe(1);
      // Another process's round, not committed yet, keeps no request with another key waiting.
      await holder.query('delete from idempotency_keys');
      await create('new').expect(201);
    });
  });

  it('looks for old records every ten minutes, until it stops', () => {
    const store = service.get(PetStore);
    const deleteOldKeys = jest.spyOn(store, 'deleteOldKeys').mockRejectedValue(new Error('none'));
    const creation = new IdempotentCreation(store, createLogger('silent'));
    const clock = install({ toFake: ['setInterval', 'clearInterval'] });
    try {
      creation.onModuleInit();
      clock.tick(10 * 60_000 - 1);
      expect(deleteOldKeys).toHaveBeenCalledTimes(0);
      clock.tick(1);
      creation.onModuleDestroy();
      clock.tick(10 * 60_000);
      expect(deleteOldKeys).toHaveBeenCalledTimes(1);
    } finally {
      clock.uninstall();
      deleteOldKeys.mockRestore();
    }
  });

  it.each([
    ['empty', ''],
    ['256 characters', 'x'.repeat(256)],
    ['with a space', 'a b'],
    ['beyond ASCII', 'caf\u00e9'],
    ['an empty quoted string', '""'],
    ['an open quoted string', '"a'],
    ['more than a quoted string', '"a"b'],
    ['with a wrong escape', '"a\\b"'],
  ])('rejects a key that is %s', async (_title, key) => {
    expectError(await create(key), 400, 'invalid_request', ['Idempotency-Key']);
    expect(isDocumented(key)).toBe(false);
  });

  it('takes a key of 255 characters, of any punctuation, and one in quotes as without them', async () => {
    for (const [key, same, other] of [
      ['x'.repeat(255), `"${'x'.repeat(255)}"`, 'x'],
      ["!#$%&'()*+,-./:;<=>?@[]^_`{|}~", "!#$%&'()*+,-./:;<=>?@[]^_`{|}~", '!'],
      ['"a\\"b\\\\c"', 'a"b\\c', 'c'],
      ['x"y"', '"x\\"y\\""', 'y'],
    ] as const) {
      await create(key).expect(201);
      expect(isReplayed(await create(same).expect(201))).toBe(true);
      expect(isReplayed(await create(other).expect(201))).toBe(false);
      expect([key, same, other].filter(isDocumented)).toEqual([key, same, other]);
    }
  });

  it('is not used up by a request that fails, and then creates nothing', async () => {
    const refusal = `alter table pets add constraint refused check (name <> 'refused') not valid`;
    await service.query(refusal);
    expectError(await create('retry', { ...REX, name: '' }), 400, 'invalid_request');
    await create('retry', { ...REX, name: 'refused' }).expect(500);
    expect([await count('pets'), await count('idempotency_keys')]).toEqual([0, 0]);
    await create('retry').expect(201);
  });
});
