-- The thread log, and what is derived from it in the same transaction.
-- Ids are sixteen bytes; lower(hex(id)) is the wire form without its prefix. Times are milliseconds since 1970.
-- The letters in brackets name the invariant a constraint holds.

CREATE TABLE threads (
    id            BLOB    NOT NULL PRIMARY KEY CHECK (length(id) = 16),
    app           TEXT    NOT NULL,
    user          TEXT    NOT NULL,
    title         TEXT,
    head          BLOB,
    model         TEXT,
    next_seq      INTEGER NOT NULL DEFAULT 1,
    message_count INTEGER NOT NULL DEFAULT 0,
    created_at    INTEGER NOT NULL,
    updated_at    INTEGER NOT NULL,
    deleted_at    INTEGER,
    UNIQUE (id, app, user)
) STRICT, WITHOUT ROWID;

CREATE INDEX threads_newest ON threads (app, user, updated_at DESC, id DESC) WHERE deleted_at IS NULL;
CREATE INDEX threads_deleted ON threads (deleted_at) WHERE deleted_at IS NOT NULL;

CREATE TRIGGER threads_seq_grows BEFORE UPDATE OF next_seq ON threads
WHEN NEW.next_seq < OLD.next_seq
BEGIN SELECT RAISE(ABORT, 'S1: a sequence never goes back'); END;

CREATE TABLE runs (
    id            BLOB    NOT NULL PRIMARY KEY CHECK (length(id) = 16),
    thread        BLOB    NOT NULL,
    app           TEXT    NOT NULL,
    user          TEXT    NOT NULL,
    message       BLOB    NOT NULL,
    status        TEXT    NOT NULL CHECK (status IN
                      ('queued', 'running', 'waiting', 'completed', 'failed', 'cancelled', 'interrupted')),
    model         TEXT,
    error         TEXT,
    input_tokens  INTEGER NOT NULL DEFAULT 0,
    output_tokens INTEGER NOT NULL DEFAULT 0,
    cached_tokens INTEGER NOT NULL DEFAULT 0,
    reasoning_tokens INTEGER NOT NULL DEFAULT 0,
    estimated     INTEGER NOT NULL DEFAULT 0,
    start_seq     INTEGER,
    end_seq       INTEGER,
    stop          TEXT    CHECK (stop IN ('cancelled', 'interrupted')),
    epoch         INTEGER NOT NULL DEFAULT 1,
    created_at    INTEGER NOT NULL,
    ended_at      INTEGER,
    FOREIGN KEY (thread, app, user) REFERENCES threads (id, app, user)
) STRICT, WITHOUT ROWID;

-- [Q1] At most one run of a thread is under way.
CREATE UNIQUE INDEX runs_one_active ON runs (thread) WHERE status IN ('running', 'waiting');
CREATE INDEX runs_by_thread ON runs (thread);
CREATE INDEX runs_unfinished ON runs (created_at) WHERE ended_at IS NULL;

-- [R3] Ownership only moves forward.
CREATE TRIGGER runs_epoch_grows BEFORE UPDATE OF epoch ON runs
WHEN NEW.epoch < OLD.epoch
BEGIN SELECT RAISE(ABORT, 'R3: an epoch never goes back'); END;

-- [C2] A request to stop is not taken back.
CREATE TRIGGER runs_stop_stays BEFORE UPDATE OF stop ON runs
WHEN OLD.stop IS NOT NULL AND NEW.stop IS NOT OLD.stop
BEGIN SELECT RAISE(ABORT, 'C2: a run that was told to stop stays so'); END;

CREATE TRIGGER runs_begin BEFORE INSERT ON runs
WHEN NEW.status NOT IN ('queued', 'running') OR NEW.ended_at IS NOT NULL
BEGIN SELECT RAISE(ABORT, 'R1: a run begins queued or running'); END;

-- [R1] Terminal states absorb.
CREATE TRIGGER runs_absorb BEFORE UPDATE ON runs
WHEN OLD.status IN ('completed', 'failed', 'cancelled', 'interrupted')
BEGIN SELECT RAISE(ABORT, 'R1: an ended run does not change'); END;

