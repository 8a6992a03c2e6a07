// Creates a pet for each line of rows.ndjson, with 16 workers. It may be killed at any time: start it again with the same
// IMPORT and KEY within 24 hours, and every row still becomes one pet. A rate limit only makes it slower.
import { appendFileSync, existsSync, readFileSync, writeFileSync } from 'node:fs';
import { AnimalStore, type NewPet, parse, StoreError } from '@example/animal-store-client';

const { BASE = '', KEY = '', IMPORT = 'import-1' } = process.env;
const store = new AnimalStore(BASE, KEY, { retryFor: 600_000 });

// A row is done when its line is complete.
const DONE = 'done.txt';
const lines = existsSync(DONE) ? readFileSync(DONE, 'utf8').split('\n').slice(0, -1) : [];
writeFileSync(DONE, lines.map((line) => `${line}\n`).join(''));
const done = new Set(lines.map((line) => Number(line.split(' ')[0])));
const rows = readFileSync('rows.ndjson', 'utf8').trimEnd().split('\n');
const rest = [...rows.entries()].filter(([row]) => !done.has(row)).values();

async function work() {
  for (const [row, line] of rest) {
    const idempotencyKey = `${IMPORT}-${row}`;
    try {
      const { id } = await store.createPet(parse(line) as NewPet, { idempotencyKey });
      appendFileSync(DONE, `${row} ${id}\n`);
    } catch (error) {
      if (!(error instanceof StoreError) || error.code !== 'invalid_request') {
        throw error;
      }
      appendFileSync(DONE, `${row} rejected: ${error.message}\n`);
    }
  }
}
await Promise.all(Array.from({ length: 16 }, work));
