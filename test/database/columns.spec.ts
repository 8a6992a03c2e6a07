import { Column, Entity, PrimaryColumn } from 'typeorm';
import { columnsOf, jsonOf } from '../../src/database/columns.js';
import { ask } from '../support/ask.js';

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