-- [T2, R4] A run ends with every call answered and with run:end as its last event.
CREATE TRIGGER runs_end BEFORE UPDATE OF status, ended_at ON runs
WHEN OLD.ended_at IS NULL
 AND (NEW.ended_at IS NOT NULL OR NEW.status IN ('completed', 'failed', 'cancelled', 'interrupted'))
BEGIN
    SELECT RAISE(ABORT, 'T2: a call has no result')
        WHERE EXISTS (SELECT 1 FROM tool_calls c WHERE c.run = NEW.id
                      AND NOT EXISTS (SELECT 1 FROM tool_results r WHERE r.call = c.id));
    SELECT RAISE(ABORT, 'R4: run:end is not the last event')
        WHERE NEW.end_seq IS NULL OR NEW.ended_at IS NULL OR NEW.status IN ('queued', 'running', 'waiting')
           OR NOT EXISTS (SELECT 1 FROM events e WHERE e.thread = NEW.thread AND e.seq = NEW.end_seq
                          AND e.run = NEW.id AND e.kind = 'run:end')
           OR EXISTS (SELECT 1 FROM events e WHERE e.thread = NEW.thread AND e.seq > NEW.end_seq AND e.run = NEW.id);
END;

CREATE TABLE events (
    thread BLOB    NOT NULL,
    seq    INTEGER NOT NULL,
    run    BLOB,
    kind   TEXT    NOT NULL,
    at     INTEGER NOT NULL,
    body   TEXT    NOT NULL,
    PRIMARY KEY (thread, seq)
) STRICT, WITHOUT ROWID;

-- Facts of a run; deltas are not in it, so streaming does not pay for it. (A list after NOT IN would build a table in
-- memory for every token.)
CREATE INDEX events_facts ON events (run, kind, seq)
    WHERE kind <> 'text:delta' AND kind <> 'reasoning:delta' AND kind <> 'tool:input';
-- [R4] One run:end per run.
CREATE UNIQUE INDEX events_one_end ON events (run) WHERE kind = 'run:end';

-- [S1, S2, R4] No gap, no reuse, and nothing after run:end. This runs for every token: two look-ups.
CREATE TRIGGER events_append BEFORE INSERT ON events
BEGIN
    SELECT RAISE(ABORT, 'S1: the sequence has a gap')
        WHERE NOT EXISTS (SELECT 1 FROM events e WHERE e.thread = NEW.thread AND e.seq = NEW.seq - 1)
          AND NEW.seq IS NOT (SELECT t.next_seq FROM threads t WHERE t.id = NEW.thread);
    SELECT RAISE(ABORT, 'R4: the run has ended or is not of this thread')
        WHERE NEW.run IS NOT NULL
          AND NOT EXISTS (SELECT 1 FROM runs r WHERE r.id = NEW.run AND r.thread = NEW.thread
                          AND r.ended_at IS NULL);
END;

-- [S1] Events are immutable.
CREATE TRIGGER events_fixed BEFORE UPDATE ON events
BEGIN SELECT RAISE(ABORT, 'S1: events do not change'); END;

-- Deltas of ended runs may be pruned, and a deleted thread purged; nothing else goes.
CREATE TRIGGER events_kept BEFORE DELETE ON events
WHEN NOT EXISTS (SELECT 1 FROM threads t WHERE t.id = OLD.thread AND t.deleted_at IS NOT NULL)
 AND NOT (OLD.kind IN ('text:delta', 'reasoning:delta', 'tool:input')
          AND EXISTS (SELECT 1 FROM runs r WHERE r.id = OLD.run AND r.ended_at IS NOT NULL))
BEGIN SELECT RAISE(ABORT, 'S1: events stay'); END;

CREATE TABLE messages (
    id         BLOB    NOT NULL PRIMARY KEY CHECK (length(id) = 16),
    thread     BLOB    NOT NULL REFERENCES threads (id),
    parent     BLOB,
    role       TEXT    NOT NULL CHECK (role IN ('user', 'assistant')),
    run        BLOB    NOT NULL REFERENCES runs (id),
    seq        INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    UNIQUE (thread, id),
    UNIQUE (thread, seq),
    FOREIGN KEY (thread, parent) REFERENCES messages (thread, id)
) STRICT, WITHOUT ROWID;

CREATE INDEX messages_children ON messages (thread, parent);
CREATE INDEX messages_by_run ON messages (run);

