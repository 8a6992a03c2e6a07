import type { PoolClient } from 'pg';
import { readEnvironment } from '../../src/config/environment.js';
import type { EntityColumn } from '../../src/database/columns.js';
import { poolOf, servingDataSource } from '../../src/database/data-source.js';
import type { Engine } from '../../src/database/engine.js';
import type { ServingPool } from '../../src/database/pool.js';
import { withSession } from '../../src/database/statement.js';
import { CitusPageReader } from '../../src/listing/citus-page-reader.js';
import type { List } from '../../src/listing/list.js';
import type { WantedPage } from '../../src/listing/page-reader.js';
import { PostgresPageReader } from '../../src/listing/postgres-page-reader.js';
import { CitusPetStore } from '../../src/pets/citus-pet-store.js';
import type { NewPet } from '../../src/pets/new-pet.dto.js';
import type { Creation } from '../../src/pets/pet-store.js';
import { PostgresPetStore } from '../../src/pets/postgres-pet-store.js';
import { Standbys } from '../../src/standbys/standbys.js';
import { entitiesOfSource } from './entities.js';
import { SILENT } from './silent.js';

const CLASSES = {
  postgresql: { PetStore: PostgresPetStore, PageReader: PostgresPageReader },
  citus: { PetStore: CitusPetStore, PageReader: CitusPageReader },
};

/** What an engine's classes are on the database at `url`. Those of Citus also run on PostgreSQL alone. */
export async function storesOn(url: string, engine: Engine, sessions = 3) {
  const environment = readEnvironment({ DATABASE_URL: url, DATABASE_POOL_SIZE: `${sessions}` });
  const entities = await entitiesOfSource();
  const dataSource = await servingDataSource(url, environment, engine, entities).initialize();
  const pool = poolOf(dataSource) as ServingPool;
  const standbys = new Standbys(pool, environment, SILENT);
  const on = <T>(work: (session: PoolClient) => Promise<T>) => withSession(pool, work);
  const { PetStore, PageReader } = CLASSES[engine];
  const [store, reader] = [new PetStore(standbys), new PageReader(pool, standbys)];
  return {
    dataSource,
    pool,
    /** The store, each of whose methods has a session. */
    store: {
      insert: (pets: readonly NewPet[]) => on((session) => store.insert(pets, session)),
      insertOnce: (all: readonly Creation[]) => on((session) => store.insertOnce(all, session)),
      find: (ids: readonly bigint[]) => on((session) => store.find(ids, session)),
      deleteOldKeys: () => on((session) => store.deleteOldKeys(session)),
    },
    /** Reads pages of a list with these filters. */
    read: (list: List, filters: readonly EntityColumn[], pages: readonly WantedPage[]) =>
      on((session) => reader.of(list, filters)(pages, session)),
  };
}

export type Stores = Awaited<ReturnType<typeof storesOn>>;
