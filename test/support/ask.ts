import { Client, type DatabaseError } from 'pg';
import { evidence } from './evidence.js';

/** As `query`, whose error then has the statement, and what else PostgreSQL says. */
export async function told(query: (sql: string) => Promise<{ rows: any[] }>, sql: string) {
  try {
    return await evidence.awaiting(`PostgreSQL: ${sql}`, () => query(sql));
  } catch (error) {
    const { message, code, detail, hint } = error as DatabaseError;
    const lines = [message, code, detail, hint, `in: ${sql.trim()}`].filter(Boolean);
    throw Object.assign(new Error(lines.join('\n')), { code });
  }
}

/** Runs statements on a connection of its own. @returns the rows of the last one. */
export async function query(url: string, ...statements: string[]): Promise<any[]> {
  // A test may limit the statements of its database's other sessions.
  const options = '-c statement_timeout=0';
  const client = new Client({ connectionString: url, options });
  // The server may stop before the connection has ended.
  client.on('error', () => undefined);
  await client.connect();
  try {
    let rows: any[] = [];
    for (const statement of statements) {
      ({ rows } = await told((sql) => client.query(sql), statement));
    }
    return rows;
  } finally {
    await client.end();
  }
}

/** As {@link query}. @returns the first row. */
export async function ask(url: string, ...statements: string[]): Promise<any> {
  return (await query(url, ...statements))[0];
}
