import { createHash } from 'node:crypto';
import { install } from '@sinonjs/fake-timers';
import { Client } from 'pg';
import { createLogger } from '../../src/logging/logger.js';
import { IdempotentCreation } from '../../src/pets/idempotent-creation.js';
import { expectError } from '../support/answers.js';
import { describeNotOnCitus, itNotOnCitus } from '../support/citus.js';
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
  const isReplayed = ({ headers }: { headers: Record<string, string> }) =>
    headers['idempotent-replayed'] === 'true';

  const count = async (table: 'pets' | 'idempotency_keys') =>
    (await service.query(`select count(*)::int from ${table}`))[0].count;
  const age = (interval: string, condition = 'true') =>
    service.query(
      `update idempotency_keys set created_at = now() - interval '${interval}' where ${condition}`,
    );

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
  const untilBlocked = (holder: Client, sessions = 1) =>
    until('they wait', async () => (await holder.query(WAITING)).rows[0].count >= sessions);

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
    const recorded = createHash('sha256').update('["Rex","1","available"]').digest();
    await service.query(
      `with pet as (insert into pets (name, category_id) values ('Rex', 1) returning id)
       insert into idempotency_keys (api_key_id, key, body_hash, pet_id)
       select api_keys.id, 'earlier', $1, pet.id from api_keys, pet`,
      [recorded],
    );
    expect(isReplayed(await create('earlier').expect(201))).toBe(true);
    expect(await count('pets')).toBe(1);
  });

  it('creates one animal for twenty twins at once', async () => {
    const twins = await Promise.all(Array.from({ length: 20 }, () => create('twin')));
    expect(new Set(twins.map(({ status, text }) => `${status} ${text}`)).size).toBe(1);
    expect(twins[0]!.status).toBe(201);
    expect(twins.filter(isReplayed)).toHaveLength(19);
    expect(await count('pets')).toBe(1);
  });

  it('gives each of hundreds at once its own animal, and the same again', async () => {
    const createAll = () =>
      Promise.all(
        Array.from({ length: 300 }, (_, n) => create(`many-${n}`, { name: `${n}`, categoryId: n })),
      );
    const answers = await createAll();
    expect(answers.map(({ status, body }) => [status, body.name, body.categoryId])).toEqual(
      answers.map((_, n) => [201, `${n}`, n]),
    );
    expect((await createAll()).map(({ text }) => text)).toEqual(answers.map(({ text }) => text));
    expect(await count('pets')).toBe(300);
  });

  it('answers hundreds of other bodies at once with 422', async () => {
    await create('used').expect(201);
    const answers = await Promise.all(
      Array.from({ length: 300 }, (_, n) => create('used', { name: `${n}`, categoryId: n })),
    );
    expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 422));
    expect(await count('pets')).toBe(1);
  });

  it('neither waits for a record that someone holds, nor lets others wait', async () => {
    const first = await create('held').expect(201);
    await whileHeld(`select from idempotency_keys for update`, async () => {
      const [again, other] = await Promise.all([create('held'), create('free')]);
      expect([again.text, other.status]).toEqual([first.text, 201]);
    });
  });

  it('keeps no API key waiting while someone holds the row of another', async () => {
    const other = await service.keys.issue('other');
    await whileHeld(`select from api_keys where id <> ${other.id} for update`, async () => {
      const answers = await Promise.all(
        Array.from({ length: 40 }, (_, n) =>
          create(`key-${n}`, REX, n % 2 === 0 ? service.key : other.key),
        ),
      );
      expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 201));
    });
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

  it('takes a body of the same meaning for the same body', async () => {
    const first = await create('k').expect(201);
    const again = await create('k', { status: 'available', categoryId: 1, name: 'Rex', x: 'red' });
    expect(again.text).toBe(first.text);
  });

  it.each([{ name: 'Max' }, { categoryId: 2 }, { status: 'sold' }])(
    'refuses a used key with another field, and creates nothing: %j',
    async (field) => {
      await create('used').expect(201);
      expectError(await create('used', { ...REX, ...field }), 422, 'idempotency_key_reused');
      expect(await count('pets')).toBe(1);
    },
  );

  it('scopes a key to the API key', async () => {
    const other = await service.keys.issue('other');
    await create('shared').expect(201);
    expect(isReplayed(await create('shared', MAX, other.key).expect(201))).toBe(false);
    expect(await count('pets')).toBe(2);
  });

  it('remembers a key for 24 hours and no longer', async () => {
    const first = await create('old').expect(201);
    await age('23 hours 59 minutes');
    expect((await create('old').expect(201)).text).toBe(first.text);
    await age('24 hours 1 minute');
    const later = await create('old', MAX).expect(201);
    expect(isReplayed(later)).toBe(false);
    expect((await create('old', MAX)).text).toBe(later.text);
    expect(await count('pets')).toBe(2);
  });

  it('does not use a key up for a request that is refused', async () => {
    expectError(await create('retry', { ...REX, name: '' }), 400, 'invalid_request');
    expect(await count('idempotency_keys')).toBe(0);
    await create('retry').expect(201);
  });

  describeNotOnCitus('while another process works on the first request', () => {
    let other: TestService;
    beforeAll(async () => {
      other = await startService({}, service.databaseUrl);
    });
    afterAll(() => other.stop());

    it('answers retries that come to both at once with the animal, and uses no id up', async () => {
      const created = await create('known').expect(201);
      for (let i = 0; i < 50; i += 1) {
        const retries = [service, other].map((one) => create('known', REX, service.key, one));
        for (const { status, text } of await Promise.all(retries)) {
          expect([status, text]).toEqual([201, created.text]);
        }
      }
      const next = await create('next').expect(201);
      expect(next.body.id).toBe(created.body.id + 1);
    });

    it('answers twins at once with 409, keeps no other key waiting, and creates one animal', async () => {
      const slow = { name: 'slow', categoryId: 1 };
      await service.query(
        `create function wait() returns trigger language plpgsql as
           'begin perform pg_advisory_xact_lock(1); return new; end';
         create trigger wait before insert on pets for each row when (new.name = 'slow') execute function wait()`,
      );
      const creation = await whileHeld('select pg_advisory_xact_lock(1)', async (holder) => {
        const first = create('slow', slow, service.key, other).then((answer) => answer);
        await untilBlocked(holder);
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

  it.each([false, true])(
    'answers twins with another body with 422 while it works on the first request, the key in use before: %s',
    async (isUsed) => {
      const bodies = isUsed ? [MAX, REX, MAX, REX] : [REX, MAX, REX, MAX];
      const first = isUsed ? await create('twins').expect(201) : undefined;
      const held = 'lock table pets in access exclusive mode';
      const { twins } = await whileHeld(held, async (holder) => {
        const asked = bodies.map((body) => create('twins', body).then((answer) => answer));
        await untilBlocked(holder);
        // Another key, so another batch leaves, and the twins do not leave with it.
        asked.push(create('other').then((answer) => answer));
        await untilBlocked(holder, 2);
        return { twins: asked };
      });
      const answers = (await Promise.all(twins)).slice(0, bodies.length);
      expect(answers.map(({ status }) => status)).toEqual(
        bodies.map((body) => (body === REX ? 201 : 422)),
      );
      const texts = answers.filter(({ status }) => status === 201).map(({ text }) => text);
      expect(new Set([...texts, first?.text ?? texts[0]]).size).toBe(1);
      expect(await count('pets')).toBe(2);
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

  const sweep = () => new IdempotentCreation(service.pool, createLogger('silent'))['sweep']();

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
      await sweep();
      expect(await count('idempotency_keys')).toBe(1);
      // Another process's round, not committed yet, keeps no request with another key waiting.
      await holder.query('delete from idempotency_keys');
      await create('new').expect(201);
    });
  });

  it('deletes records that are older than 24 hours, and no others', async () => {
    await create('young').expect(201);
    await create('old').expect(201);
    await age('25 hours', `key = 'old'`);
    await sweep();
    expect(await service.query('select key from idempotency_keys')).toEqual([{ key: 'young' }]);
    expect(await count('pets')).toBe(2);
  });

  it('looks for old records every ten minutes, until it stops', () => {
    const query = jest.fn(async () => ({ rows: [] }));
    const creation = new IdempotentCreation({ query } as any, createLogger('silent'));
    const clock = install({ toFake: ['setInterval', 'clearInterval'] });
    try {
      creation.onModuleInit();
      clock.tick(10 * 60_000 - 1);
      expect(query).toHaveBeenCalledTimes(0);
      clock.tick(1);
      expect(query).toHaveBeenCalledTimes(1);
      creation.onModuleDestroy();
      clock.tick(10 * 60_000);
      expect(query).toHaveBeenCalledTimes(1);
    } finally {
      clock.uninstall();
    }
  });

  it.each([
    ['empty', ''],
    ['256 characters', 'x'.repeat(256)],
    ['with a space', 'a b'],
    ['beyond ASCII', 'caf\u00e9'],
    ['an empty quoted string', '""'],
    ['an open quoted string', '"a'],
    ['with a wrong escape', '"a\\b"'],
  ])('refuses a key that is %s', async (_title, key) => {
    expectError(await create(key), 400, 'invalid_request', ['Idempotency-Key']);
    expect(await count('pets')).toBe(0);
  });

  it.each([
    ['255 characters', 'x'.repeat(255)],
    ['all punctuation', "!#$%&'()*+,-./:;<=>?@[]^_`{|}~"],
    ['a quoted string with escapes', '"a\\"b\\\\c"', 'a"b\\c'],
  ])('takes a key of %s', async (_title, key, same = key) => {
    await create(key).expect(201);
    expect(isReplayed(await create(same).expect(201))).toBe(true);
  });

  it('takes a key with quotes inside for itself', async () => {
    await create('x"y"').expect(201);
    expect(isReplayed(await create('y').expect(201))).toBe(false);
  });

  it('never keeps an animal without its key, or a key without its animal', async () => {
    await service.query(
      `alter table pets add constraint refused check (name <> 'refused') not valid`,
    );
    await create('half', { ...REX, name: 'refused' }).expect(500);
    expect([await count('pets'), await count('idempotency_keys')]).toEqual([0, 0]);
    await service.query('alter table pets drop constraint refused');
  });
});
