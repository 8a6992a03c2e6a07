import {
  Column,
  CreateDateColumn,
  DeleteDateColumn,
  Entity,
  PrimaryColumn,
  UpdateDateColumn,
  VersionColumn,
  VirtualColumn,
} from 'typeorm';
import { columnsOf, jsonOf } from '../../src/database/columns.js';
import { OperatorError } from '../../src/errors/operator-error.js';
import { INT64_MIN } from '../../src/int64.js';
import { pageOnCitus } from '../../src/listing/citus-page-reader.js';
import { listOf } from '../../src/listing/list.js';
import { pagesStatement } from '../../src/listing/postgres-page-reader.js';
import { ask, query } from '../support/ask.js';
import { createDatabase, dropDatabase } from '../support/database.js';

@Entity('samples')
class Sample {
  @PrimaryColumn({ type: 'bigint' })
  id!: string;

  @Column({ type: 'text', enum: ['big', 'small'], nullable: true })
  size!: string | null;

  @Column({ name: 'a_note', type: 'character varying', length: 10, nullable: true })
  note!: string | null;

  @Column({ type: 'integer', nullable: true })
  age!: number | null;

  @Column({ name: 'is_good', type: 'boolean' })
  isGood!: boolean;

  @Column({ name: 'born_at', type: 'timestamp with time zone', nullable: true })
  bornAt!: Date | null;
}

it.each([
  [
    `9223372036854775807, 'big', '"a"', -1, true, timestamptz '2026-11-21T00:00:00.1-12:00'`,
    '{"id":9223372036854775807,"size":"big","note":"\\"a\\"","age":-1,"isGood":true,"bornAt":"2026-11-21T12:00:00.100000Z"}',
  ],
  ['1, null, null, null, false, null::timestamptz', '{"id":1,"isGood":false}'],
  [`1, null, '', 0, false, null::timestamptz`, '{"id":1,"note":"","age":0,"isGood":false}'],
])('the columns of an entity are JSON, and left out if null: %s', async (values, json) => {
  const names = 'id, size, a_note, age, is_good, born_at';
  const row = `(values (${values})) as samples (${names})`;
  const sql = `select ${jsonOf(columnsOf(Sample))} as json from ${row}`;
  expect(await ask(process.env['TEST_DATABASE_URL']!, sql)).toEqual({ json });
});

const TIME = { type: 'timestamp with time zone' } as const;

@Entity('records')
class Row {
  @PrimaryColumn({ type: 'bigint' })
  id!: string;

  @Column({ type: 'text' })
  kind!: string;

  @Column({ type: 'text', select: false })
  secret!: string;

  // The database has no such column.
  @VirtualColumn({ type: 'integer', query: () => 'select 1' })
  count!: number;

  @VersionColumn({ type: 'integer', default: 1 })
  version!: number;

  @CreateDateColumn({ ...TIME, name: 'created_at' })
  createdAt!: Date;

  @UpdateDateColumn({ ...TIME, name: 'updated_at' })
  updatedAt!: Date;

  @DeleteDateColumn({ ...TIME, name: 'deleted_at' })
  deletedAt!: Date | null;
}

class RowsQuery {
  limit = 20;
  cursor?: bigint;
  kind?: string;
}

it('what the server sets is in JSON, what is not selected is not, and deleted rows are on no page', async () => {
  const url = await createDatabase();
  const list = listOf(Row, RowsQuery);
  const time = `timestamptz '2026-11-21Z'`;
  await query(
    url,
    `create table records as
     select n::bigint as id, 'a' as kind, 'x' as secret, 1 as version, ${time} as created_at,
            ${time} as updated_at, case when n % 2 = 0 then ${time} end as deleted_at
       from generate_series(1, 4) as n`,
  );
  const at = '2026-11-21T00:00:00.000000Z';
  const json = (id: number) =>
    `{"id":${id},"kind":"a","version":1,"createdAt":"${at}","updatedAt":"${at}"}`;
  for (const filters of [[], list.filters]) {
    const values = filters.map(() => 'a');
    const page = pageOnCitus(list, filters).replaceAll(/\$(\d)/g, (_all, n) =>
      n === '1' ? `'${INT64_MIN}'` : n === '2' ? '9' : `'${values[n - 3]}'`,
    );
    const rows = await query(url, page);
    expect(rows.map((row) => Object.values(row)[0])).toEqual([json(1), json(3)]);
    const pages = pagesStatement(list, filters).text.replaceAll(/\$(\d)/g, (_all, n) =>
      n === '1' ? `'{${INT64_MIN}}'` : n === '2' ? `'{9}'` : `'{${values[n - 3]}}'`,
    );
    expect(await query(url, pages)).toEqual([{ position: 1, items: `${json(1)}\n${json(3)}` }]);
  }
  await dropDatabase(url);
});

abstract class Identified {
  @PrimaryColumn({ type: 'bigint' })
  id!: string;
}

@Entity()
class BlackBox extends Identified {
  @Column({ type: 'text' })
  label!: string;
}

it('an entity has the columns of the class that it extends first, and without a name that of its class', () => {
  const { table, json } = listOf(BlackBox, class {});
  expect([table, json]).toEqual([
    'black_box',
    `'{"id":' || id || ',"label":' || to_json(label) || '}'`,
  ]);
});

it('a list has no filter that is no column of its entity, beside one that is neither', () => {
  class ColourQuery extends RowsQuery {
    colour?: string;
  }
  const why = 'ColourQuery has a property that is no column of Row.';
  expect(() => listOf(Row, ColourQuery)).toThrow(why);
});

it.each([
  ['a Column', Column()],
  ['a VersionColumn', VersionColumn()],
  ['a DeleteDateColumn', DeleteDateColumn()],
])('%s without an SQL type is told by a sentence', (_what, decorator) => {
  class Untyped {
    declare field: string;
  }
  Reflect.defineMetadata('design:type', String, Untyped.prototype, 'field');
  decorator(Untyped.prototype, 'field');
  expect(() => columnsOf(Untyped)).toThrow(OperatorError);
  expect(() => columnsOf(Untyped)).toThrow(/^Untyped\.field has no SQL type: /);
});
