-- What is remembered about users, and what they have used.

-- [M1] A scope's own facts. A forgotten one stays as a row, so that it can be told from one that never was.
CREATE TABLE memories (
    id               BLOB    NOT NULL PRIMARY KEY CHECK (length(id) = 16),
    app              TEXT    NOT NULL,
    user             TEXT    NOT NULL,
    text             TEXT    NOT NULL CHECK (length(CAST(text AS BLOB)) BETWEEN 1 AND 4096),
    kind             TEXT    NOT NULL CHECK (length(kind) BETWEEN 1 AND 32),
    status           TEXT    NOT NULL CHECK (status IN ('active', 'forgotten')),
    access_count     INTEGER NOT NULL DEFAULT 0,
    last_accessed_at INTEGER,
    source           TEXT    NOT NULL,
    created_at       INTEGER NOT NULL,
    updated_at       INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX memories_newest ON memories (app, user, created_at DESC, id DESC) WHERE status = 'active';

CREATE TRIGGER memories_stay BEFORE UPDATE OF app, user ON memories
WHEN NEW.app <> OLD.app OR NEW.user <> OLD.user
BEGIN SELECT RAISE(ABORT, 'M1: a memory stays in its scope'); END;

-- [C4] Model calls by day (UTC), written with the event or the job that made them. Costs are billionths of a US dollar.
CREATE TABLE usage (
    user             TEXT    NOT NULL,
    app              TEXT    NOT NULL,
    day              TEXT    NOT NULL CHECK (length(day) = 10),
    model            TEXT    NOT NULL,
    calls            INTEGER NOT NULL,
    input_tokens     INTEGER NOT NULL,
    output_tokens    INTEGER NOT NULL,
    cached_tokens    INTEGER NOT NULL,
    reasoning_tokens INTEGER NOT NULL,
    cost             INTEGER NOT NULL,
    estimated        INTEGER NOT NULL,
    PRIMARY KEY (user, app, day, model)
) STRICT, WITHOUT ROWID;

-- A user's days over all apps, for reports.
CREATE INDEX usage_by_day ON usage (user, day);

ALTER TABLE runs ADD COLUMN cost INTEGER NOT NULL DEFAULT 0;
