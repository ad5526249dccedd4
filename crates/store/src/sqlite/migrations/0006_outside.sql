-- Profiles: changes that are made at once must not lose each other.
ALTER TABLE profiles ADD COLUMN version INTEGER NOT NULL DEFAULT 1;

-- What tools that reach outside need.

-- Tools of servers of an app. What is approved stays until somebody approves another definition, whatever the server
-- offers meanwhile.
CREATE TABLE mcp_tools (
    app                 TEXT    NOT NULL,
    server              TEXT    NOT NULL,
    tool                TEXT    NOT NULL,
    -- As last offered.
    definition          TEXT    NOT NULL CHECK (json_valid(definition)),
    hash                TEXT    NOT NULL,
    approved_hash       TEXT,
    approved_definition TEXT    CHECK (json_valid(approved_definition)),
    approved_at         INTEGER,
    -- Null for one that was there when its server was first seen.
    approved_by         TEXT,
    seen_at             INTEGER NOT NULL,
    present             INTEGER NOT NULL CHECK (present IN (0, 1)),
    -- Among what the server offers.
    position            INTEGER NOT NULL,
    PRIMARY KEY (app, server, tool),
    CHECK ((approved_hash IS NULL) = (approved_definition IS NULL)
       AND (approved_hash IS NULL) = (approved_at IS NULL))
) STRICT, WITHOUT ROWID;

-- Credentials of users, sealed: what they hold cannot be read here.
CREATE TABLE credentials (
    app        TEXT    NOT NULL,
    user       TEXT    NOT NULL,
    name       TEXT    NOT NULL,
    sealed     BLOB    NOT NULL,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (app, user, name)
) STRICT, WITHOUT ROWID;

-- Actions again, as they were but for one thing: an undo that reaches outside is named as such from its beginning, and
-- may fail and be tried again, so that an action can be named by more than one.
CREATE TABLE actions_next (
    id          BLOB    NOT NULL PRIMARY KEY CHECK (length(id) = 16),
    app         TEXT    NOT NULL,
    user        TEXT    NOT NULL,
    thread      BLOB,
    run         BLOB,
    step        INTEGER,
    tool        TEXT    NOT NULL,
    effect      TEXT    NOT NULL CHECK (effect IN ('read', 'idempotent', 'reversible', 'irreversible')),
    status      TEXT    NOT NULL CHECK (status IN
                    ('started', 'complete', 'failed', 'denied', 'cancelled', 'unknown')),
    -- Null once erased, as are output and changes then.
    input       TEXT,
    output      TEXT,
    -- What its writes changed, as they must be put back: null when there is nothing to undo.
    changes     TEXT,
    started_at  INTEGER NOT NULL,
    duration_ms INTEGER,
    -- The action that undid this one, and the one that this one undid or set out to undo.
    undone_by   BLOB,
    undo_of     BLOB,
    position    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

INSERT INTO actions_next (id, app, user, thread, run, step, tool, effect, status, input, output, changes, started_at,
        duration_ms, undone_by, undo_of, position)
    SELECT id, app, user, thread, run, step, tool, effect, status, input, output, changes, started_at,
        duration_ms, undone_by, undo_of, position FROM actions;
DROP TABLE actions;
ALTER TABLE actions_next RENAME TO actions;

CREATE UNIQUE INDEX actions_newest ON actions (app, user, position DESC);
CREATE INDEX actions_by_run ON actions (run, position DESC) WHERE run IS NOT NULL;
CREATE INDEX actions_by_thread ON actions (thread, position DESC) WHERE thread IS NOT NULL;
-- Begun by a process that may be gone: those of runs are found with their runs.
CREATE INDEX actions_begun ON actions (started_at) WHERE status = 'started' AND run IS NULL;
-- [E4] One undo at a time, and none after one that was done or may have been.
CREATE UNIQUE INDEX actions_undo ON actions (undo_of)
    WHERE undo_of IS NOT NULL AND status IN ('started', 'complete', 'unknown');

-- [E4] Undone once, and never taken back.
CREATE TRIGGER actions_undone_once BEFORE UPDATE OF undone_by ON actions
WHEN OLD.undone_by IS NOT NULL AND NEW.undone_by IS NOT OLD.undone_by
BEGIN SELECT RAISE(ABORT, 'E4: an action is undone once'); END;

-- [E1] An outcome stays.
CREATE TRIGGER actions_settle BEFORE UPDATE OF status ON actions
WHEN OLD.status <> 'started' AND NEW.status <> OLD.status
BEGIN SELECT RAISE(ABORT, 'E1: the outcome of an action does not change'); END;
