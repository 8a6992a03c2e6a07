import { Statement } from '../database/statement.js';

/** The same on a primary and its standbys: the cluster, the database, and the OID of the table `pets`. */
const IDENTITY = `(select concat_ws('/', system_identifier, current_database(), to_regclass('pets')::oid)
            from pg_control_system())`;

export type PrimaryPosition = [lsn: string | null, timeline: number | null, identity: string];

/**
 * An LSN that is not before any acknowledged commit, its timeline, and the identity. A server in recovery has no LSN. With
 * `synchronous_commit = off`, commits are acknowledged before they are flushed.
 */
export const PRIMARY_POSITION = new Statement(
  'primary-position',
  `
  select lsn::text, ('x' || left(pg_walfile_name(lsn), 8))::bit(32)::int,
         ${IDENTITY}
    from (select case
                   when pg_is_in_recovery() then null
                   when current_setting('synchronous_commit') = 'off' then pg_current_wal_insert_lsn()
                   else pg_current_wal_flush_lsn()
                 end as lsn) as position`,
);

/**
 * Whether a standby receives the timeline `$2` and has replayed it up to the LSN `$1`, at the latest after 36 ms. LSNs of
 * different timelines cannot be compared, and a server that was promoted receives none. The second column says why the
 * service must not use the server, such as another identity than `$3`.
 */
export const STANDBY_STATE = new Statement(
  'standby-state',
  `
  select exists (select
                   from generate_series(0, 8) as round, pg_sleep(round * 0.001), pg_stat_wal_receiver
                  where received_tli = $2::int and pg_last_wal_replay_lsn() >= $1::pg_lsn),
         case
           when $3::text <> ${IDENTITY}
           then 'is not a standby of the server of DATABASE_URL, or the URL names another database or schema.'
           when not pg_has_role('pg_read_all_stats', 'usage')
           then 'does not show this role what it receives. On the primary, run: grant pg_read_all_stats to '
                || quote_ident(current_user) || ';'
         end`,
);
