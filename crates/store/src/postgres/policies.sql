-- A second wall between users. While the server works for the request of a user, it names the user in the setting
-- rondo.user, and the database shows and takes rows of this user alone, whatever a statement asks for. Without a name,
-- which is the server's own work, all rows are there. Rows without a user belong to an app, so all its users see them.
-- A superuser passes every policy, so a server should not be one.

CREATE FUNCTION rows_of() RETURNS text LANGUAGE sql STABLE PARALLEL SAFE
RETURN coalesce(current_setting('rondo.user', true), '');

DO $$
DECLARE
    owned text;
    part text[];
BEGIN
    FOR owned IN SELECT c.table_name FROM information_schema.columns c
        WHERE c.table_schema = current_schema() AND c.column_name = 'user'
    LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY', owned);
        EXECUTE format('CREATE POLICY rows_of_user ON %I
            USING ("user" = '''' OR (SELECT rows_of()) IN ('''', "user"))', owned);
    END LOOP;
    -- Rows that belong to another row: the table, its column, and the table of the row that has the user.
    FOREACH part SLICE 1 IN ARRAY ARRAY[
        ['events', 'thread', 'threads'], ['image_uses', 'thread', 'threads'], ['messages', 'thread', 'threads'],
        ['packed_deltas', 'thread', 'threads'], ['queue', 'thread', 'threads'], ['skipped', 'thread', 'threads'],
        ['snapshot_lines', 'thread', 'threads'], ['snapshots', 'thread', 'threads'],
        ['summaries', 'thread', 'threads'], ['text_uses', 'thread', 'threads'],
        ['tool_calls', 'run', 'runs'], ['tool_results', 'run', 'runs'],
        ['memory_sources', 'memory', 'memories'], ['memory_versions', 'memory', 'memories'],
        ['chunks', 'document', 'documents'], ['image_contents', 'image', 'images']]
    LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY', part[1]);
        EXECUTE format('CREATE POLICY rows_of_user ON %I
            USING ((SELECT rows_of()) = '''' OR EXISTS (SELECT 1 FROM %I owner WHERE owner.id = %I.%I))',
            part[1], part[3], part[1], part[2]);
    END LOOP;
END $$;
