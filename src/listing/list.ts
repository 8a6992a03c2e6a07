import { DefaultNamingStrategy, getMetadataArgsStorage } from 'typeorm';
import { andNotDeleted, columnsOf, type EntityColumn, jsonOf } from '../database/columns.js';
import { propertiesOf } from '../validation/decorators.js';

/** A query of a list. Its DTO has these, and a property for each filter of the list. */
export interface PageQuery {
  limit: number;
  /** The id after which the page begins; `undefined` for the first page. */
  cursor?: bigint;
}

export interface List {
  /** Its table, and what the DTO gives to `Cursor`. */
  readonly table: string;
  /** A row as JSON, in SQL. It begins with `id`. */
  readonly json: string;
  /** {@link andNotDeleted} */
  readonly andNotDeleted: string;
  readonly filters: readonly EntityColumn[];
  /** Each set of the filters, which has a statement and an index of its own. */
  readonly filterSets: readonly EntityColumn[][];
}

/**
 * The list of an entity's rows. It may be filtered by each property that the DTO of its queries has, except `limit` and
 * `cursor`: by the column of that property. The statements and the `Link` follow from it. Each set of filters needs an
 * index on their columns, in the order of the DTO, and the id. First comes the filter with the fewest values: for another
 * one, the planner might take a shorter index, and sort.
 *
 * @throws Error if the entity has no such column.
 */
export function listOf(entity: Function, query: Function): List {
  const columns = columnsOf(entity);
  const names = propertiesOf(query).filter((name) => name !== 'limit' && name !== 'cursor');
  const filters = names.flatMap((name) => columns.filter((one) => one.property === name));
  if (filters.length < names.length) {
    throw new Error(`${query.name} has a property that is no column of ${entity.name}.`);
  }
  const { name } = getMetadataArgsStorage().tables.find(({ target }) => target === entity)!;
  return {
    table: new DefaultNamingStrategy().tableName(entity.name, name),
    json: jsonOf(columns),
    andNotDeleted: andNotDeleted(columns),
    filters,
    filterSets: Array.from({ length: 2 ** filters.length }, (_, bits) =>
      filters.filter((_filter, i) => bits & (1 << i)),
    ),
  };
}
