import { getMetadataStorage } from 'class-validator';
import { getMetadataArgsStorage } from 'typeorm';
import { columnsOf, type EntityColumn, jsonOf } from '../database/columns.js';

/** A query of a list. Its DTO has these, and a property for each filter of the list. */
export interface PageQuery {
  limit: number;
  /** The id after which the page begins; `undefined` for the first page. */
  cursor?: bigint;
}

/** A list: the rows of a table, by id. */
export interface List {
  /** Its table, and what the DTO gives to `Cursor`. */
  readonly table: string;
  /** A row as JSON, in SQL. It begins with `id`. */
  readonly json: string;
  /** The columns by which it may be filtered. */
  readonly filters: readonly EntityColumn[];
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
  const validated = getMetadataStorage().getTargetValidationMetadatas(query, '', true, false);
  const names = new Set(validated.map(({ propertyName }) => propertyName));
  const filters = [...names].filter((name) => name !== 'limit' && name !== 'cursor');
  const columnOf = (name: string) => {
    const column = columns.find(({ property }) => property === name);
    if (column === undefined) {
      throw new Error(`${query.name} has ${name}, which is no column of ${entity.name}.`);
    }
    return column;
  };
  return {
    table: getMetadataArgsStorage().tables.find(({ target }) => target === entity)!.name!,
    json: jsonOf(columns),
    filters: filters.map(columnOf),
  };
}

/** @returns `undefined` if the query does not have the filter. */
export const filterValue = (query: PageQuery, { property }: EntityColumn): unknown =>
  query[property as keyof PageQuery];
