-- Earlier versions of records and files.

-- The action that made the present version; null if the user did.
ALTER TABLE records ADD COLUMN action BLOB;
ALTER TABLE files ADD COLUMN action BLOB;

-- What a record or a file was before, under the name that its traces have. The present version is in its own table.
CREATE TABLE thing_versions (
    app      TEXT    NOT NULL,
    user     TEXT    NOT NULL,
    thing    TEXT    NOT NULL,
    version  INTEGER NOT NULL CHECK (version >= 1),
    -- Null if it was deleted.
    contents TEXT,
    at       INTEGER NOT NULL,
    action   BLOB,
    PRIMARY KEY (app, user, thing, version)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER thing_versions_fixed BEFORE UPDATE ON thing_versions
BEGIN SELECT RAISE(ABORT, 'E4: versions do not change'); END;
