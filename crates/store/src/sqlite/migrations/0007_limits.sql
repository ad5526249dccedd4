-- What users do in apps, by the minute of the clock, for limits. Threads may be deleted; what was begun in them still
-- counts. Rows older than a day are removed.
CREATE TABLE pace (
    app    TEXT    NOT NULL,
    user   TEXT    NOT NULL,
    -- Its first millisecond.
    minute INTEGER NOT NULL,
    runs   INTEGER NOT NULL,
    tokens INTEGER NOT NULL,
    PRIMARY KEY (app, user, minute)
) STRICT, WITHOUT ROWID;

CREATE INDEX pace_oldest ON pace (minute);

-- Runs of a user that work now.
CREATE INDEX runs_working ON runs (app, user) WHERE status = 'running';
