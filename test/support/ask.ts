import { Client } from 'pg';

/** Runs statements on a connection of its own. @returns the rows of the last one. */
export async function query(url: string, ...statements: string[]): Promise<any[]> {
  const client = new Client({ connectionString: url });
  // The server may stop before the connection has ended.
  client.on('error', () => undefined);
  await client.connect();
  try {
    let rows: any[] = [];
    for (const statement of statements) {
      ({ rows } = await client.query(statement));
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
