-- What a backup as docs/dba.md describes it fails at, what it leaves out, and what its restore needs first. Run it as the
-- migrator, before a disaster: psql -X -U animals_migrator -d animals -f docs/backup.sql. It prints no rows if the dump has
-- everything. A dump never has grants, nor roles, their passwords and settings.

-- pg_dump fails at these: grant select on each to animals_owner, or name it in a -T of pg_dump.
select 'the backup fails at' as what, oid::regclass::text as object,
       case when row_security_active(oid) then 'row-level security could hide rows' else 'the migrator may not read it' end as why
  from pg_class
 where relkind in ('r', 'p', 'S') and relpersistence <> 't'
   and relnamespace::regnamespace::text !~ '^(pg_|information_schema$)'
   and not exists (select from pg_depend where classid = 'pg_class'::regclass and objid = pg_class.oid and deptype = 'e')
   and (row_security_active(oid) or not case relkind when 'S' then has_sequence_privilege(oid, 'select')
                                                     else has_table_privilege(oid, 'select') end)
union all
-- Create them again, as a superuser, when the restore is finished: extensions, foreign servers and languages before it.
select 'not in the backup', pg_describe_object(class, object, 0), null
  from (select 'pg_extension'::regclass, oid from pg_extension
        union all select 'pg_publication'::regclass, oid from pg_publication
        union all select 'pg_subscription'::regclass, oid from pg_subscription
         where subdbid = (select oid from pg_database where datname = current_database())
        union all select 'pg_event_trigger'::regclass, oid from pg_event_trigger
        union all select 'pg_foreign_data_wrapper'::regclass, oid from pg_foreign_data_wrapper
        union all select 'pg_foreign_server'::regclass, oid from pg_foreign_server
        union all select 'pg_language'::regclass, oid from pg_language
        union all select 'pg_cast'::regclass, oid from pg_cast
        union all select 'pg_largeobject'::regclass, oid from pg_largeobject_metadata) as objects (class, object)
 where object >= 16384
   and not exists (select from pg_depend where classid = class and objid = object and deptype = 'e')
union all
-- Before the restore, create in the new database what each uses, and grant usage on foreign servers to animals_owner.
select 'the restore needs first', pg_describe_object(used.refclassid, used.refobjid, 0),
       'for ' || pg_describe_object(used.classid, used.objid, used.objsubid)
  from pg_depend as used
  left join pg_depend as member on (member.classid, member.objid, member.deptype) = (used.refclassid, used.refobjid, 'e')
 where used.deptype = 'n' and used.classid not in ('pg_foreign_server'::regclass, 'pg_user_mapping'::regclass)
   and (used.refclassid = 'pg_foreign_server'::regclass
        or member.refobjid in (select oid from pg_extension where extname <> 'plpgsql'))
   -- What is itself of an extension comes with it.
   and not exists (select from pg_depend as own
                     left join pg_depend as part
                       on (part.classid, part.objid, part.deptype) = (own.refclassid, own.refobjid, 'e')
                    where (own.classid, own.objid) = (used.classid, used.objid)
                      and (own.deptype = 'e' or own.deptype in ('i', 'a') and part.objid is not null))
union all
select 'the restore needs first', 'role ' || refobjid::regrole, 'for ' || pg_describe_object(classid, objid, objsubid)
  from pg_shdepend
 where deptype = 'r' and dbid = (select oid from pg_database where datname = current_database());
