import { createHash } from 'node:crypto';
import { Client } from 'pg';
import { createLogger } from '../../src/logging/logger.js';
import { IdempotentCreation } from '../../src/pets/idempotent-creation.js';
import { expectError } from '../support/answers.js';
import { describeNotOnCitus, itNotOnCitus } from '../support/citus.js';
import { until } from '../support/until.js';
import { serviceOfTests, startService, type TestService } from '../support/service.js';

/** The sessions of this database that wait for a lock. */
const WAITING = `
  select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`;

describe('createPet with an Idempotency-Key', () => {
  const service = serviceOfTests();
  beforeEach(() => service.query('truncate pets, idempotency_keys cascade'));

  const create = (
    key: string,
    body: object = { name: 'Rex', categoryId: 1 },
    apiKey = service.key,
  ) =>
    service.anonymous
      .post('/v1/pets')
      .set('Authorization', `Bearer ${apiKey}`)
      .set('Idempotency-Key', key)
      .send(body);

  const count = async (table: 'pets' | 'idempotency_keys') =>
    Number((await service.query(`select count(*) from ${table}`))[0].count);

  it('creates one animal, and answers every later request with it', async () => {
    const first = await create('a-key').expect(201);
    expect(first.headers).not.toHaveProperty('idempotent-replayed');
    for (const key of ['a-key', '"a-key"']) {
      const again = await create(key).expect(201);
      expect(again.text).toBe(first.text);
      expect(again.headers['location']).toBe(first.headers['location']);
      expect(again.headers['idempotent-replayed']).toBe('true');
    }
    expect(await count('pets')).toBe(1);
  });

  it('knows the body that another version of the service recorded', async () => {
    const recorded = createHash('sha256').update('["Rex","7","available"]').digest();
    await service.query(
      `with pet as (insert into pets (name, category_id) values ('Rex', 7) returning id)
       insert into idempotency_keys (api_key_id, key, body_hash, pet_id)
       select api_keys.id, 'earlier', $1, pet.id from api_keys, pet`,
      [recorded],
    );
    const again = await create('earlier', { name: 'Rex', categoryId: 7 }).expect(201);
    expect(again.headers['idempotent-replayed']).toBe('true');
    expect(await count('pets')).toBe(1);
  });

  it('creates one animal for twenty twins at once', async () => {
    const twins = await Promise.all(Array.from({ length: 20 }, () => create('twin')));
    expect(new Set(twins.map(({ status, text }) => `${status} ${text}`)).size).toBe(1);
    expect(twins[0]!.status).toBe(201);
    expect(twins.filter(({ headers }) => headers['idempotent-replayed'] === 'true')).toHaveLength(
      19,
    );
    expect(await count('pets')).toBe(1);
  });

  it('gives each of hundreds at once its own animal, and the same again', async () => {
    const createAll = () =>
      Promise.all(
        Array.from({ length: 300 }, (_, n) => create(`many-${n}`, { name: `${n}`, categoryId: n })),
      );
    const answers = await createAll();
    answers.forEach(({ status, body }, n) =>
      expect([status, body]).toEqual([
        201,
        expect.objectContaining({ name: `${n}`, categoryId: n }),
      ]),
    );
    expect(await count('pets')).toBe(300);
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
    const holder = new Client({ connectionString: service.databaseUrl });
    await holder.connect();
    try {
      await holder.query(`begin; select from idempotency_keys where key = 'held' for update`);
      const answers = await Promise.all([create('held'), create('free')]);
      expect(answers.map(({ status }) => status)).toEqual([201, 201]);
      expect(answers[0]!.text).toBe(first.text);
    } finally {
      await holder.end();
    }
  });

  itNotOnCitus('waits for no old record that someone holds, nor lets others wait', async () => {
    await create('held').expect(201);
    await service.query(`update idempotency_keys set created_at = now() - interval '25 hours'`);
    const holder = new Client({ connectionString: service.databaseUrl });
    await holder.connect();
    try {
      for (const [other, statement] of [
        ['other-1', 'select from idempotency_keys for update'],
        ['other-2', 'delete from idempotency_keys'],
      ] as const) {
        await holder.query(`begin; ${statement}`);
        const answers = await Promise.all([create('held'), create(other)]);
        expectError(answers[0]!, 409, 'idempotency_key_in_use');
        expect(answers[1]!.status).toBe(201);
        await holder.query('rollback');
      }
    } finally {
      await holder.end();
    }
    const later = await create('held').expect(201);
    expect(later.headers).not.toHaveProperty('idempotent-replayed');
  });

  it('keeps no API key waiting while someone holds the row of another', async () => {
    const holder = new Client({ connectionString: service.databaseUrl });
    await holder.connect();
    try {
      const other = await service.keys.issue('other');
      await holder.query('begin');
      await holder.query(`select from api_keys where id <> $1 for update`, [other.id]);
      const answers = await Promise.all(
        Array.from({ length: 40 }, (_, n) =>
          create(`key-${n}`, undefined, n % 2 === 0 ? service.key : other.key),
        ),
      );
      expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 201));
    } finally {
      await holder.end();
    }
  });

  it('creates a pet or says 401, while a process still trusts an API key that was deleted', async () => {
    const { id, key } = await service.keys.issue('deleted');
    const first = await create('before', undefined, key).expect(201);
    await service.query('delete from api_keys where id = $1', [id]);
    await create('after', undefined, key).expect(201);
    expect((await create('before', undefined, key).expect(201)).text).toBe(first.text);
    await until('the key is refused', async () => {
      const answer = await create('after', undefined, key);
      expect([201, 401]).toContain(answer.status);
      return answer.status === 401;
    });
  });

  it('takes a body of the same meaning for the same body', async () => {
    const first = await create('k', { name: 'Rex', categoryId: 1 }).expect(201);
    const again = await create('k', {
      status: 'available',
      categoryId: 1,
      name: 'Rex',
      colour: 'red',
    });
    expect(again.text).toBe(first.text);
  });

  it.each([
    ['name', { name: 'Max', categoryId: 1 }],
    ['categoryId', { name: 'Rex', categoryId: 2 }],
    ['status', { name: 'Rex', categoryId: 1, status: 'sold' }],
  ])('refuses a used key with another %s, and creates nothing', async (_field, body) => {
    await create('used').expect(201);
    expectError(await create('used', body), 422, 'idempotency_key_reused');
    expect(await count('pets')).toBe(1);
  });

  it('scopes a key to the API key', async () => {
    const other = await service.keys.issue('other');
    await create('shared').expect(201);
    const answer = await create('shared', { name: 'Max', categoryId: 2 }, other.key).expect(201);
    expect(answer.headers).not.toHaveProperty('idempotent-replayed');
    expect(await count('pets')).toBe(2);
  });

  it('remembers a key for 24 hours and no longer', async () => {
    const age = (interval: string) =>
      service.query(`update idempotency_keys set created_at = now() - interval '${interval}'`);
    const first = await create('old').expect(201);
    await age('23 hours 59 minutes');
    expect((await create('old').expect(201)).text).toBe(first.text);
    await age('24 hours 1 minute');
    const later = await create('old', { name: 'Max', categoryId: 2 }).expect(201);
    expect(later.headers).not.toHaveProperty('idempotent-replayed');
    expect((await create('old', { name: 'Max', categoryId: 2 })).text).toBe(later.text);
    expect(await count('pets')).toBe(2);
  });

  it('does not use a key up for a request that is refused', async () => {
    expectError(await create('retry', { name: '', categoryId: 1 }), 400, 'invalid_request');
    expect(await count('idempotency_keys')).toBe(0);
    await create('retry').expect(201);
  });

  describeNotOnCitus('while another process works on the first request', () => {
    let first: TestService;
    let locker: Client;
    beforeAll(async () => {
      first = await startService({}, service.databaseUrl);
      locker = new Client({ connectionString: service.databaseUrl });
      await locker.connect();
      // Whoever adds an animal called slow, waits.
      await service.query(
        `create function wait() returns trigger language plpgsql as
           'begin perform pg_advisory_xact_lock(1); return new; end'`,
      );
      await service.query(
        `create trigger wait before insert on pets for each row when (new.name = 'slow')
           execute function wait()`,
      );
    });
    afterAll(async () => {
      await locker.end();
      await first.stop();
    });

    const slow = { name: 'slow', categoryId: 1 };

    it('answers retries that come to both at once with the animal, and uses no id up', async () => {
      const created = await create('known').expect(201);
      const retry = ({ anonymous }: TestService) =>
        anonymous
          .post('/v1/pets')
          .set('Authorization', `Bearer ${service.key}`)
          .set('Idempotency-Key', 'known')
          .send({ name: 'Rex', categoryId: 1 });
      for (let i = 0; i < 50; i += 1) {
        for (const answer of await Promise.all([retry(service), retry(first)])) {
          expect([answer.status, answer.text]).toEqual([201, created.text]);
        }
      }
      const next = await create('next').expect(201);
      expect(next.body.id).toBe(created.body.id + 1);
    });

    it('answers twins at once with 409, keeps no other key waiting, and creates one animal', async () => {
      await locker.query('begin; select pg_advisory_xact_lock(1)');
      const creation = first.anonymous
        .post('/v1/pets')
        .set('Authorization', `Bearer ${service.key}`)
        .set('Idempotency-Key', 'slow')
        .send(slow)
        .then((answer) => answer);
      await until('it waits', async () => {
        const [{ waiting }] = await service.query(
          `select count(*)::int as waiting from (${WAITING}) as session`,
        );
        return waiting > 0;
      });
      const twins = Array.from({ length: 10 }, () => create('slow', slow));
      const others = Array.from({ length: 10 }, (_, n) => create(`other-${n}`));
      for (const answer of await Promise.all(twins)) {
        expectError(answer, 409, 'idempotency_key_in_use');
        expect(answer.headers['retry-after']).toBe('1');
      }
      for (const { status } of await Promise.all(others)) {
        expect(status).toBe(201);
      }
      await locker.query('rollback');
      const created = await creation;
      expect(created.status).toBe(201);
      expect((await create('slow', slow)).text).toBe(created.text);
      expect(await count('pets')).toBe(11);
    });
  });

  describe('while it works on the first request', () => {
    const twinsOf = async (key: string, bodies: object[]) => {
      const locker = new Client({ connectionString: service.databaseUrl });
      await locker.connect();
      await locker.query('begin; lock table pets in access exclusive mode');
      const answers = bodies.map((body) => create(key, body).then((answer) => answer));
      await until('it waits', async () => {
        const { rowCount } = await locker.query(WAITING);
        return rowCount! > 0;
      });
      await locker.end();
      return Promise.all(answers);
    };
    const rex = { name: 'Rex', categoryId: 1 };
    const max = { name: 'Max', categoryId: 1 };

    it('answers a twin with another body with 422', async () => {
      const answers = await twinsOf('two', [rex, max, rex, max]);
      const statuses = answers.map(({ status }) => status);
      expect(statuses.toSorted()).toEqual([201, 201, 422, 422]);
      expect(await count('pets')).toBe(1);
    });

    it('answers a later request with the first body although one with another body is before it', async () => {
      const first = await create('three', rex).expect(201);
      const answers = await twinsOf('three', [max, rex, max, rex]);
      expect(answers.map(({ status }) => status).toSorted()).toEqual([201, 201, 422, 422]);
      for (const { status, text } of answers) {
        expect(status === 422 || text === first.text).toBe(true);
      }
    });
  });

  it.each(['pets', 'idempotency_keys'])(
    'answers 503, not 409, where it is the table %s that keeps it waiting',
    async (table) => {
      await create('earlier').expect(201);
      const operator = new Client({ connectionString: service.databaseUrl });
      await operator.connect();
      try {
        await operator.query(`begin; lock table ${table} in access exclusive mode`);
        expectError(await create('slow'), 503, 'unavailable');
      } finally {
        await operator.end();
      }
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
    const other = new Client({ connectionString: service.databaseUrl });
    await other.connect();
    try {
      await other.query('begin');
      await other.query(
        `select from idempotency_keys where key = (select min(key) from idempotency_keys) for update`,
      );
      await new IdempotentCreation(service.pool, createLogger('silent'))['sweep']();
      expect(await count('idempotency_keys')).toBe(1);
      // Another process's round, not committed yet, keeps no request waiting.
      await other.query('update idempotency_keys set created_at = created_at');
      await other.query('delete from idempotency_keys');
      await create('new').expect(201);
      await service.api.get('/v1/pets').expect(200);
    } finally {
      await other.end();
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
    expectError(await create(key), 400, 'invalid_request');
    expect(await count('pets')).toBe(0);
  });

  it.each([
    ['255 characters', 'x'.repeat(255)],
    ['all punctuation', "!#$%&'()*+,-./:;<=>?@[]^_`{|}~"],
    ['a quoted string with escapes', '"a\\"b\\\\c"'],
  ])('takes a key of %s', async (_title, key) => {
    await create(key).expect(201);
    expect((await create(key).expect(201)).headers['idempotent-replayed']).toBe('true');
  });

  it('deletes records that are older than 24 hours, and no others', async () => {
    await create('young').expect(201);
    await create('old').expect(201);
    await service.query(
      `update idempotency_keys set created_at = now() - interval '25 hours' where key = 'old'`,
    );
    await new IdempotentCreation(service.pool, createLogger('silent'))['sweep']();
    expect(await service.query('select key from idempotency_keys')).toEqual([{ key: 'young' }]);
    expect(await count('pets')).toBe(2);
  });

  it('never keeps an animal without its key, or a key without its animal', async () => {
    await service.query(
      `alter table pets add constraint refused check (name <> 'refused') not valid`,
    );
    await create('half', { name: 'refused', categoryId: 1 }).expect(500);
    expect([await count('pets'), await count('idempotency_keys')]).toEqual([0, 0]);
    await service.query('alter table pets drop constraint refused');
  });
});
