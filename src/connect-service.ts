import type { DataSource } from 'typeorm';
import { ApiKey } from './auth/api-key.entity.js';
import { engineOf } from './citus/citus.js';
import type { Environment } from './config/environment.js';
import { administer, connectToServe } from './database/database.js';
import { Order } from './orders/order.entity.js';
import { Pet } from './pets/pet.entity.js';

/** `idempotency_keys` has no entity: only the statements in pets.sql.ts use it. */
export const ENTITIES = [Pet, ApiKey, Order];

/** The connections that serve requests, on Citus with its statements. @throws OperatorError if they cannot. */
export async function connectService(url: string, environment: Environment): Promise<DataSource> {
  const engine = await administer(url, (dataSource) => engineOf(dataSource, environment));
  return connectToServe(url, environment, { ...engine, entities: ENTITIES });
}
