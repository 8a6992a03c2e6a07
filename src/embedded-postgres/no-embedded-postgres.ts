import { OperatorError } from '../errors/operator-error.js';

/** The embedded PostgreSQL cannot run here; `message` says why and what to do instead. */
export class NoEmbeddedPostgres extends OperatorError {
  constructor(reason: string) {
    super(`${reason} Set DATABASE_URL to a PostgreSQL of your own.`);
  }
}
