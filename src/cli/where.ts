import { DATA_FOLDER, type Database } from '../database/database.js';

/** If `DATABASE_URL` is not set, prints on standard error which database the command uses. */
export function sayIfEmbedded({ isEmbedded }: Database): void {
  if (isEmbedded) {
    console.error(`DATABASE_URL is not set: this is the embedded PostgreSQL in ${DATA_FOLDER}.`);
  }
}
