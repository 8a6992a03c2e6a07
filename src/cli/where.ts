import { DATA_FOLDER, type Database } from '../database/database.js';

/** Says on standard error where a command works that nobody gave a `DATABASE_URL`. */
export function sayIfEmbedded({ isEmbedded }: Database): void {
  if (isEmbedded) {
    console.error(`DATABASE_URL is not set: this is the embedded PostgreSQL in ${DATA_FOLDER}.`);
  }
}
