-- Notices: what the channel of each user tells, for a day. Indexes for statistics of admins. Dead jobs can be retried.

-- Ids and words only; what a notice says of a thread or a proposal is read when it is sent.
CREATE TABLE notices (
    user      TEXT    NOT NULL,
    number    INTEGER NOT NULL CHECK (number >= 1),
    app       TEXT    NOT NULL,
    kind      TEXT    NOT NULL,
    -- An id; of memories one after the other.
    subject   BLOB    NOT NULL CHECK (length(subject) BETWEEN 16 AND 1600 AND length(subject) % 16 = 0),
    -- The status of the thing, or its change.
    status    TEXT    NOT NULL,
    -- The change of the thread of a run, which has the number before this one.
    of_thread TEXT,
    at        INTEGER NOT NULL,
    PRIMARY KEY (user, number)
) STRICT, WITHOUT ROWID;

CREATE INDEX notices_oldest ON notices (at);

-- The number up to which the notices of a user were swept.
CREATE TABLE notices_swept (
    user    TEXT    NOT NULL PRIMARY KEY,
    through INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX runs_newest ON runs (created_at DESC, id DESC);
CREATE INDEX usage_of_all ON usage (day, app, user, model);

DROP TRIGGER jobs_absorb;
CREATE TRIGGER jobs_absorb BEFORE UPDATE OF status ON jobs
WHEN OLD.status IN ('done', 'dead') AND NEW.status <> OLD.status
 AND NOT (OLD.status = 'dead' AND NEW.status = 'ready' AND NEW.attempts = 0)
BEGIN SELECT RAISE(ABORT, 'J2: a job is done once'); END;
