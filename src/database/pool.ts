import type { Pool } from 'pg';
import type { DataSource } from 'typeorm';

/** A statement that is prepared once a connection, under its name. */
export interface Statement {
  name: string;
  text: string;
}

/**
 * The connection pool under a TypeORM data source. The statements that serve requests go to it directly, because
 * TypeORM cannot name a statement: PostgreSQL would parse and plan each anew, which takes longer than running it.
 */
export function poolOf(dataSource: DataSource): Pool {
  return (dataSource.driver as unknown as { master: Pool }).master;
}
