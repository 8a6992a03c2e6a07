import type { DataSource } from 'typeorm';
import { engineOf } from '../citus/citus.js';
import type { Environment } from '../config/environment.js';
import { administer, connectToServe } from '../database/database.js';
import { ENTITIES } from '../entities.js';

/**
 * @returns the connections that serve requests, with the entities, and on Citus with its forms of statements.
 * @throws OperatorError if the database at `url` cannot be used.
 */
export async function connectService(url: string, environment: Environment): Promise<DataSource> {
  const engine = await administer(url, (dataSource) => engineOf(dataSource, environment));
  return connectToServe(url, environment, { ...engine, entities: ENTITIES });
}
