import { getMetadataArgsStorage } from 'typeorm';
import { columnsOf, type EntityColumn, jsonOf } from '../database/columns.js';

/** A list: the rows of a table, by id. */
export interface List {
  /** Its table, and what the DTO gives to `Cursor`. */
  readonly table: string;
  /** A row as JSON, in SQL. It begins with `id`. */
  readonly json: string;
  /** The columns by which it may be filtered, each with the property of the DTO that has the value. */
  readonly filters: readonly EntityColumn[];
}

/**
 * The list of an entity's rows. The statements and the `Link` follow from it.
 *
 * @param filters the properties by which it may be filtered. Each set of them needs an index on their columns, in this
 *   order, and the id.
 */
export function listOf(entity: Function, filters: string[] = []): List {
  const columns = columnsOf(entity);
  const { name } = getMetadataArgsStorage().tables.find(({ target }) => target === entity)!;
  return {
    table: name!,
    json: jsonOf(columns),
    filters: columns.filter(({ property }) => filters.includes(property)),
  };
}
