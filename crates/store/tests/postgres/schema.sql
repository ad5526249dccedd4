-- The tables that submitting a message, recording a tool result and claiming a job need on PostgreSQL. Names, types and
-- meanings are those of the SQLite schema: ids are 16 bytes, times are milliseconds since 1970, JSON is text.

CREATE TABLE threads (
    id BYTEA PRIMARY KEY, app TEXT NOT NULL, "user" TEXT NOT NULL, head BYTEA, next_seq BIGINT NOT NULL DEFAULT 1,
    created_at BIGINT NOT NULL, deleted_at BIGINT
);

CREATE TABLE runs (
    id BYTEA PRIMARY KEY, thread BYTEA NOT NULL REFERENCES threads, app TEXT NOT NULL, "user" TEXT NOT NULL,
    message BYTEA NOT NULL, status TEXT NOT NULL, model TEXT, stop TEXT, start_seq BIGINT, created_at BIGINT NOT NULL
);
CREATE UNIQUE INDEX runs_active ON runs (thread) WHERE status IN ('running', 'waiting');

CREATE TABLE events (
    thread BYTEA NOT NULL REFERENCES threads, seq BIGINT NOT NULL, run BYTEA, kind TEXT NOT NULL, at BIGINT NOT NULL,
    body TEXT NOT NULL, PRIMARY KEY (thread, seq)
);

CREATE TABLE messages (
    id BYTEA PRIMARY KEY, thread BYTEA NOT NULL REFERENCES threads, parent BYTEA, role TEXT NOT NULL, run BYTEA,
    seq BIGINT NOT NULL, created_at BIGINT NOT NULL
);

CREATE TABLE queue (
    position BIGSERIAL PRIMARY KEY, thread BYTEA NOT NULL REFERENCES threads, run BYTEA NOT NULL UNIQUE,
    urgent BOOLEAN NOT NULL, submission TEXT NOT NULL
);

CREATE TABLE idempotency (
    app TEXT NOT NULL, "user" TEXT NOT NULL, key TEXT NOT NULL, fingerprint BYTEA NOT NULL, target BYTEA NOT NULL,
    created_at BIGINT NOT NULL, PRIMARY KEY (app, "user", key)
);

CREATE TABLE minutes (
    app TEXT NOT NULL, "user" TEXT NOT NULL, minute BIGINT NOT NULL, runs BIGINT NOT NULL, tokens BIGINT NOT NULL,
    PRIMARY KEY (app, "user", minute)
);

CREATE TABLE jobs (
    id BYTEA PRIMARY KEY, kind TEXT NOT NULL, key TEXT NOT NULL, app TEXT NOT NULL, "user" TEXT NOT NULL, thread BYTEA,
    status TEXT NOT NULL, attempts INTEGER NOT NULL DEFAULT 0, epoch BIGINT NOT NULL DEFAULT 0, run_at BIGINT NOT NULL,
    error TEXT, created_at BIGINT NOT NULL, updated_at BIGINT NOT NULL, UNIQUE (kind, key)
);

CREATE TABLE tool_results (call BYTEA PRIMARY KEY, run BYTEA NOT NULL, status TEXT NOT NULL, seq BIGINT NOT NULL);

CREATE TABLE actions (
    id BYTEA PRIMARY KEY, app TEXT NOT NULL, "user" TEXT NOT NULL, thread BYTEA, run BYTEA, tool TEXT NOT NULL,
    effect TEXT NOT NULL, status TEXT NOT NULL, input TEXT, changes TEXT, started_at BIGINT NOT NULL,
    duration_ms BIGINT, undone_by BYTEA, undo_of BYTEA, position BIGINT NOT NULL
);

CREATE TABLE ledger (
    app TEXT NOT NULL, "user" TEXT NOT NULL, position BIGINT NOT NULL, action BYTEA NOT NULL, kind TEXT NOT NULL,
    at BIGINT NOT NULL, digest BYTEA NOT NULL, hash BYTEA NOT NULL, salt BYTEA, payload TEXT,
    PRIMARY KEY (app, "user", position)
);

CREATE TABLE records (
    id BYTEA PRIMARY KEY, app TEXT NOT NULL, "user" TEXT NOT NULL, type TEXT NOT NULL, version BIGINT NOT NULL,
    state BIGINT NOT NULL, data TEXT
);
