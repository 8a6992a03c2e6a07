// Creates a pet for each line of rows.ndjson, with 16 workers. It may be killed at any time: start it again with the same
// IMPORT and KEY within 24 hours, and every row still becomes one pet, also if other lines were mended, added or removed
// meanwhile. A rate limit only makes it slower.
import { hash } from 'node:crypto';
import { appendFileSync, existsSync, readFileSync, truncateSync } from 'node:fs';
import { AnimalStore, type NewPet, parse, StoreError } from '@example/animal-store-client';

const { BASE = '', KEY = '', IMPORT = 'import-1' } = process.env;
const store = new AnimalStore(BASE, KEY, {
  retryFor: 600_000,
  onRetry: ({ wait, error }) => console.warn(`${error.message} Again in ${Math.ceil(wait)} ms.`),
});

// A row is done when its line is complete. The last one may be incomplete.
const DONE = 'done.txt';
const written = existsSync(DONE) ? readFileSync(DONE, 'utf8') : '';
const lines = written.split('\n').slice(0, -1);
if (written !== '') {
  truncateSync(DONE, Buffer.byteLength(written.slice(0, written.lastIndexOf('\n') + 1)));
}
const done = new Set(lines.map((line) => line.split(' ')[0]));

// What a row is, and which one of equal rows: not its number, which changes if a line before it is removed.
const counts = new Map<string, number>();
const rows = readFileSync('rows.ndjson', 'utf8').trimEnd().split('\n');
const rest = rows
  .map((whole, i) => {
    // Lines may end as on Windows, but the last one.
    const line = whole.trim();
    const count = (counts.get(line) ?? 0) + 1;
    counts.set(line, count);
    return { line, row: i + 1, id: `${hash('sha256', line, 'hex')}-${count}` };
  })
  .filter(({ id }) => !done.has(id))
  .values();

const REJECTED = ['invalid_request', 'payload_too_large'];

async function work() {
  for (const { line, row, id } of rest) {
    try {
      const pet = await store.createPet(parse(line) as NewPet, {
        idempotencyKey: hash('sha256', `${IMPORT} ${id}`, 'hex'),
      });
      appendFileSync(DONE, `${id} ${pet.id}\n`);
    } catch (error) {
      if (!(error instanceof StoreError) || !REJECTED.includes(error.code)) {
        throw error;
      }
      appendFileSync(DONE, `${id} rejected, line ${row}: ${error.message}\n`);
    }
  }
}
await Promise.all(Array.from({ length: 16 }, work));
