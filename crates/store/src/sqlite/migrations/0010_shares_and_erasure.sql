-- Shares, budgets, and what is deleted: nothing grows without bound, and nothing that is gone stays.

-- Finished jobs, oldest first, for removing them. (One index over both would be taken for those that are ready, too, and
-- would leave them to be sorted.)
DROP INDEX jobs_finished;
CREATE INDEX jobs_done ON jobs (updated_at) WHERE status = 'done';
CREATE INDEX jobs_dead ON jobs (updated_at) WHERE status = 'dead';

-- Jobs of one app, newest first, for who looks after that app alone.
CREATE INDEX jobs_of_app ON jobs (app, created_at DESC, id DESC);

-- Who made a key and who revoked it, by the name of the user.
ALTER TABLE keys ADD COLUMN made_by TEXT;
ALTER TABLE keys ADD COLUMN revoked_by TEXT;

-- What users say of themselves: to every app (under the empty name), or to one. What was said before was said to all.
CREATE TABLE said_profiles (
    app        TEXT    NOT NULL,
    user       TEXT    NOT NULL,
    name       TEXT,
    timezone   TEXT,
    locale     TEXT,
    fields     TEXT    NOT NULL CHECK (json_valid(fields) AND length(CAST(fields AS BLOB)) <= 16384),
    updated_at INTEGER NOT NULL,
    version    INTEGER NOT NULL DEFAULT 1,
    PRIMARY KEY (app, user)
) STRICT, WITHOUT ROWID;
INSERT INTO said_profiles (app, user, name, timezone, locale, fields, updated_at, version)
    SELECT '', user, name, timezone, locale, fields, updated_at, version FROM profiles;
DROP TABLE profiles;
ALTER TABLE said_profiles RENAME TO profiles;

-- Whose job is next. Jobs of one kind in one thread are a line: one of them works at a time. Of one user, at most eight
-- work at once, and users take turns: who was served last comes last. Both tables hold only those with work to do, and
-- are kept by triggers, so that the next job is found without a look at those that cannot be taken.

-- Lines with a job that is ready and none that works; thread is empty for jobs without one.
CREATE TABLE job_lines (
    user   TEXT    NOT NULL,
    kind   TEXT    NOT NULL,
    app    TEXT    NOT NULL,
    thread BLOB    NOT NULL,
    due_at INTEGER NOT NULL,
    PRIMARY KEY (user, kind, app, thread)
) STRICT, WITHOUT ROWID;

CREATE INDEX job_lines_due ON job_lines (user, due_at);

