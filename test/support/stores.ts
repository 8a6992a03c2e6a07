import { readEnvironment } from '../../src/config/environment.js';
import { poolOf, servingDataSource } from '../../src/database/data-source.js';
import type { Engine } from '../../src/database/engine.js';
import { SessionShare } from '../../src/database/session-share.js';
import { CitusPageReader } from '../../src/listing/citus-page-reader.js';
import type { List } from '../../src/listing/list.js';
import { PostgresPageReader } from '../../src/listing/postgres-page-reader.js';
import { Order } from '../../src/orders/order.entity.js';
import { CitusPetStore } from '../../src/pets/citus-pet-store.js';
import { Pet } from '../../src/pets/pet.entity.js';
import { PostgresPetStore } from '../../src/pets/postgres-pet-store.js';
import { Standbys } from '../../src/standbys/standbys.js';
import { SILENT } from './silent.js';

const CLASSES = {
  postgresql: { PetStore: PostgresPetStore, PageReader: PostgresPageReader },
  citus: { PetStore: CitusPetStore, PageReader: CitusPageReader },
};

/** What an engine's classes are on the database at `url`. Those of Citus also run on PostgreSQL alone. */
export async function storesOn(url: string, engine: Engine, sessions = 3) {
  const options = { engine, entities: [Pet, Order] };
  const dataSource = await servingDataSource(url, sessions, options).initialize();
  const pool = poolOf(dataSource);
  const environment = readEnvironment({ DATABASE_URL: url });
  const standbys = new Standbys(pool, environment, SILENT);
  const share = new SessionShare(pool);
  const { PetStore, PageReader } = CLASSES[engine];
  const [store, reader] = [new PetStore(share, standbys), new PageReader(share, standbys)];
  return { dataSource, pool, store, reader };
}

export type Stores = Awaited<ReturnType<typeof storesOn>>;

/** Each set of a list's filters: every one has a statement and an index of its own. */
export const filterSets = ({ filters }: List) =>
  Array.from({ length: 2 ** filters.length }, (_, bits) =>
    filters.filter((_filter, i) => bits & (1 << i)),
  );
