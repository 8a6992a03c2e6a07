-- What a DBA watches. Run it in the database animals, as a superuser or a role with pg_monitor:
-- psql -d animals -f docs/monitoring.sql
-- On Citus, run it on each worker too, with PGOPTIONS='-c citus.override_table_visibility=off', which shows the shards. The
-- coordinator shows zeros for distributed tables.

-- If a table is locked, only the query of sizes fails.
set lock_timeout = '1s';

-- Sessions, with the longest transaction first. The application_name of the service and of its commands is animal-store:
-- usename tells roles apart. On the machine client_addr, `ss -tnp` shows the process of client_port. A transaction that
-- lasts for minutes delays vacuum and migrations.
select pid, usename, application_name, client_addr, client_port, ssl, state, wait_event_type, wait_event,
       now() - xact_start as transaction, left(query, 60) as query
  from pg_stat_activity left join pg_stat_ssl using (pid)
 where datname = current_database()
 order by xact_start nulls last;

-- Sessions that wait for other sessions. None should wait for longer than a second.
select pid, pg_blocking_pids(pid) as blocked_by, now() - query_start as since, left(query, 60) as query
  from pg_stat_activity
 where cardinality(pg_blocking_pids(pid)) > 0;

-- Transactions, deadlocks and temporary files since the statistics were reset. The service's statements write no
-- temporary files. If temp_bytes rises, another client's queries write them.
select xact_commit, xact_rollback, deadlocks, temp_bytes, stats_reset
  from pg_stat_database
 where datname = current_database();

-- Dead rows and vacuum. idempotency_keys has the most, because its rows are deleted after a day. If dead rows outnumber
-- live rows for long: alter table idempotency_keys set (autovacuum_vacuum_scale_factor = 0.05).
select relname, n_live_tup, n_dead_tup, n_ins_since_vacuum, last_autovacuum, last_autoanalyze
  from pg_stat_user_tables
 order by n_dead_tup desc;

-- Sequential scans of tables. The service does not scan pets and orders. If their seq_scan rises, an index is
-- missing (run animal-store check), or another client scans them.
select relname, seq_scan, seq_tup_read, idx_scan
  from pg_stat_user_tables
 order by seq_tup_read desc;

-- Sizes of tables and indexes, use of indexes, and invalid indexes, which a failed create index concurrently leaves.
select indexrelid::regclass as index, pg_size_pretty(pg_relation_size(indexrelid)) as size,
       pg_size_pretty(pg_relation_size(relid)) as table_size, idx_scan, indisvalid
  from pg_stat_user_indexes
  join pg_index using (indexrelid)
 order by pg_relation_size(indexrelid) desc;

-- Cache hit ratio. If it is below 0.99 under load, shared_buffers is too small, or reads are spread over all pets.
select relname, round((heap_blks_hit + idx_blks_hit)::numeric
       / nullif(heap_blks_hit + idx_blks_hit + heap_blks_read + idx_blks_read, 0), 4) as hits
  from pg_statio_user_tables
 order by relname;

-- Age of the oldest transaction id, and of the oldest group of them, by database. Autovacuum freezes rows at 200 and
-- 400 million. If an age is far above that, autovacuum does not keep up.
select datname, age(datfrozenxid), mxid_age(datminmxid) from pg_database order by age(datfrozenxid) desc;

-- What keeps vacuum from freezing, or the log from being removed: prepared transactions, and slots. There should be no
-- prepared transaction, and each slot should be active and follow closely. At an age of 2.1 thousand million, PostgreSQL
-- refuses writes: end what is oldest here, then run vacuum.
select gid, prepared, owner, age(transaction) from pg_prepared_xacts;
select slot_name, active, wal_status, age(xmin), age(catalog_xmin),
       pg_size_pretty(pg_wal_lsn_diff(case when pg_is_in_recovery() then pg_last_wal_replay_lsn() else pg_current_wal_lsn() end,
                                      restart_lsn)) as kept
  from pg_replication_slots;

-- The archive, if archive_mode is on. last_failed_time should be older than last_archived_time, and few files should wait.
select archived_count, last_archived_wal, last_archived_time, failed_count, last_failed_wal, last_failed_time,
       (select count(*) from pg_ls_archive_statusdir() where name like '%.ready') as waiting
  from pg_stat_archiver;

-- Roles: when their passwords expire, which stops new sessions only, how many sessions each may have, and the settings that
-- it brings into its sessions. None of the service's should have synchronous_commit = off.
select rolname, rolvaliduntil, rolconnlimit, array_agg(setting) filter (where setting <> '') as settings
  from pg_roles
  left join pg_db_role_setting on setrole = pg_roles.oid
  left join unnest(setconfig) as setting on true
 where rolname !~ '^pg_'
 group by rolname, rolvaliduntil, rolconnlimit;

-- Statements that take the most time. This requires the extension pg_stat_statements. statements.sql gives the purpose
-- of the service's statements.
select calls, round(total_exec_time) as ms, round((total_exec_time / calls)::numeric, 2) as ms_each, rows,
       left(query, 60) as query
  from pg_stat_statements
 where dbid = (select oid from pg_database where datname = current_database())
 order by total_exec_time desc
 limit 20;
