// Copies all pets into pets.ndjson, a page in each line. If it is interrupted, start it again: it continues after the
// last page that it wrote.
import { appendFileSync, existsSync, readFileSync, renameSync, truncateSync } from 'node:fs';
import { AnimalStore, type Page, parse, stringify } from '@example/animal-store-client';

const { BASE = '', KEY = '' } = process.env;
const store = new AnimalStore(BASE, KEY, {
  retryFor: 600_000,
  onRetry: ({ wait, error }) => console.warn(`${error.message} Again in ${Math.ceil(wait)} ms.`),
});

// Each line is a page. The last one may be incomplete.
const FILE = 'pets.part';
const written = existsSync(FILE) ? readFileSync(FILE, 'utf8') : '';
const lines = written.split('\n').slice(0, -1);
if (written !== '') {
  truncateSync(FILE, Buffer.byteLength(written.slice(0, written.lastIndexOf('\n') + 1)));
}
const last = lines.length > 0 ? (parse(lines.at(-1)!) as Page) : undefined;
if (last === undefined || last.cursor !== undefined) {
  for await (const page of store.pages({ cursor: last?.cursor })) {
    appendFileSync(FILE, `${stringify(page)}\n`);
  }
}
renameSync(FILE, 'pets.ndjson');
