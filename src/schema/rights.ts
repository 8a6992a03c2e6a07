import type { DataSource } from 'typeorm';

/** Every table and sequence that the service uses, with the privileges that it needs there. */
export const RIGHTS: readonly (readonly [relation: string, ...privileges: string[]])[] = [
  ['migrations', 'select'],
  ['pets', 'select', 'insert'],
  ['orders', 'select'],
  ['api_keys', 'select', 'update'],
  ['idempotency_keys', 'select', 'insert', 'update', 'delete'],
  ['pets_id_seq', 'usage'],
];

/**
 * Returns the privileges of {@link RIGHTS} that the role of `dataSource` lacks. A relation that does not exist counts
 * as missing privileges. Reads only catalogues that PostgreSQL keeps in memory.
 *
 * @returns strings such as `select on orders`; empty if nothing is missing.
 */
export async function missingRights(dataSource: DataSource): Promise<string[]> {
  const needed = RIGHTS.flatMap(([relation, ...privileges]) =>
    privileges.map((privilege) => ({ relation, privilege })),
  );
  const rows = await dataSource.query<{ missing: string }[]>(
    `select privilege || ' on ' || relation as missing
       from unnest($1::text[], $2::text[]) with ordinality as needed (relation, privilege, position)
      where not coalesce(
              case privilege
                when 'usage' then has_sequence_privilege(to_regclass(relation), privilege)
                else has_table_privilege(to_regclass(relation), privilege)
              end, false)
      order by position`,
    [needed.map(({ relation }) => relation), needed.map(({ privilege }) => privilege)],
  );
  return rows.map(({ missing }) => missing);
}