-- Users with such lines, or with jobs that work; due_at is when the next of their jobs may be taken.
CREATE TABLE job_users (
    user      TEXT    NOT NULL PRIMARY KEY,
    due_at    INTEGER,
    working   INTEGER NOT NULL,
    served_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX job_users_due ON job_users (due_at) WHERE working < 8 AND due_at IS NOT NULL;

DROP INDEX jobs_ready;
CREATE INDEX jobs_in_line ON jobs (user, kind, app, thread, run_at) WHERE status = 'ready';
CREATE INDEX jobs_working ON jobs (user, kind, app, thread) WHERE status = 'running';

-- A job has come, moved or gone. Nothing is ever in here: whatever is put in brings its line and its user up to date.
CREATE VIEW job_moves (user, kind, app, thread, taken_at) AS SELECT '', '', '', NULL, 0;

CREATE TRIGGER job_moves_made INSTEAD OF INSERT ON job_moves
BEGIN
    DELETE FROM job_lines WHERE user = NEW.user AND kind = NEW.kind AND app = NEW.app
        AND thread = ifnull(NEW.thread, x'');
    INSERT INTO job_lines (user, kind, app, thread, due_at)
        SELECT NEW.user, NEW.kind, NEW.app, ifnull(NEW.thread, x''), run_at FROM jobs
            WHERE status = 'ready' AND user = NEW.user AND kind = NEW.kind AND app = NEW.app AND thread IS NEW.thread
                AND NOT EXISTS (SELECT 1 FROM jobs w WHERE w.status = 'running' AND w.user = NEW.user
                    AND w.kind = NEW.kind AND w.app = NEW.app AND w.thread IS NEW.thread)
            ORDER BY run_at LIMIT 1;
    INSERT OR IGNORE INTO job_users (user, due_at, working, served_at) VALUES (NEW.user, NULL, 0, 0);
    UPDATE job_users SET served_at = max(served_at, NEW.taken_at) WHERE user = NEW.user;
    UPDATE job_users SET
            due_at = max(served_at, (SELECT due_at FROM job_lines WHERE user = NEW.user ORDER BY due_at LIMIT 1)),
            working = (SELECT count(*) FROM jobs WHERE status = 'running' AND user = NEW.user)
        WHERE user = NEW.user;
    DELETE FROM job_users WHERE user = NEW.user AND due_at IS NULL AND working = 0;
END;

CREATE TRIGGER jobs_come AFTER INSERT ON jobs WHEN NEW.status IN ('ready', 'running')
BEGIN INSERT INTO job_moves VALUES (NEW.user, NEW.kind, NEW.app, NEW.thread, 0); END;

CREATE TRIGGER jobs_move AFTER UPDATE OF status, run_at ON jobs
BEGIN
    INSERT INTO job_moves
        VALUES (NEW.user, NEW.kind, NEW.app, NEW.thread, iif(NEW.status = 'running', NEW.updated_at, 0));
END;

CREATE TRIGGER jobs_go AFTER DELETE ON jobs WHEN OLD.status IN ('ready', 'running')
BEGIN INSERT INTO job_moves VALUES (OLD.user, OLD.kind, OLD.app, OLD.thread, 0); END;

UPDATE jobs SET run_at = run_at WHERE status IN ('ready', 'running');

-- What model calls under way may still spend, so that calls side by side keep to a budget together. The holder is a run
-- or a job; its row goes with the end of its call, and all of them when a process takes over.
CREATE TABLE reservations (
    holder BLOB    PRIMARY KEY CHECK (length(holder) = 16),
    app    TEXT    NOT NULL,
    user   TEXT    NOT NULL,
    tokens INTEGER NOT NULL CHECK (tokens >= 0),
    -- Billionths of a US dollar.
    cost   INTEGER NOT NULL CHECK (cost >= 0)
) STRICT, WITHOUT ROWID;

CREATE INDEX reservations_by_user ON reservations (app, user);

CREATE TRIGGER jobs_give_back AFTER DELETE ON jobs
BEGIN DELETE FROM reservations WHERE holder = OLD.id; END;

-- What is deleted leaves nothing behind, and what is forgotten can be purged.

-- Instructions of apps are kept once for all users (such a row of `texts` has no user), for as long as there is a thread
-- with a prompt that was made of them.
CREATE TABLE text_uses (
    thread BLOB NOT NULL REFERENCES threads (id),
    app    TEXT NOT NULL,
    source TEXT NOT NULL,
    hash   BLOB NOT NULL CHECK (length(hash) = 16),
    PRIMARY KEY (thread, source, hash)
) STRICT, WITHOUT ROWID;

CREATE INDEX text_uses_of ON text_uses (app, source, hash);

INSERT OR IGNORE INTO texts (app, user, source, hash, body)
    SELECT app, '', source, hash, body FROM texts WHERE source GLOB 'app_*';
DELETE FROM texts WHERE source GLOB 'app_*' AND user <> '';
INSERT OR IGNORE INTO text_uses (thread, app, source, hash)
    SELECT r.thread, r.app, part.value ->> 'source', unhex(part.value ->> 'hash')
        FROM runs r CROSS JOIN events e ON e.run = r.id AND e.kind = 'context:loaded'
                AND e.kind <> 'text:delta' AND e.kind <> 'reasoning:delta' AND e.kind <> 'tool:input'
            CROSS JOIN json_each(iif(json_valid(e.body), e.body, '{}'), '$.parts') part
        WHERE part.value ->> 'source' GLOB 'app_*' AND length(unhex(part.value ->> 'hash')) = 16;
DELETE FROM texts WHERE source GLOB 'app_*'
    AND NOT EXISTS (SELECT 1 FROM text_uses u
        WHERE u.app = texts.app AND u.source = texts.source AND u.hash = texts.hash);

-- Profiles as prompts had them, by their version: they go when the user changes the profile.
DELETE FROM texts WHERE source GLOB 'user_*';
CREATE INDEX texts_of_profiles ON texts (user) WHERE source GLOB 'profile_*';

-- What a thread's prompt says of the user, line by line. `source` is the wire id of what a line comes from, and both go
-- together.
CREATE TABLE snapshot_lines (
    thread BLOB    NOT NULL REFERENCES threads (id),
    number INTEGER NOT NULL,
    source TEXT    NOT NULL,
    at     INTEGER NOT NULL,
    text   TEXT    NOT NULL CHECK (length(CAST(text AS BLOB)) <= 8192),
    PRIMARY KEY (thread, number)
) STRICT, WITHOUT ROWID;

CREATE INDEX snapshot_lines_of ON snapshot_lines (source);

-- Of a line that is no heading and names no memory nobody knows what it comes from, so it could not go with that.
INSERT INTO snapshot_lines (thread, number, source, at, text)
    SELECT s.thread, line.key, coalesce(line.value ->> 'memory', 'thr_' || lower(hex(s.thread))), s.at,
            substr(line.value ->> 'text', 1, 2000)
        FROM snapshots s, json_each(iif(json_valid(s.body), s.body, '[]')) line
        WHERE line.value ->> 'memory' IS NOT NULL OR line.value ->> 'text' LIKE '%:' AND line.value ->> 'text' NOT LIKE '-%';
ALTER TABLE snapshots DROP COLUMN body;

-- What is left of purged words, so that they stay hidden where they are still said: bits that many words have.
CREATE TABLE shadows (
    number INTEGER NOT NULL PRIMARY KEY,
    app    TEXT    NOT NULL,
    user   TEXT    NOT NULL,
    shadow BLOB    NOT NULL CHECK (length(shadow) BETWEEN 6 AND 16384),
    at     INTEGER NOT NULL
) STRICT;

CREATE INDEX shadows_of ON shadows (app, user);

-- Memories that others took the place of are purged with those.
CREATE INDEX memories_superseded ON memories (superseded_by) WHERE superseded_by IS NOT NULL;

-- Which actions changed a thing: a record by its wire id, a file by `file:` and its path.
CREATE TABLE action_things (
    app    TEXT NOT NULL,
    user   TEXT NOT NULL,
    thing  TEXT NOT NULL,
    action BLOB NOT NULL,
    PRIMARY KEY (app, user, thing, action)
) STRICT, WITHOUT ROWID;

CREATE INDEX action_things_of ON action_things (action);

INSERT OR IGNORE INTO action_things (app, user, thing, action)
    SELECT a.app, a.user, coalesce(c.value ->> 'id', 'file:' || (c.value ->> 'path')), a.id
        FROM actions a, json_each(iif(json_valid(a.changes), a.changes, '[]')) c
        WHERE coalesce(c.value ->> 'id', c.value ->> 'path') IS NOT NULL;

-- Things that are deleted, until what the ledger says of them is erased too: at once if the user's own hand deleted them,
-- else when they can no longer be brought back. `position` is the newest entry of the ledger at that time.
CREATE TABLE erasures (
    app      TEXT    NOT NULL,
    user     TEXT    NOT NULL,
    thing    TEXT    NOT NULL,
    by_hand  INTEGER NOT NULL CHECK (by_hand IN (0, 1)),
    position INTEGER NOT NULL,
    at       INTEGER NOT NULL,
    PRIMARY KEY (app, user, thing, by_hand)
) STRICT, WITHOUT ROWID;

CREATE INDEX erasures_due ON erasures (by_hand, at);

INSERT INTO erasures (app, user, thing, by_hand, position, at)
    SELECT r.app, r.user, 'rec_' || lower(hex(r.id)), 0, coalesce(h.position, 0), r.updated_at
        FROM records r LEFT JOIN ledger_heads h ON h.app = r.app AND h.user = r.user WHERE r.data IS NULL
    UNION ALL
    SELECT f.app, f.user, 'file:' || f.path, 0, coalesce(h.position, 0), f.updated_at
        FROM files f LEFT JOIN ledger_heads h ON h.app = f.app AND h.user = f.user WHERE f.content IS NULL;

-- What prompts said of records was kept under the thread, where it would outlive the records. Runs under way still need it.
DELETE FROM texts WHERE source GLOB 'thr_*' AND (app, user, source, hash) IN
    (SELECT r.app, r.user, part.value ->> 'source', unhex(part.value ->> 'hash')
        FROM runs r CROSS JOIN events e ON e.run = r.id AND e.kind = 'context:loaded'
                AND e.kind <> 'text:delta' AND e.kind <> 'reasoning:delta' AND e.kind <> 'tool:input'
            CROSS JOIN json_each(iif(json_valid(e.body), e.body, '{}'), '$.parts') part
        WHERE part.value ->> 'fragment' IN ('domain', 'persona')
            AND NOT EXISTS (SELECT 1 FROM runs other WHERE other.thread = r.thread AND other.ended_at IS NULL));

-- How often things of a scope were erased: what prompts said of its records before is kept no longer.
CREATE TABLE erasure_counts (
    app    TEXT    NOT NULL,
    user   TEXT    NOT NULL,
    number INTEGER NOT NULL,
    PRIMARY KEY (app, user)
) STRICT, WITHOUT ROWID;

-- Proposals by what they became.
CREATE INDEX proposals_by_action ON proposals (action) WHERE action IS NOT NULL;

-- Apps whose folder is missing while something of theirs is unfinished, and since when.
CREATE TABLE missing_apps (
    app   TEXT    NOT NULL PRIMARY KEY,
    since INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- What takes an action back: looked for with every action that is read.
CREATE INDEX actions_taking_back ON actions (undo_of) WHERE undo_of IS NOT NULL;

-- What goes with a deleted thread, and what it must wait for.
CREATE INDEX jobs_by_thread ON jobs (thread, status) WHERE thread IS NOT NULL;
CREATE INDEX tool_results_by_run ON tool_results (run);
CREATE INDEX runs_unfinished_by_thread ON runs (thread) WHERE ended_at IS NULL;
CREATE INDEX actions_begun_by_thread ON actions (thread) WHERE thread IS NOT NULL AND status = 'started';
CREATE INDEX actions_to_erase ON actions (thread, position) WHERE thread IS NOT NULL AND input IS NOT NULL;

-- Where a message stands on its path: the number of messages up to it, and an earlier one of the path to leap to, so
-- that a page of a long conversation is found without walking all of it. Messages that are there get theirs when the
-- database is opened.
ALTER TABLE messages ADD COLUMN depth INTEGER CHECK (depth >= 1);
ALTER TABLE messages ADD COLUMN leap BLOB;

CREATE INDEX messages_unplaced ON messages (thread, seq) WHERE depth IS NULL;

DROP TRIGGER messages_fixed;
CREATE TRIGGER messages_fixed BEFORE UPDATE OF id, thread, parent, role, run, seq, created_at ON messages
BEGIN SELECT RAISE(ABORT, 'messages are inserted, never changed'); END;

CREATE TRIGGER messages_placed_once BEFORE UPDATE OF depth, leap ON messages
WHEN OLD.depth IS NOT NULL
BEGIN SELECT RAISE(ABORT, 'a message keeps its place'); END;
