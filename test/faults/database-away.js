/** The database goes away, in every way that could be thought of, and comes back. */
import { execFileSync } from 'node:child_process';
import { truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { animal, ask, most, Stream, until } from './clients.js';
import { Service } from './processes.js';
import { note, skip } from './report.js';
import { TERMINATE_SESSIONS } from './postgres.js';
import { Wire } from './wire.js';

const PROMISE = 'Without its database the service says so, stays alive, and serves again with it';
const POOL = 10;

/**
 * Each is done to `{ postgres, wire }` and undone, by `end` or by what `begin` returns. `prepare` returns why that is not
 * possible here, if it is not. `canServe` tells which requests succeed meanwhile, and `isReady` whether readiness may say
 * yes.
 */
/** @type {Record<string, any>} */
const OUTAGES = {
  'killed with -9': {
    isInShort: true,
    begin: ({ postgres }) => postgres.kill(),
    end: ({ postgres }) => postgres.start(),
  },
  restarted: {
    begin: ({ postgres }) => postgres.stop(),
    end: ({ postgres }) => postgres.start(),
  },
  'refusing connections': {
    begin: ({ wire }) => wire.cut(),
    end: ({ wire }) => wire.open(),
  },
  'hanging (SIGSTOP of all its processes)': {
    begin: ({ postgres }) => postgres.freeze(),
    end: ({ postgres }) => postgres.thaw(),
  },
  'silent (packets are lost, those of open connections for ever)': {
    isInShort: true,
    begin({ wire }) {
      wire.isSilent = true;
    },
    end({ wire }) {
      wire.isSilent = false;
    },
  },
  'out of connections': {
    async begin({ postgres }) {
      const hogs = [await postgres.connect()];
      // The service gets some back at first: what it is left without is taken again.
      for (let refused = 0; refused < 20;) {
        await hogs[0].query(TERMINATE_SESSIONS);
        await postgres.connect().then(
          (hog) => hogs.push(hog),
          () => (refused += 1),
        );
      }
      return () => Promise.all(hogs.map((hog) => hog.end()));
    },
  },
  'read-only (default_transaction_read_only)': {
    isInShort: true,
    canServe: (method) => method === 'GET',
    async begin({ postgres }) {
      await postgres.query('alter system set default_transaction_read_only = on');
      await postgres.query('select pg_reload_conf()');
    },
    async end({ postgres }) {
      await postgres.query('alter system reset default_transaction_read_only');
      await postgres.query('select pg_reload_conf()');
    },
  },
  'killed, and its standby takes over': {
    canServe: (method) => method === 'GET',
    async prepare({ postgres }) {
      this.standby = await postgres.createStandby();
    },
    async begin({ postgres, wire }) {
      await postgres.kill();
      wire.target = this.standby.port;
      wire.dropConnections();
    },
    async end() {
      await this.standby.query('select pg_promote()');
    },
    async tidy({ postgres, wire }) {
      await this.standby.remove();
      await postgres.start();
      wire.target = postgres.port;
      wire.dropConnections();
    },
  },
  'without the standby that commits wait for': {
    canServe: (method) => method === 'GET',
    isReady: true,
    async begin({ postgres }) {
      await postgres.query(`alter system set synchronous_standby_names = 'nobody'`);
      await postgres.query('select pg_reload_conf()');
    },
    // PostgreSQL goes on with such a commit when its client has left.
    async end({ postgres }) {
      this.sessions = await postgres.sessions();
      await postgres.query('alter system reset synchronous_standby_names');
      await postgres.query('select pg_reload_conf()');
    },
  },
  'out of disk space': {
    canServe: (method) => method === 'GET',
    async prepare({ postgres }) {
      const disk = join(postgres.folder, 'disk');
      await postgres.makeFolder(disk);
      try {
        execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=4m,mode=777', 'tmpfs', disk]);
      } catch {
        return 'a small disk cannot be mounted here';
      }
      this.unmount = () => execFileSync('umount', ['--lazy', disk]);
      process.prependOnceListener('exit', this.unmount);
      this.ballast = join(disk, 'ballast');
      const space = join(disk, 'space');
      await postgres.makeFolder(space);
      await postgres.query(`create tablespace small location '${space}'`);
      await postgres.query('truncate pets cascade');
      await postgres.query('alter table pets set tablespace small');
      return undefined;
    },
    async begin({ postgres }) {
      await writeFile(this.ballast, Buffer.alloc(5_000_000)).catch(() => {});
      // The last page of the table may have room yet.
      await postgres
        .query(
          `insert into pets (name, category_id) select repeat('x', 255), 1 from generate_series(1, 5000)`,
        )
        .catch(() => {});
      for (let isFull = false; !isFull;) {
        isFull = await postgres
          .query(`insert into pets (name, category_id) select repeat('x', 255), 1`)
          .then(() => false)
          .catch(() => true);
      }
    },
    end() {
      return truncate(this.ballast, 0);
    },
    async tidy({ postgres }) {
      await postgres.query('alter table pets set tablespace pg_default');
      await postgres.query('drop tablespace small');
      process.off('exit', this.unmount);
      this.unmount();
    },
  },
};

/** @param {{ postgres: import('./postgres.js').Postgres, isShort: boolean }} run */
export async function databaseAway({ postgres, isShort }) {
  const wire = await new Wire(postgres.port).open();
  const service = await Service.start(wire.url);
  try {
    for (const [name, outage] of Object.entries(OUTAGES)) {
      if (isShort && !outage.isInShort) {
        continue;
      }
      const run = { postgres, wire, service };
      const hindrance = await outage.prepare?.(run);
      if (hindrance === undefined) {
        await endure(name, outage, run, isShort ? 2_000 : 6_000);
      } else {
        skip(PROMISE, name, hindrance);
      }
    }
    if (!isShort) {
      await endureSlowness({ postgres, service });
    }
  } finally {
    wire.cut();
    await service.end('SIGKILL');
  }
}

async function endure(name, outage, run, milliseconds) {
  const { canServe = () => false, isReady = false } = outage;
  const { postgres, service } = run;
  const { questions, healthOf } = asking(postgres, service);
  await wait(500);

  const begun = performance.now();
  const undo = await outage.begin(run);
  const during = performance.now();
  await wait(milliseconds);
  const ending = performance.now();
  await (undo ?? (() => outage.end(run)))();
  const ended = performance.now();
  // Every kind of request succeeds, one after the other.
  const back = await until(async () => {
    for (const question of QUESTIONS(postgres.key)) {
      const { status } = await ask(service.origin, question(`back-${performance.now()}`));
      if (status !== 200 && status !== 201) {
        return false;
      }
    }
    return true;
  }, 15_000);
  await wait(500);
  const answers = await questions.stop();
  const { live, ready } = await healthOf();
  const settled = answers.filter(({ at }) => at > ended + back);
  const sessions = Math.max(outage.sessions ?? 0, await (outage.standby ?? postgres).sessions());
  /** @param {{ status?: number }} answer */
  const isServed = ({ status }) => status === 200 || status === 201;
  const isWrong = (answer) =>
    !(isServed(answer) || (answer.status === 503 && answer.headers['retry-after'] !== undefined));
  const hidden = answers.filter(
    ({ at, ms, question: { method = 'GET' }, ...answer }) =>
      at > during + 200 && at + ms < ending && canServe(method) && !isServed(answer),
  );
  const refused = answers.filter(({ status, at }) => status === 503 && at > begun && at < ended);
  note(PROMISE, name, [
    { name: 'refused', value: refused.length, atLeast: 1 },
    {
      name: 'longest answer',
      value: most(answers.map(({ ms }) => ms)),
      unit: ' ms',
      atMost: 5_000,
    },
    {
      name: 'other than 2xx and 503 with Retry-After',
      value: answers.filter(isWrong).length,
      is: 0,
    },
    ...(canServe('GET')
      ? // While the service learns of it, its old sessions end under some.
        [{ name: 'lists refused', value: hidden.length, atMost: 5, isTimed: true }]
      : []),
    {
      name: 'live',
      value: most(live.map(({ status, ms }) => (status === 200 ? ms : Infinity))),
      unit: ' ms',
      atMost: 1_000,
    },
    {
      name: 'ready',
      value: ready.some(({ at, status }) => at > begun && at < ended && status === 503)
        ? 'no'
        : 'yes',
      is: isReady ? 'yes' : 'no',
    },
    { name: 'back after', value: Math.round(back), unit: ' ms', atMost: 2_000 },
    {
      name: 'refused afterwards',
      value: settled.filter((answer) => !isServed(answer)).length,
      is: 0,
    },
    { name: 'sessions', value: sessions, atMost: POOL },
  ]);
  await outage.tidy?.(run);
  await until(
    async () => (await ask(service.origin, { path: '/health/ready' })).status === 200,
    10_000,
  );
}

/** A lock keeps statements waiting, first within the bounds, then beyond. */
async function endureSlowness({ postgres, service }) {
  /** @type {[milliseconds: number, isWithin: boolean][]} */
  const waits = [
    [600, true],
    [4_000, false],
  ];
  for (const [milliseconds, isWithin] of waits) {
    const locker = await postgres.connect();
    await locker.query('begin; lock table pets in access exclusive mode');
    const { questions, healthOf } = asking(postgres, service);
    await wait(milliseconds);
    await locker.end();
    const back = await until(
      async () =>
        (await ask(service.origin, { path: '/v1/pets', key: postgres.key })).status === 200,
      15_000,
    );
    const answers = await questions.stop();
    const { live } = await healthOf();
    const refused = answers.filter(({ status }) => status === 503);
    note(PROMISE, `slow: every statement waits, for ${milliseconds} ms`, [
      isWithin
        ? { name: 'refused', value: refused.length, is: 0 }
        : { name: 'refused', value: refused.length, atLeast: 1 },
      {
        name: 'longest answer',
        value: most(answers.map(({ ms }) => ms)),
        unit: ' ms',
        atMost: 5_000,
      },
      {
        name: 'other than 2xx and 503',
        value: answers.filter(({ status }) => ![200, 201, 503].includes(status ?? 0)).length,
        is: 0,
      },
      { name: 'live', value: most(live.map(({ ms }) => ms)), unit: ' ms', atMost: 1_000 },
      { name: 'back after', value: Math.round(back), unit: ' ms', atMost: 2_000 },
    ]);
  }
}

/** All operations, in turn. */
const QUESTIONS = (key) => [
  () => ({ path: '/v1/pets', key }),
  (n) => ({ method: 'POST', path: '/v1/pets', key, body: animal(`n${n}`) }),
  () => ({ path: '/v1/pets?status=sold', key }),
  (n) => ({
    method: 'POST',
    path: '/v1/pets',
    key,
    body: animal(`n${n}`),
    headers: { 'Idempotency-Key': `away-${process.pid}-${performance.now()}-${n}` },
  }),
];

function asking({ key }, { origin }) {
  const all = QUESTIONS(key);
  const questions = new Stream(origin, 10, (n) => all[n % all.length](n));
  const live = new Stream(origin, 100, () => ({ path: '/health/live' }));
  const ready = new Stream(origin, 100, () => ({ path: '/health/ready' }));
  return {
    questions,
    healthOf: async () => ({ live: await live.stop(), ready: await ready.stop() }),
  };
}
