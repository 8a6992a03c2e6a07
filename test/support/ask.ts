import { Client } from 'pg';

/** Runs a statement on a connection of its own. @returns its first row. */
export async function ask(url: string, sql: string): Promise<any> {
  const client = new Client({ connectionString: url });
  // The server may stop before the connection has ended.
  client.on('error', () => undefined);
  await client.connect();
  try {
    return (await client.query(sql)).rows[0];
  } finally {
    await client.end();
  }
}
