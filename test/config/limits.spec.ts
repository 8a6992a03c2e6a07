import { VERIFICATION } from '../../src/auth/api-key-verifier.js';
import { Environment } from '../../src/config/environment.js';
import { DATABASE_LIMITS } from '../../src/database/limits.js';
import { requiredSettings } from '../../src/database/settings.js';
import { HttpLimits } from '../../src/http/limits.js';
import { read } from '../support/documents.js';

const limits = new HttpLimits();
const times = DATABASE_LIMITS;
const poolSize = new Environment().DATABASE_POOL_SIZE;
const KIB = 1024;
const MIB = 1024 * KIB;
/** Milliseconds after which a client has a response (interface.md, part 8). */
const RESPONSE = 5_000;
/** Milliseconds for which the health check and the probes of `deploy` wait (operations.md). */
const PROBE = 10_000;

/** Each row: what must be in ascending order, from the lowest to the highest, and what breaks otherwise. */
const ORDERS: [why: string, values: Record<string, number>][] = [
  [
    'a slow request gets 408 before its connection is closed, and late headers get it first',
    {
      headers: limits.headersTimeout,
      request: limits.requestTimeout,
      socket: limits.socketTimeout,
      // An idle connection outlasts a request: a proxy would otherwise send one to a connection that is closing.
      keepAlive: limits.keepAliveTimeout,
    },
  ],
  [
    'PostgreSQL cancels a statement before the session is closed, and all within 2 seconds of the recovery',
    { statement: times.statement, use: times.use, recovery: 2_000 },
  ],
  [
    'a standby is given up before a request would have to be',
    { standby: times.standby, statement: times.statement },
  ],
  [
    'an idle session proves itself before another statement gives up, and that before the recovery',
    { proof: times.proof, connecting: times.connecting, recovery: 2_000 },
  ],
  [
    'a standby that responds again is used within 2 seconds',
    { attempt: times.standby, check: times.standbyCheck, recovery: 2_000 },
  ],
  [
    'of several servers, one that says nothing leaves time for others when the service starts',
    { pause: times.startingPause, choosing: times.choosing, starting: times.starting },
  ],
  [
    'a session that could not be opened is not awaited longer than the recovery may take',
    { reopening: times.reopening, recovery: 2_000 },
  ],
  [
    'a use of a session may begin for a request long after it has arrived, and ends in time',
    {
      use: times.use,
      wait: limits.deadline,
      sum: limits.deadline + times.use,
      response: RESPONSE,
    },
  ],
  [
    'a read on the primary has time after its position, and an attempt on a standby: a session, its first response, another one, and the read',
    { attempt: 5 * times.standby, use: times.use },
  ],
  [
    'the next batch leaves before the requests in it are overdue',
    { patience: times.patience, wait: limits.deadline },
  ],
  [
    'each kind of statements leaves sessions to others, with the default pool',
    { statements: times.statementsPerLane, pool: poolSize },
  ],
  [
    'one key has room for several batches',
    {
      keyed: times.keyedCreatesPerStatement,
      batch: times.requestsPerStatement,
      key: limits.admittedRequests / 2,
      all: limits.admittedRequests,
      pending: limits.pendingRequests,
    },
  ],
  [
    'requests with a key are rejected with 503 before they are not handled any more',
    { admitted: limits.admittedRequests, pending: limits.pendingRequests },
  ],
  ['a revoked key stops within 5 seconds', { trusted: VERIFICATION.trustedFor, promise: 5_000 }],
  [
    'a key in use is verified again before it is forgotten, even if one round is late',
    { twice: 2 * VERIFICATION.refreshEvery, trusted: VERIFICATION.trustedFor + 1 },
  ],
  [
    'a process that stops has responded to all requests before a supervisor kills it, and lingers less than it stops',
    { linger: limits.lingerTimeout, response: RESPONSE, stop: limits.stopTimeout, kill: 15_000 },
  ],
  [
    'what a client still sends is discarded for longer than its last response takes to arrive, but not for long',
    { roundTrip: 500, linger: limits.lingerTimeout, most: 2_000 },
  ],
  [
    'a connection may fill its share many times before it is closed at once',
    {
      handled: limits.requestsPerConnection,
      excess: limits.excessPerConnection,
      ofAll: limits.excess,
    },
  ],
  [
    'a turn of the event loop begins fewer requests than there are places',
    { turn: limits.requestsPerTurn, places: limits.places },
  ],
  [
    'a request is overdue before the client would be too late, and its last statement may still end',
    { deadline: limits.deadline, response: RESPONSE },
  ],
  [
    'more connections than Node queues by default may arrive at once, and all may be open',
    { node: 511, backlog: limits.backlog, connections: limits.connections },
  ],
  ['a probe waits longer than any request', { response: RESPONSE, probe: PROBE }],
];

