import pg, { type Connection, type Pool, type Submittable } from 'pg';
import { serialize } from 'pg-protocol';

/**
 * A statement that is prepared once a connection, under its name: PostgreSQL would parse and plan one without a name anew
 * each time, which takes longer than running it.
 */
export interface Statement {
  name: string;
  text: string;
}

/** The columns of a row in the statement's order, each as PostgreSQL writes its value; `null` for NULL. */
export type Row = (string | null)[];

/** Runs `statement` on a free connection of `pool`. Rejects with pg's error. */
export function run<Columns extends Row>(
  pool: Pool,
  statement: Statement,
  values: unknown[] = [],
): Promise<Columns[]> {
  return new Promise((resolve, reject) => {
    (pool.query as unknown as QueryWithCallback).call(
      pool,
      new StatementRun(statement, values),
      undefined,
      (error, rows) => (error ? reject(error) : resolve(rows as Columns[])),
    );
  });
}

/**
 * One run of a prepared statement, in place of pg's own `Query`. It knows the columns of its rows, so it does not have
 * PostgreSQL describe them, and it sends all of its messages in one piece.
 */
class StatementRun implements Submittable {
  readonly name: string;
  readonly text: string;
  /** Set by pg. */
  callback!: (error: Error | null, rows?: Row[]) => void;
  private readonly rows: Row[] = [];

  constructor(
    { name, text }: Statement,
    private readonly values: unknown[],
  ) {
    this.name = name;
    this.text = text;
  }

  submit(connection: Connection): Error | null {
    const { parsedStatements, submittedNamedStatements, stream } = connection as PgConnection;
    const { name, text, values } = this;
    const messages = [
      serialize.bind({ statement: name, values, valueMapper: prepareValue }),
      EXECUTE_AND_SYNC,
    ];
    if (!(name in parsedStatements) && !(name in submittedNamedStatements)) {
      messages.unshift(serialize.parse({ name, text }));
      submittedNamedStatements[name] = text;
    }
    stream.write(Buffer.concat(messages));
    return null;
  }

  handleDataRow({ fields }: { fields: Row }): void {
    this.rows.push(fields);
  }

  handleCommandComplete(): void {}

  handleReadyForQuery(): void {
    this.callback(null, this.rows);
  }

  handleError(error: Error): void {
    this.callback(error);
  }
}

const { prepareValue } = (pg as unknown as { utils: { prepareValue(value: unknown): string } })
  .utils;

const EXECUTE_AND_SYNC = Buffer.concat([serialize.execute(), serialize.sync()]);

/** What pg's types leave out. */
interface PgConnection extends Connection {
  parsedStatements: Record<string, string>;
  submittedNamedStatements: Record<string, string>;
}
type QueryWithCallback = (
  query: StatementRun,
  values: undefined,
  callback: (error: Error | undefined, rows: Row[]) => void,
) => void;
