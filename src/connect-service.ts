import type { DataSource } from 'typeorm';
import { engineOf } from './citus/citus.js';
import type { Environment } from './config/environment.js';
import { administer, connectToServe } from './database/database.js';

/** The connections that serve requests, on Citus with its statements. @throws OperatorError if they cannot. */
export async function connectService(url: string, environment: Environment): Promise<DataSource> {
  const engine = await administer(url, (dataSource) => engineOf(dataSource, environment));
  return connectToServe(url, environment, engine);
}
