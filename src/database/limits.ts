import { HttpLimits } from '../http/limits.js';

/** The numbers of sessions and lanes. Times are in milliseconds: what they are for, and what happens then. */
export const DATABASE_LIMITS = {
  // Those of sessions that serve requests are under 2 seconds: a connection that still hangs when the database responds
  // again does not delay the recovery.
  /** For a new session, and for its first response: 503, or a session that exists serves. */
  connecting: 1_000,
  /** For a free session, as long as a request may wait: 503. */
  waiting: new HttpLimits().deadline,
  /** For a statement, as PostgreSQL's `statement_timeout`: PostgreSQL cancels it, 503. */
  statement: 1_500,
  /** For each use of a session, commits too, which `statement_timeout` does not limit: the session is closed, 503. */
  use: 1_750,
  /** After a session could not be opened while others exist: statements wait for those, and then another is opened. */
  reopening: 1_000,
  /** For the response of an idle session, after another one did not respond in time: it is closed. */
  proof: 250,
  /** For a session with a standby, and for each use of it: the primary serves the read. */
  standby: 250,
  /** Between two checks of the standbys: one that was given up is used again if it can be. */
  standbyCheck: 1_000,
  /** Between two comparisons of the tables with the migrations, if the last one found nothing: readiness has that one. */
  comparison: 10_000,
  /** For a table that somebody locks, when the tables are compared: the last comparison holds. */
  comparisonLock: 50,
  /** Silence on a connection: TCP sends a keep-alive probe. */
  keepAlive: 10_000,
  /** Idle sessions that stay open: others are closed after 10 seconds. */
  idleSessions: 4,
  /** Requests in a statement: more wait for the next one. */
  requestsPerStatement: 256,
  /** Rows that the requests in a statement ask for: further ones wait, unless one alone asks for more. */
  rowsPerStatement: 1_024,
  /** Creates with an Idempotency-Key in a statement: each takes a lock, and PostgreSQL has room for a few thousand. */
  keyedCreatesPerStatement: 64,
  /** As `rowsPerStatement`, on Citus, which reads one page after the other. */
  rowsPerStatementOnCitus: 256,
  /** Concurrent statements of a lane: requests wait for the end of one. */
  statementsPerLane: 3,
  /** For the response to the last statement of a lane: the next one is sent on another session. */
  patience: 25,
  /** For a session of a command, of which it has so many, and for each lock: it fails. */
  command: 10_000,
  commandSessions: 2,
  /** For the database when the service starts, with a pause between two attempts: it does not start. */
  starting: 10_000,
  startingPause: 100,
  /** For each of several servers to say whether it accepts writes: another one is used. */
  choosing: 2_000,
} as const;
