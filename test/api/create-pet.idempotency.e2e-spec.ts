import { createHash } from 'node:crypto';
import { type Clock, install } from '@sinonjs/fake-timers';
import { Client } from 'pg';
import { type Answer, expectError } from '../support/answers.js';
import { isOnCitus } from '../support/citus.js';
import { DOCUMENT, faultsBySchema } from '../support/contract.js';
import { until } from '../support/until.js';
import { serviceOfTests, startService, type TestService } from '../support/service.js';

const REX = { name: 'Rex', categoryId: 1 };

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

  /** Calls `work` while another session is in a transaction and has run `statement`, which is then rolled back. */
  async function whileHeld(statement: string, work: (holder: Client) => Promise<void>) {
    const holder = new Client({ connectionString: service.databaseUrl });
    await holder.connect();
    try {
      await holder.query(`begin; ${statement}`);
      await work(holder);
    } finally {
      await holder.end();
    }
  }

  it('creates one animal, answers every later request of the same meaning with it, and rejects others, also at once', async () => {
    const first = await create('a-key').expect(201);
    expect(first.headers).not.toHaveProperty('idempotent-replayed');
    const same = { status: 'available', categoryId: 1, name: 'Rex', x: 'red' };
    for (const again of [await create('a-key'), await create('"a-key"', same)]) {
      expect(again).toMatchObject({ status: 201, text: first.text });
      expect(again.headers['location']).toBe(first.headers['location']);
      expect(isReplayed(again)).toBe(true);
    }
    for (const field of [{ name: 'Max' }, { categoryId: 2 }, { status: 'sold' }]) {
      expectError(await create('a-key', { ...REX, ...field }), 422, 'idempotency_key_reused');
    }
    const atOnce = await Promise.all([create('b-key'), create('b-key', { ...REX, name: 'Max' })]);
    expect(atOnce.map(({ status }) => status).toSorted()).toEqual([201, 422]);
    expect(await count('pets')).toBe(2);
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

  it('returns the animal of the key, whatever column is added to the table', async () => {
    await service.query('alter table pets add column known_id bigint default 1');
    const { text } = await create('added').expect(201);
    expect((await create('added').expect(201)).text).toBe(text);
    await service.query('alter table pets drop column known_id');
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

  // services.spec.ts has two that come at once.
  it('scopes a key to the API key', async () => {
    const other = await service.keys.issue('other');
    await create('earlier', REX, other.key).expect(201);
    const answers = await Promise.all([create('shared'), create('shared', REX, other.key)]);
    expect(answers.map(({ status }) => status)).toEqual([201, 201]);
    expect(answers.filter(isReplayed)).toEqual([]);
    expect(await count('pets')).toBe(3);
  });

  it.each(['', 'x'.repeat(256), 'a b', 'caf\u00e9', '""', '"a', '"a"b', '"a\\b"'])(
    'rejects the key %j',
    async (key) => {
      expectError(await create(key), 400, 'invalid_request', ['Idempotency-Key']);
      expect(isDocumented(key)).toBe(false);
    },
  );

  it('is looked at after the body: one that is missing is reported first', async () => {
    const request = service.api.post('/v1/pets').set('Idempotency-Key', 'a b');
    expectError(await request, 400, 'invalid_json');
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

  it('is not used up by a request that fails, and then creates nothing; its values are not logged', async () => {
    const refusal = `alter table pets add constraint refused check (name <> 'refused') not valid`;
    await service.query(refusal);
    expectError(await create('retry', { ...REX, name: '' }), 400, 'invalid_request');
    await create('retry', { ...REX, name: 'refused' }).expect(500);
    expect(service.log.join('')).not.toContain('Failing row');
    expect([await count('pets'), await count('idempotency_keys')]).toEqual([0, 0]);
    await create('retry').expect(201);
  });

  describe('beside another process', () => {
    let clock: Clock;
    let other: TestService;
    beforeAll(async () => {
      clock = install({ toFake: ['setInterval', 'clearInterval'] });
      other = await startService({}, service.databaseUrl);
    });
    afterAll(async () => {
      await other.stop();
      clock.uninstall();
      // It looks for old records until it stops.
      expect(clock.countTimers()).toBe(0);
    });

    it('creates one animal for each of fifty keys, however many requests with it two processes get at once', async () => {
      const requests = Array.from({ length: 300 }, async (_, n) => {
        const body = { ...REX, categoryId: n % 50 };
        const send = () =>
          create(`many-${body.categoryId}`, body, service.key, [service, other][n % 2]);
        let answer = await send();
        while (answer.status === 409) {
          answer = await send();
        }
        expect(answer).toMatchObject({ status: 201, body });
        return answer;
      });
      const answers = await Promise.all(requests);
      expect(answers.filter((answer) => !isReplayed(answer))).toHaveLength(50);
      expect(new Set(answers.map(({ text }) => text)).size).toBe(50);
      expect(await count('pets')).toBe(50);
    });

    it('creates one animal, and answers 409, where the other process commits between the look for a record and the lock', async () => {
      // Sessions that are opened from now on find this function before PostgreSQL's own.
      const name = new URL(service.databaseUrl).pathname.slice(1);
      await service.query(`alter database ${name} set search_path = public, pg_catalog`);
      await service.query(
        `create function hashtext(text) returns int language sql volatile as
           'select pg_advisory_xact_lock_shared(1); select pg_catalog.hashtext($1)'`,
      );
      const slow = await startService({}, service.databaseUrl);
      let late: Promise<Answer>;
      await whileHeld('select pg_advisory_xact_lock(1)', async (holder) => {
        late = create('race', REX, service.key, slow).then((answer) => answer);
        await until('it waits', async () => {
          const waiting = `select from pg_locks where locktype = 'advisory' and not granted
                              and database = (select oid from pg_database where datname = current_database())`;
          return (await holder.query(waiting)).rowCount === 1;
        });
        await create('race').expect(201);
      });
      const answer = await late!;
      expectError(answer, 409, 'idempotency_key_in_use');
      expect(answer.headers['retry-after']).toBe('1');
      expect(await count('pets')).toBe(1);
      await slow.stop();
    });

    // Skipped on Citus, which does not support `for update`, and waits (stores.spec.ts).
    const itOfPostgres = isOnCitus() ? it.skip : it;

    itOfPostgres('deletes old records every ten minutes, and waits for nobody', async () => {
      await service.query(
        `with pets as (
           insert into pets (name, category_id) select 'Rex', 1 from generate_series(1, 2500) returning id
         )
         insert into idempotency_keys (api_key_id, key, body_hash, pet_id, created_at)
         select 1, id, '', id, now() - interval '25 hours' from pets`,
      );
      const oldest = `select from idempotency_keys where key = (select min(key) from idempotency_keys) for update`;
      await whileHeld(oldest, async (holder) => {
        clock.tick(10 * 60_000);
        await until('only that which is held is left', async () => {
          return (await count('idempotency_keys')) === 1;
        });
        // Another process's round, not committed yet, keeps no request with another key waiting.
        await holder.query('delete from idempotency_keys');
        await create('new').expect(201);
      });
    });
  });
});