CREATE TRIGGER messages_fixed BEFORE UPDATE ON messages
BEGIN SELECT RAISE(ABORT, 'messages are inserted, never changed'); END;

-- [T1, T4] At most 32 calls a step and 200 steps a run; a provider's id is unique within its step.
CREATE TABLE tool_calls (
    id          BLOB    NOT NULL PRIMARY KEY CHECK (length(id) = 16),
    run         BLOB    NOT NULL REFERENCES runs (id),
    step        INTEGER NOT NULL CHECK (step BETWEEN 1 AND 201),
    idx         INTEGER NOT NULL CHECK (idx BETWEEN 0 AND 31),
    provider_id TEXT    NOT NULL,
    name        TEXT    NOT NULL,
    seq         INTEGER NOT NULL,
    UNIQUE (id, run),
    UNIQUE (run, step, idx),
    UNIQUE (run, step, provider_id)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER tool_calls_fixed BEFORE UPDATE ON tool_calls
BEGIN SELECT RAISE(ABORT, 'T5: calls do not change'); END;

-- [T2, T3] At most one result a call, and none without its call.
CREATE TABLE tool_results (
    call   BLOB    NOT NULL PRIMARY KEY,
    run    BLOB    NOT NULL,
    status TEXT    NOT NULL CHECK (status IN ('complete', 'failed', 'denied', 'cancelled', 'unknown')),
    seq    INTEGER NOT NULL,
    FOREIGN KEY (call, run) REFERENCES tool_calls (id, run)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER tool_results_fixed BEFORE UPDATE ON tool_results
BEGIN SELECT RAISE(ABORT, 'T6: the first result stays'); END;

-- [Q1, Q2] Messages that wait for their thread, in order. Their run is 'queued' until its turn.
CREATE TABLE queue (
    position   INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    thread     BLOB    NOT NULL REFERENCES threads (id),
    run        BLOB    NOT NULL UNIQUE REFERENCES runs (id),
    urgent     INTEGER NOT NULL,
    submission TEXT    NOT NULL
) STRICT;

CREATE INDEX queue_next ON queue (thread, urgent DESC, position);

-- [Q3] What a key was used for, written with its effect.
CREATE TABLE idempotency (
    app         TEXT    NOT NULL,
    user        TEXT    NOT NULL,
    key         TEXT    NOT NULL,
    fingerprint BLOB    NOT NULL,
    target      BLOB    NOT NULL,
    created_at  INTEGER NOT NULL,
    PRIMARY KEY (app, user, key)
) STRICT, WITHOUT ROWID;

CREATE INDEX idempotency_by_user ON idempotency (user, key);
CREATE INDEX idempotency_oldest ON idempotency (created_at);

-- [J1, J2] Work for later, enqueued with what causes it, once per key.
CREATE TABLE jobs (
    id         BLOB    NOT NULL PRIMARY KEY CHECK (length(id) = 16),
    kind       TEXT    NOT NULL,
    key        TEXT    NOT NULL,
    app        TEXT    NOT NULL,
    user       TEXT    NOT NULL,
    thread     BLOB,
    status     TEXT    NOT NULL CHECK (status IN ('ready', 'running', 'done', 'dead')),
    attempts   INTEGER NOT NULL DEFAULT 0,
    epoch      INTEGER NOT NULL DEFAULT 0,
    run_at     INTEGER NOT NULL,
    error      TEXT,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    UNIQUE (kind, key)
) STRICT, WITHOUT ROWID;

CREATE INDEX jobs_ready ON jobs (run_at) WHERE status = 'ready';
CREATE INDEX jobs_newest ON jobs (created_at DESC, id DESC);

CREATE TRIGGER jobs_absorb BEFORE UPDATE OF status ON jobs
WHEN OLD.status IN ('done', 'dead') AND NEW.status <> OLD.status
BEGIN SELECT RAISE(ABORT, 'J2: a job is done once'); END;

-- Keys of users, kept as hashes.
CREATE TABLE keys (
    id         BLOB    NOT NULL PRIMARY KEY CHECK (length(id) = 16),
    hash       BLOB    NOT NULL UNIQUE CHECK (length(hash) = 32),
    user       TEXT    NOT NULL,
    app        TEXT,
    admin      INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    revoked_at INTEGER
) STRICT, WITHOUT ROWID;
