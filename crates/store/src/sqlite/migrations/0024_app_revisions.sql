-- Revisions of apps: a run that another process continues has the app that it began with.
CREATE TABLE app_revisions (
    app       TEXT    NOT NULL,
    revision  TEXT    NOT NULL,
    -- When a server began to serve it for the last time. The oldest ones go first.
    served_at INTEGER NOT NULL,
    -- The files of the folder, as JSON.
    files     BLOB    NOT NULL,
    PRIMARY KEY (app, revision)
) STRICT, WITHOUT ROWID;
