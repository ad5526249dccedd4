-- Several servers can share a database on PostgreSQL. Each is a node with a number, and `owner` says which node has a run, a
-- job or an action under way. On SQLite there is one server, so there are no nodes and no owners.
CREATE TABLE nodes (
    number      INTEGER PRIMARY KEY,
    -- When the others may take over what it has, in milliseconds of the database's clock.
    lease_until INTEGER NOT NULL,
    joined_at   INTEGER NOT NULL,
    -- The version of the program.
    version     TEXT    NOT NULL
) STRICT;

ALTER TABLE runs ADD COLUMN owner INTEGER;

ALTER TABLE jobs ADD COLUMN owner INTEGER;

ALTER TABLE actions ADD COLUMN owner INTEGER;

-- What a commit means to the other nodes.
ALTER TABLE delta_log_0 ADD COLUMN news BLOB;

ALTER TABLE delta_log_1 ADD COLUMN news BLOB;
