/** What the migrations ask of the extension, which CI does not have. Its functions only note that they were called. */
export const SEEMING_CITUS = `
  insert into pg_extension (oid, extname, extowner, extnamespace, extrelocatable, extversion)
    select 16000, 'citus', oid, 'public'::regnamespace, false, '13' from pg_roles where rolname = current_user;
  create table distributed (name text, by text);
  create function citus_truncate_trigger() returns trigger language plpgsql as $$ begin return null; end $$;
  create function create_distributed_table(name text, by text, colocate_with text default '') returns void
    language plpgsql as $$ begin
      insert into distributed values (name, by);
      execute format('create trigger seeming after truncate on %I execute function citus_truncate_trigger()', name);
    end $$`;
