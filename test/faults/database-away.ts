/**
 * Faults of the database, the disk, the network and the clock, under requests that come at a fixed rate: a client that
 * waits for its response would not notice a stuck session. test/database tests more kinds, one by one.
 */
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { chown, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { Client } from 'pg';
import { query } from '../support/ask.js';
import { temporaryFolder } from '../support/temporary-folder.js';
import { until } from '../support/until.js';
import {
  type Answer,
  ask,
  create,
  isServed,
  longest,
  most,
  type Question,
  Stream,
} from './clients.js';
import { type Figure, note, skip } from './report.js';
import { type Run, Service, sessions } from './service.js';

/** Kinds of requests. The names are long, so that the table soon needs another page. */
const KINDS: Record<string, (key: string, n: number) => Question> = {
  lists: (key) => ({ path: '/v1/pets?limit=1', key }),
  creates: (key) => create(key, 'x'.repeat(200)),
  orders: (key) => ({ path: '/v1/store/orders', key }),
  'creates with a key': (key, n) => create(key, 'x'.repeat(200), `away-${performance.now()}-${n}`),
};

interface Parts extends Run {
  /** A file that says what is added to the time of the service. */
  clock: string;
  service: Service;
}

interface Fault {
  /** Begins it. @returns what ends it, or why it cannot begin here. */
  begin: (parts: Parts) => Promise<(() => unknown) | string>;
  /** Percent of all requests, or of those of a kind, that may fail meanwhile. */
  mayFail?: Record<string, number>;
  /** Whether readiness becomes 503. */
  isUnready?: boolean;
}

/** By what happens. */
const FAULTS: Record<string, Fault> = {
  'PostgreSQL is killed with -9': {
    isUnready: true,
    begin: async ({ postgres }) => {
      await postgres.kill();
      return () => postgres.launch();
    },
  },
  'all processes of PostgreSQL hang (SIGSTOP)': {
    isUnready: true,
    begin: async ({ postgres }) => {
      postgres.pause();
      return () => postgres.resume();
    },
  },
  'a session hangs (SIGSTOP) in a statement': {
    mayFail: { requests: 5 },
    begin: async ({ postgres: { url } }) => {
      const holder = new Client({ connectionString: url });
      await holder.connect();
      await holder.query('begin; lock table pets in access exclusive mode');
      const waiting = `select pid from pg_stat_activity where application_name = 'animal-store' and wait_event_type = 'Lock'`;
      const { pid } = await until('a session waits', async () => (await query(url, waiting))[0]);
      process.kill(pid, 'SIGSTOP');
      await holder.end();
      return () => process.kill(pid, 'SIGCONT');
    },
  },
  'the disk is full': { mayFail: { lists: 0, orders: 0 }, begin: fillDisk },
  'commits wait for a standby that is missing': {
    // Before the service notices, some requests lose their session.
    mayFail: { lists: 5, orders: 5 },
    begin: async ({ postgres: { url } }) => {
      await setStandbyNames(url, `'nobody'`);
      return () => setStandbyNames(url, 'default');
    },
  },
  'the clock of the service is set back by an hour, and forward again': {
    mayFail: { requests: 0 },
    begin: async ({ clock, service: { origin } }) => {
      if (LIBFAKETIME === undefined) {
        return 'faketime is not installed';
      }
      await writeFile(clock, '-1h');
      await until('it is behind', async () => {
        const { headers } = await ask(origin, { path: '/health/live' });
        return Date.parse(headers?.['date']) < Date.now() - 3_000_000;
      });
      return () => writeFile(clock, '+0');
    },
  },
};

export async function setStandbyNames(url: string, names: string): Promise<void> {
  const setting = `alter system set synchronous_standby_names = ${names}`;
  await query(url, setting, 'select pg_reload_conf()');
}

/** Fills the disk of the tables, a small one that is made for them, but not that of the log: PostgreSQL would stop. */
async function fillDisk({ postgres: { url } }: Parts) {
  const folder = await temporaryFolder();
  const mount = ['-t', 'tmpfs', '-o', 'size=32m', 'tmpfs', folder];
  if (spawnSync('mount', mount).status !== 0) {
    return 'a small disk cannot be mounted: that takes root';
  }
  const [{ data }] = await query(url, `select current_setting('data_directory') as data`);
  const { uid, gid } = await stat(data);
  await chown(folder, uid, gid);
  await query(
    url,
    `create tablespace small location '${folder}'`,
    'alter table pets set tablespace small',
  );
  // Although PostgreSQL may have a file of it open.
  const unmount = () => spawnSync('umount', ['--lazy', folder]);
  process.once('exit', unmount);
  spawnSync('cp', ['/dev/zero', join(folder, 'filler')]);
  return async () => {
    await rm(join(folder, 'filler'));
    await query(url, 'alter table pets set tablespace pg_default', 'drop tablespace small');
    unmount();
  };
}

/** Debian's package faketime has it. */
const LIBFAKETIME = ['x86_64', 'aarch64']
  .map((machine) => `/usr/lib/${machine}-linux-gnu/faketime/libfaketime.so.1`)
  .find((file) => existsSync(file));

export async function databaseAway(run: Run): Promise<void> {
  const clock = join(await temporaryFolder(), 'clock');
  await writeFile(clock, '+0');
  const service = await Service.start(run.postgres.url, {
    LD_PRELOAD: LIBFAKETIME ?? '',
    FAKETIME_TIMESTAMP_FILE: clock,
    FAKETIME_CACHE_DURATION: '1',
    FAKETIME_DONT_FAKE_MONOTONIC: '1',
  });
  for (const [name, fault] of Object.entries(FAULTS)) {
    await endure(name, fault, { ...run, clock, service });
  }
  await service.kill();
}

async function endure(
  name: string,
  { begin, mayFail = {}, isUnready = false }: Fault,
  parts: Parts,
): Promise<void> {
  const { key, count } = parts;
  const { origin } = parts.service;
  const kinds = Object.entries(KINDS);
  const of = (n: number) => kinds[n % kinds.length]!;
  const requests = new Stream(origin, 10, (n) => ({ ...of(n)[1](key, n), kind: of(n)[0] }));
  const live = new Stream(origin, 100, () => ({ path: '/health/live' }));
  const ready = new Stream(origin, 100, () => ({ path: '/health/ready' }));
  const stopAll = () => Promise.all([requests.stop(), live.stop(), ready.stop()]);
  await wait(500);
  const begun = performance.now();
  const end = await begin(parts);
  if (typeof end === 'string') {
    await stopAll();
    return skip(name, end);
  }
  await wait(count.seconds * 1_000);
  await end();
  const ended = performance.now();
  const isBack = async () => {
    const all = kinds.map(([, question]) => ask(origin, question(key, 0)));
    return (await Promise.all(all)).every(isServed);
  };
  await until('all succeed again', isBack, { seconds: 15 }).catch(() => undefined);
  const back = performance.now() - ended;
  await wait(500);
  const [answers, lives, readiness] = await stopAll();
  const isDuring = ({ at }: Answer) => at > begun && at < ended;
  const during = answers.filter(isDuring);
  const failed = during.filter((answer) => !isServed(answer));
  const isWrong = ({ status, headers }: Answer) => status !== 503 || !headers?.['retry-after'];
  const wrong = answers.filter((answer) => !isServed(answer) && isWrong(answer));
  const isNotReady = readiness.some((answer) => isDuring(answer) && answer.status === 503);
  const late = answers.filter((answer) => answer.at > ended + back && !isServed(answer));
  note(
    name,
    ['requests', during.length, '≥ 1'],
    ['of them failed', failed.length, mayFail['requests'] === 0 ? '= 0' : '≥ 1'],
    ...Object.entries(mayFail).map(([kind, percent]): Figure => {
      const ofKind = (all: typeof during) =>
        all.filter(({ question }) => [question.kind, 'requests'].includes(kind));
      const share = (ofKind(failed).length / ofKind(during).length) * 100;
      return [`share of ${kind} that failed`, share, `≤ ${percent}`, '%'];
    }),
    ['errors other than 503 with Retry-After', wrong.length, '= 0'],
    ['longest response', most(answers.map(({ ms }) => ms)), '≤ 5,000', 'ms'],
    ['longest response of /health/live', longest(lives), '≤ 1,000', 'ms'],
    ['readiness', isNotReady ? 503 : 200, `= ${isUnready ? 503 : 200}`],
    ['time until all requests succeed again', back, '≤ 2,000', 'ms'],
    ['requests that failed after that', late.length, '= 0'],
    ['sessions of the service', await sessions(parts.postgres.url), '≤ 10'],
  );
}
