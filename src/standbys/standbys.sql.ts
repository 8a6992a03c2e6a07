import { Statement } from '../database/statement.js';

/**
 * The position of the primary's log: an LSN that is not before any acknowledged commit, and its timeline. Returns no
 * rows on a server in recovery. With `synchronous_commit = off`, commits are acknowledged before they are flushed.
 */
export const PRIMARY_POSITION = new Statement(
  'primary-position',
  `
  select lsn::text, ('x' || left(pg_walfile_name(lsn), 8))::bit(32)::int
    from (select case current_setting('synchronous_commit')
                   when 'off' then pg_current_wal_insert_lsn()
                   else pg_current_wal_flush_lsn()
                 end as lsn
           where not pg_is_in_recovery()) as position`,
);

/** LSNs of different timelines cannot be compared. A server that was promoted receives no timeline. */
const HAS_REPLAYED = `pg_last_wal_replay_lsn() >= $1::pg_lsn
         and (select received_tli from pg_stat_wal_receiver) = $2::int`;

/**
 * Whether a standby receives the timeline `$2` and has replayed it up to the LSN `$1`. Checks up to ten times, within
 * 36 ms. A statement that is sent afterwards sees all commits up to this LSN.
 */
export const STANDBY_HAS_REPLAYED = new Statement(
  'standby-has-replayed',
  `
  with recursive look (round, has_replayed) as (
    select 0, ${HAS_REPLAYED}
    union all
    select round + 1, ${HAS_REPLAYED}
      from look, pg_sleep(round * 0.001)
     where not has_replayed and round < 9
  )
  select coalesce(bool_or(has_replayed), false) from look`,
);

/**
 * Identifies a primary and its standbys: by the cluster, the database, and the OID of the table `pets`. The other
 * columns are: whether the session may see the timeline that a standby receives, its role, and whether it has the
 * settings that this service sends when it connects. A pooler may ignore them.
 */
export const SERVER_IDENTITY = new Statement(
  'server-identity',
  `
  select concat_ws('/', system_identifier, current_database(), to_regclass('pets')::oid),
         pg_has_role('pg_read_all_stats', 'usage'), quote_ident(current_user),
         current_setting('plan_cache_mode') = 'force_generic_plan'
    from pg_control_system()`,
);
