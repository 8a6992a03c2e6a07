import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { Argument, type Command, InvalidArgumentError } from 'commander';
import { from as copyFrom } from 'pg-copy-streams';
import type { DataSource } from 'typeorm';
import { loadEnvironment } from '../config/environment.js';
import { poolOf } from '../database/data-source.js';
import { requireMigrated } from '../schema/migrations.js';
import { OperatorError } from '../errors/operator-error.js';
import type { PetStatus } from '../pets/pet.entity.js';
import { addCommand, onNamedDatabase } from './command.js';

/** The maximum number of animals that one run creates. */
const MOST = 100_000_000;

/** Animals that are sent together. */
const CHUNK = 1_000;

/** A name is one of these and one of {@link BYNAMES}. The lengths of the two lists are coprime, so all pairs occur. */
const NAMES =
  'Rex Bella Luna Milo Čert Žofka Łatek Ørn Åsa Señorita Zoë Jürgen François Đuro Снежок Мурка Ξανθή ポチ タマ 小白 백구 ฟ้า मोती شیرین לביאה 🐈'.split(
    ' ',
  );

const BYNAMES =
  `|II|the Bold|the Quiet|O’Malley|O'Hara|von Bellheim|de la Cruz|Jr.|& Sons|"Socks"|<3|No. 7|of the Old Mill by the River|100 %`.split(
    '|',
  );

/** Adds `animal-store seed`, which `npm run seed` runs. */
export function addSeed(program: Command): void {
  addCommand(program, 'seed', 'create animals for development and tests', {
    0: 'created',
    1: 'failed or stopped: none was created',
  })
    .addArgument(new Argument('<count>', `how many: 1 to ${MOST}`).argParser(countOf))
    .option('--yes', 'create them even if NODE_ENV is production')
    .action(async (count: number, { yes }: { yes?: true }) => {
      const environment = loadEnvironment();
      await onNamedDatabase(environment, async (dataSource, url) => {
        if (environment.NODE_ENV === 'production' && !yes) {
          throw new OperatorError(
            'NODE_ENV is production: nobody can delete these animals through the service. Add --yes to create them.',
          );
        }
        await requireMigrated(url, environment);
        await seed(dataSource, count);
      });
    });
}

function countOf(text: string): number {
  const count = /^[1-9][0-9]{0,8}$/.test(text) ? Number(text) : Infinity;
  if (count > MOST) {
    throw new InvalidArgumentError(`It must be a whole number from 1 to ${MOST}.`);
  }
  return count;
}

/** Creates all animals, or none. */
async function seed(dataSource: DataSource, count: number): Promise<void> {
  const stopping = new AbortController();
  const { signal } = stopping;
  process.once('SIGINT', () => stopping.abort()).once('SIGTERM', () => stopping.abort());
  const client = await poolOf(dataSource).connect();
  client.on('error', () => {});
  try {
    await client.query('begin');
    // The role may have a short time-out, for requests.
    await client.query('set local statement_timeout = 0');
    const copy = client.query(copyFrom('copy pets (name, category_id, status) from stdin'));
    try {
      await pipeline(Readable.from(linesOf(count)), copy, { signal });
    } finally {
      draw('\n');
    }
    signal.throwIfAborted();
    await client.query('commit');
    client.release();
  } catch (error) {
    // PostgreSQL rolls back the transaction of a session that ends.
    client.release(true);
    throw signal.aborted ? new OperatorError('Stopped. No animal was created.') : error;
  }
  console.log(`Created ${count} animals.`);
}

/** Lines for COPY: name, category and status. No value has a character that COPY requires to be escaped. */
function* linesOf(count: number): Generator<string> {
  for (let done = 0; done < count;) {
    let lines = '';
    const end = Math.min(done + CHUNK, count);
    for (; done < end; done += 1) {
      const name = `${NAMES[done % NAMES.length]} ${BYNAMES[done % BYNAMES.length]}`;
      lines += `${name.trimEnd()}\t${1 + ((done * 7) % 500)}\t${statusOf(done)}\n`;
    }
    yield lines;
    const bar = '#'.repeat((40 * done) / count).padEnd(40, '.');
    draw(`\r[${bar}] ${done} of ${count}`);
  }
}

/** 90 % are available, 9.5 % sold and 0.5 % pending, evenly spread. */
function statusOf(n: number): PetStatus {
  const rest = n % 200;
  return rest === 0 ? 'pending' : rest < 20 ? 'sold' : 'available';
}

/** Draws the progress bar, only if standard error is a terminal. */
function draw(text: string): void {
  if (process.stderr.isTTY) {
    process.stderr.write(text);
  }
}
