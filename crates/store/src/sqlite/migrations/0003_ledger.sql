-- What tools did: the ledger of every call, and the records, files and proposals they work on.

-- An action: one call as its ledger entries tell it, folded. Its id is the call's, or fresh where no run called it.
CREATE TABLE actions (
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
    -- The action that undid this one, and the one that this one undid.
    undone_by   BLOB,
    undo_of     BLOB    UNIQUE,
    position    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX actions_newest ON actions (app, user, position DESC);
CREATE INDEX actions_by_run ON actions (run, position DESC) WHERE run IS NOT NULL;
CREATE INDEX actions_by_thread ON actions (thread, position DESC) WHERE thread IS NOT NULL;
-- Begun by a process that may be gone: those of runs are found with their runs.
CREATE INDEX actions_begun ON actions (started_at) WHERE status = 'started' AND run IS NULL;

-- [E4] Undone once, and never taken back.
CREATE TRIGGER actions_undone_once BEFORE UPDATE OF undone_by ON actions
WHEN OLD.undone_by IS NOT NULL AND NEW.undone_by IS NOT OLD.undone_by
BEGIN SELECT RAISE(ABORT, 'E4: an action is undone once'); END;

-- [E1] An outcome stays.
CREATE TRIGGER actions_settle BEFORE UPDATE OF status ON actions
WHEN OLD.status <> 'started' AND NEW.status <> OLD.status
BEGIN SELECT RAISE(ABORT, 'E1: the outcome of an action does not change'); END;

-- [E3] Entries, chained per scope. The hash covers the entry before, the place and a salted digest of what was done.
CREATE TABLE ledger (
    app      TEXT    NOT NULL,
    user     TEXT    NOT NULL,
    position INTEGER NOT NULL,
    action   BLOB    NOT NULL,
    kind     TEXT    NOT NULL CHECK (kind IN ('intent', 'outcome', 'undo', 'late', 'erase')),
    at       INTEGER NOT NULL,
    digest   BLOB    NOT NULL CHECK (length(digest) = 32),
    hash     BLOB    NOT NULL CHECK (length(hash) = 32),
    PRIMARY KEY (app, user, position)
) STRICT, WITHOUT ROWID;

CREATE INDEX ledger_by_action ON ledger (action);

CREATE TRIGGER ledger_fixed BEFORE UPDATE ON ledger
BEGIN SELECT RAISE(ABORT, 'E3: entries do not change'); END;

CREATE TRIGGER ledger_stays BEFORE DELETE ON ledger
BEGIN SELECT RAISE(ABORT, 'E3: entries stay'); END;

-- The newest entry of each scope; the next one is built on it.
CREATE TABLE ledger_heads (
    app      TEXT    NOT NULL,
    user     TEXT    NOT NULL,
    position INTEGER NOT NULL,
    hash     BLOB    NOT NULL,
    PRIMARY KEY (app, user)
) STRICT, WITHOUT ROWID;

-- What a digest covers, and its salt. Erasure empties this and leaves the chain whole.
CREATE TABLE ledger_payloads (
    app      TEXT    NOT NULL,
    user     TEXT    NOT NULL,
    position INTEGER NOT NULL,
    salt     BLOB    NOT NULL CHECK (length(salt) = 16),
    payload  TEXT    NOT NULL,
    PRIMARY KEY (app, user, position)
) STRICT, WITHOUT ROWID;

-- Typed objects of an app. A deleted one keeps its row, so that its version goes on. `state` is the version that first
-- had what is there now: an undo brings back an earlier state under a new version; 0 stands for nothing.
CREATE TABLE records (
    number     INTEGER NOT NULL PRIMARY KEY,
    id         BLOB    NOT NULL UNIQUE CHECK (length(id) = 16),
    app        TEXT    NOT NULL,
    user       TEXT    NOT NULL,
    type       TEXT    NOT NULL,
    version    INTEGER NOT NULL CHECK (version >= 1),
    state      INTEGER NOT NULL CHECK (state BETWEEN 0 AND version),
    data       TEXT    CHECK (json_valid(data)),
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT;

CREATE INDEX records_newest ON records (app, user, type, updated_at DESC, id DESC) WHERE data IS NOT NULL;

CREATE TRIGGER records_version_grows BEFORE UPDATE ON records
WHEN NEW.version <= OLD.version OR NEW.id <> OLD.id
  OR NEW.app <> OLD.app OR NEW.user <> OLD.user OR NEW.type <> OLD.type
BEGIN SELECT RAISE(ABORT, 'E4: a version only grows, and a record stays in its scope'); END;

CREATE TRIGGER records_stay BEFORE DELETE ON records
BEGIN SELECT RAISE(ABORT, 'E4: a deleted record keeps its version'); END;

-- [M3] The words of records by their number, for search. `owner` is one word for scope and type, so that only those of
-- the scope are ever looked at.
CREATE VIRTUAL TABLE records_text USING fts5 (
    owner, text, content = '', contentless_delete = 1, tokenize = 'unicode61 remove_diacritics 2');

-- Markdown files of a user, by path. Versions and states are as in records.
CREATE TABLE files (
    app        TEXT    NOT NULL,
    user       TEXT    NOT NULL,
    path       TEXT    NOT NULL,
    version    INTEGER NOT NULL CHECK (version >= 1),
    state      INTEGER NOT NULL CHECK (state BETWEEN 0 AND version),
    content    TEXT,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (app, user, path)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER files_version_grows BEFORE UPDATE ON files
WHEN NEW.version <= OLD.version OR NEW.app <> OLD.app OR NEW.user <> OLD.user OR NEW.path <> OLD.path
BEGIN SELECT RAISE(ABORT, 'E4: a version only grows, and a file stays in its place'); END;

CREATE TRIGGER files_stay BEFORE DELETE ON files
BEGIN SELECT RAISE(ABORT, 'E4: a deleted file keeps its version'); END;

-- Calls that wait for a yes. One with a call belongs to a run that waits; one without outlives its run.
CREATE TABLE proposals (
    id         BLOB    NOT NULL PRIMARY KEY CHECK (length(id) = 16),
    app        TEXT    NOT NULL,
    user       TEXT    NOT NULL,
    thread     BLOB,
    run        BLOB,
    call       BLOB,
    tool       TEXT    NOT NULL,
    input      TEXT    NOT NULL,
    hash       BLOB    NOT NULL CHECK (length(hash) = 32),
    note       TEXT,
    status     TEXT    NOT NULL CHECK (status IN
                   ('open', 'confirmed', 'rejected', 'expired', 'superseded', 'withdrawn')),
    -- The action a confirmed one became; for one of a run, its call's.
    action     BLOB,
    expires_at INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    decided_at INTEGER
) STRICT, WITHOUT ROWID;

CREATE INDEX proposals_newest ON proposals (app, user, created_at DESC, id DESC);
CREATE INDEX proposals_by_run ON proposals (run) WHERE run IS NOT NULL;
CREATE INDEX proposals_by_thread ON proposals (thread) WHERE thread IS NOT NULL;
-- A call waits for one yes at a time.
CREATE UNIQUE INDEX proposals_of_call ON proposals (call) WHERE call IS NOT NULL AND status = 'open';
CREATE INDEX proposals_open ON proposals (expires_at) WHERE status = 'open';

CREATE TRIGGER proposals_decided_once BEFORE UPDATE OF status ON proposals
WHEN OLD.status <> 'open' AND NEW.status <> OLD.status
BEGIN SELECT RAISE(ABORT, 'a proposal is decided once'); END;