it.each(ORDERS)('%s', (_why, values) => {
  const names = Object.keys(values);
  expect(names.toSorted((a, b) => values[a]! - values[b]!)).toEqual(names);
  expect(new Set(Object.values(values)).size).toBe(names.length);
});

it('a list of as many pets as one may ask for takes several places, and leaves most to others', () => {
  const places = Math.ceil(101 / limits.rowsPerPlace);
  expect(places).toBeGreaterThan(1);
  expect(places).toBeLessThan(limits.places / 8);
});

it('PostgreSQL has the time-out of statements that the service counts on', () => {
  expect(Number(requiredSettings()['statement_timeout'])).toBe(times.statement);
  expect(Number(requiredSettings('postgresql', 'transaction')['statement_timeout'])).toBe(
    times.statement,
  );
});

const figure = (value: number) => value.toLocaleString('en-US');
const seconds = (ms: number) => figure(ms / 1_000);

/** Sentences of the documents, or parts of them, with the figures of the code. */
const FIGURES: Record<string, string[]> = {
  'docs/interface.md': [
    `packets | ${limits.bodyBytes / KIB} KiB; ${figure(limits.bodyChunks)} | 413`,
    `levels of JSON | ${limits.jsonDepth} | 400`,
    `header fields | ${limits.headerBytes / KIB} KiB; ${limits.headerFields} | 431`,
    `${seconds(limits.headersTimeout)} seconds for the headers, ${seconds(limits.requestTimeout)} seconds for all | 408`,
    `to its response | ${seconds(RESPONSE)} seconds | 503`,
    `receives nothing of its response | ${seconds(limits.socketTimeout)} to ${seconds(3 * limits.socketTimeout)} seconds`,
    `without a request | ${seconds(limits.headersTimeout)} seconds before its first one; then ${seconds(limits.keepAliveTimeout)} seconds, unless`,
    `without a complete response | ${limits.requestsPerConnection} | the next one gets 503`,
    `If ${limits.excessPerConnection} more were sent at once, the connections of the same address are read one at a time. If there are over ${figure(limits.excess)} such requests in all`,
    `that clients do not read | ${limits.heldBytes / MIB} MiB |`,
    `of an API key in handlers or waiting for them | ${figure(limits.admittedRequests / 2)} |`,
    `without a complete response | ${figure(limits.pendingRequests)} |`,
  ],
  'ARCHITECTURE.md': [
    `is ${seconds(limits.deadline)} seconds after it has arrived, with its body`,
    `${figure(limits.backlog)} connections | until the event loop`,
    `${figure(limits.connections)} connections | one at a time, ${limits.floodPause} ms after another flood`,
    `${figure(limits.pendingRequests)} requests, ${limits.requestsPerConnection} of a connection | ${limits.requestsPerTurn} in each turn; of remembered keys`,
    `a body over ${limits.bodyBytesAtOnce / KIB} KiB is parsed`,
    `if the last turn took less than ${limits.turn} ms`,
    `${limits.bodyBytes / KIB} KiB, ${figure(limits.bodyChunks)} chunks | ${seconds(limits.requestTimeout)} seconds`,
    `${figure(limits.admittedRequests)} requests, of one key ${figure(limits.admittedRequests / 2)}; ${limits.places} places, one for each ${limits.rowsPerPlace} rows of a request's \`limit\``,
    `${times.requestsPerStatement} requests, ${figure(times.rowsPerStatement)} rows; ${times.statementsPerLane} statements of a lane`,
    `${seconds(times.statement)} seconds, ${seconds(times.use)} for a use of a session`,
    `${limits.heldBytes / MIB} MiB for all | ${seconds(limits.socketTimeout)} seconds without progress`,
  ],
  'docs/operations.md': [
    `finishes the requests in progress, for at most ${seconds(limits.stopTimeout)} seconds`,
    `set statement_timeout = '${times.statement}ms'`,
    `a read took over ${times.standby} ms there`,
  ],
  'docs/scaling.md': [`does not respond within ${times.standby} ms.`],
  'docs/dba.md': [
    `takes over ${seconds(times.use)} s.`,
    `\`lock_timeout = '${seconds(times.command)}s'\``,
  ],
  '.env.example': [`Default: ${seconds(limits.keepAliveTimeout)}.`],
  'docs/reliability.md': [
    `If over ${figure(limits.backlog)} connections are opened at once`,
    `after ${seconds(limits.socketTimeout)} to ${seconds(3 * limits.socketTimeout)} seconds without reading its response`,
  ],
};

it.each(Object.entries(FIGURES))('%s has the figures of the code', (file, figures) => {
  const text = read(file).replaceAll(/\s+/g, ' ');
  expect(figures.filter((one) => !text.includes(one))).toEqual([]);
});
