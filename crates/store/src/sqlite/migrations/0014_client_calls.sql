-- Calls that the client makes: the run waits for each result. Tool and arguments are in the action of the same id.

CREATE TABLE client_calls (
    id          BLOB    NOT NULL PRIMARY KEY CHECK (length(id) = 16),
    app         TEXT    NOT NULL,
    user        TEXT    NOT NULL,
    thread      BLOB    NOT NULL,
    run         BLOB    NOT NULL,
    status      TEXT    NOT NULL CHECK (status IN ('open', 'answered', 'expired', 'superseded', 'cancelled')),
    expires_at  INTEGER NOT NULL,
    created_at  INTEGER NOT NULL,
    answered_at INTEGER,
    CHECK ((status = 'open') = (answered_at IS NULL)),
    FOREIGN KEY (id, run) REFERENCES tool_calls (id, run)
) STRICT, WITHOUT ROWID;

CREATE INDEX client_calls_newest ON client_calls (app, user, created_at DESC, id DESC);

CREATE INDEX client_calls_by_run ON client_calls (run) WHERE status = 'open';

CREATE INDEX client_calls_by_thread ON client_calls (thread);

CREATE INDEX client_calls_open ON client_calls (expires_at) WHERE status = 'open';

CREATE TRIGGER client_calls_answered_once BEFORE UPDATE OF status ON client_calls
WHEN OLD.status <> 'open'
BEGIN SELECT RAISE(ABORT, 'T6: a call of the client is answered once'); END;
