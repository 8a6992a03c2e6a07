import type { DataSource } from 'typeorm';
import { showProgress } from '../logging/progress.js';
import { requireMigrated } from '../schema/migrations.js';
import { OperatorError } from '../errors/operator-error.js';
import { onCommandDatabase } from './command.js';
import { print } from './print.js';

export async function seed(count: number, { yes }: { yes?: true }): Promise<void> {
  await onCommandDatabase(async ({ dataSource, url, environment }) => {
    if (environment.NODE_ENV === 'production' && !yes) {
      throw new OperatorError(
        'NODE_ENV is production: nobody can delete these pets through the service. Add --yes to create them.',
      );
    }
    await requireMigrated(url, environment);
    await createPets(dataSource, count);
  });
}

/** A name is one of each list; their lengths are coprime. 90 % of the pets are available, 9.5 % sold and 0.5 % pending. */
const INSERT = `
  insert into pets (name, category_id, status)
  select trim(names[1 + n % cardinality(names)] || ' ' || bynames[1 + n % cardinality(bynames)]), 1 + n * 7 % 500,
         case when n % 200 = 0 then 'pending' when n % 200 < 20 then 'sold' else 'available' end
    from generate_series($1::int, $2::int - 1) as n,
         string_to_array('Rex Bella Luna Milo Čert Žofka Łatek Ørn Åsa Señorita Zoë Jürgen François Đuro Снежок Мурка Ξανθή ポチ タマ 小白 백구 ฟ้า मोती شیرین לביאה 🐈', ' ') as names,
         string_to_array($$|II|the Bold|the Quiet|O’Malley|O'Hara|von Bellheim|de la Cruz|Jr.|& Sons|"Socks"|<3|No. 7|of the Old Mill by the River|100 %$$, '|') as bynames`;

/** How many a transaction creates: those of a second. If the command is interrupted, they stay. */
const STEP = 50_000;

async function createPets(dataSource: DataSource, count: number): Promise<void> {
  const progress = showProgress();
  try {
    for (let first = 0; first < count; first += STEP) {
      const end = Math.min(first + STEP, count);
      await dataSource.transaction(async (session) => {
        await session.query('set local statement_timeout = 0');
        await session.query(INSERT, [first, end]);
      });
      if (count > STEP) {
        progress.update({ what: 'Pets', done: end, total: count });
      }
    }
  } finally {
    progress.stop();
  }
  print(`Created ${count} pets.`);
}
