-- Memory: versions and sources of memories, what was forgotten, and what recall reads.

DROP INDEX memories_newest;
DROP TRIGGER memories_stay;
ALTER TABLE memories RENAME TO memories_before;

-- [M1] A scope's own facts. One that is not active stays as a row, so that it can be brought back.
CREATE TABLE memories (
    id               BLOB    NOT NULL PRIMARY KEY CHECK (length(id) = 16),
    app              TEXT    NOT NULL,
    user             TEXT    NOT NULL,
    text             TEXT    NOT NULL CHECK (length(CAST(text AS BLOB)) BETWEEN 1 AND 4096),
    kind             TEXT    NOT NULL CHECK (length(kind) BETWEEN 1 AND 32),
    status           TEXT    NOT NULL CHECK (status IN ('active', 'forgotten', 'removed', 'expired', 'superseded')),
    version          INTEGER NOT NULL DEFAULT 1 CHECK (version >= 1),
    valid_from       INTEGER,
    valid_until      INTEGER,
    superseded_by    BLOB,
    access_count     INTEGER NOT NULL DEFAULT 0,
    last_accessed_at INTEGER,
    -- Who it comes from, in one word.
    source           TEXT    NOT NULL,
    created_at       INTEGER NOT NULL,
    updated_at       INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

INSERT INTO memories (id, app, user, text, kind, status, access_count, last_accessed_at, source, created_at, updated_at)
    SELECT id, app, user, text, kind, status, access_count, last_accessed_at, source, created_at, updated_at
        FROM memories_before;
DROP TABLE memories_before;

CREATE INDEX memories_newest ON memories (app, user, status, created_at DESC, id DESC);
CREATE INDEX memories_all ON memories (app, user, created_at DESC, id DESC);
-- What is worth least comes first. A memory is worth its uses less a tenth for each day of its age, so a use is worth ten
-- days; in this form the order does not depend on the time at which it is asked.
CREATE INDEX memories_least ON memories (app, user, access_count * 864000000 + created_at, created_at, id)
    WHERE status = 'active';

CREATE TRIGGER memories_stay BEFORE UPDATE OF app, user ON memories
WHEN NEW.app <> OLD.app OR NEW.user <> OLD.user
BEGIN SELECT RAISE(ABORT, 'M1: a memory stays in its scope'); END;

CREATE TRIGGER memories_version_grows BEFORE UPDATE OF text, kind, status, version, valid_from, valid_until, superseded_by
ON memories WHEN NEW.version <> OLD.version + 1
BEGIN SELECT RAISE(ABORT, 'M5: each change of a memory is a version of its own'); END;

-- How many active ones a scope has: counting them for each new one would take longer than adding it.
CREATE TABLE memory_counts (
    app    TEXT    NOT NULL,
    user   TEXT    NOT NULL,
    active INTEGER NOT NULL CHECK (active >= 0),
    PRIMARY KEY (app, user)
) STRICT, WITHOUT ROWID;

INSERT INTO memory_counts (app, user, active)
    SELECT app, user, count(*) FROM memories WHERE status = 'active' GROUP BY app, user;

CREATE TRIGGER memories_count_added AFTER INSERT ON memories WHEN NEW.status = 'active'
BEGIN
    INSERT INTO memory_counts (app, user, active) VALUES (NEW.app, NEW.user, 1)
        ON CONFLICT (app, user) DO UPDATE SET active = active + 1;
END;

CREATE TRIGGER memories_count_changed AFTER UPDATE OF status ON memories
WHEN (OLD.status = 'active') <> (NEW.status = 'active')
BEGIN
    INSERT INTO memory_counts (app, user, active) VALUES (NEW.app, NEW.user, NEW.status = 'active')
        ON CONFLICT (app, user) DO UPDATE SET active = active + iif(NEW.status = 'active', 1, -1);
END;

CREATE TRIGGER memories_count_deleted AFTER DELETE ON memories WHEN OLD.status = 'active'
BEGIN UPDATE memory_counts SET active = active - 1 WHERE app = OLD.app AND user = OLD.user; END;

-- [M5] A memory as each of its changes has left it.
CREATE TABLE memory_versions (
    memory      BLOB    NOT NULL REFERENCES memories (id),
    version     INTEGER NOT NULL CHECK (version >= 1),
    text        TEXT    NOT NULL,
    kind        TEXT    NOT NULL,
    status      TEXT    NOT NULL,
    reason      TEXT    NOT NULL CHECK (reason IN ('created', 'edited', 'updated', 'merged', 'removed', 'forgotten',
                                                   'restored', 'expired', 'superseded', 'undone')),
    valid_from  INTEGER,
    valid_until INTEGER,
    at          INTEGER NOT NULL,
    PRIMARY KEY (memory, version)
) STRICT, WITHOUT ROWID;

INSERT INTO memory_versions (memory, version, text, kind, status, reason, at)
    SELECT id, 1, text, kind, status, iif(status = 'active', 'created', status), updated_at FROM memories;

CREATE TRIGGER memory_versions_fixed BEFORE UPDATE ON memory_versions
BEGIN SELECT RAISE(ABORT, 'M5: versions do not change'); END;

-- [M5] The user's words a memory rests on. When their conversation is deleted, that they were said stays.
CREATE TABLE memory_sources (
    number  INTEGER NOT NULL PRIMARY KEY,
    memory  BLOB    NOT NULL REFERENCES memories (id),
    thread  BLOB,
    message BLOB,
    words   TEXT,
    at      INTEGER NOT NULL
) STRICT;

CREATE INDEX memory_sources_of ON memory_sources (memory);
CREATE INDEX memory_sources_by_thread ON memory_sources (thread) WHERE thread IS NOT NULL;

CREATE TRIGGER memory_sources_fixed BEFORE UPDATE ON memory_sources
WHEN NEW.memory <> OLD.memory OR NEW.at <> OLD.at
  OR NEW.thread IS NOT NULL OR NEW.message IS NOT NULL OR NEW.words IS NOT NULL
BEGIN SELECT RAISE(ABORT, 'M5: a source changes only when its conversation is deleted'); END;

-- Words that were forgotten with a memory, until it is restored.
CREATE TABLE tombstones (
    number INTEGER NOT NULL PRIMARY KEY,
    app    TEXT    NOT NULL,
    user   TEXT    NOT NULL,
    memory BLOB    NOT NULL REFERENCES memories (id),
    words  TEXT    NOT NULL,
    at     INTEGER NOT NULL
) STRICT;

CREATE INDEX tombstones_of ON tombstones (app, user);
CREATE INDEX tombstones_by_memory ON tombstones (memory);

-- Users who want nothing to be remembered.
CREATE TABLE memory_off (
    app  TEXT NOT NULL,
    user TEXT NOT NULL,
    PRIMARY KEY (app, user)
) STRICT, WITHOUT ROWID;

-- What changed for recall, in the order of change: what changes again gets a new number, which is never used twice.
CREATE TABLE items (
    rev  INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    app  TEXT    NOT NULL,
    user TEXT    NOT NULL,
    kind TEXT    NOT NULL CHECK (kind IN ('memory', 'message', 'thread', 'tombstone')),
    id   BLOB    NOT NULL CHECK (length(id) = 16),
    UNIQUE (kind, id)
) STRICT;

CREATE INDEX items_newest ON items (app, user, rev);

INSERT INTO items (app, user, kind, id)
    SELECT t.app, t.user, 'message', m.id FROM messages m JOIN threads t ON t.id = m.thread
        WHERE t.deleted_at IS NULL ORDER BY m.created_at, m.thread, m.seq;
INSERT INTO items (app, user, kind, id)
    SELECT app, user, 'memory', id FROM memories WHERE status = 'active' ORDER BY created_at, id;

-- [M4] Vectors of items, by the model that made them. The hash is of the text.
CREATE TABLE vectors (
    app    TEXT NOT NULL,
    user   TEXT NOT NULL,
    item   BLOB NOT NULL CHECK (length(item) = 16),
    model  TEXT NOT NULL,
    hash   BLOB NOT NULL CHECK (length(hash) = 16),
    vector BLOB NOT NULL CHECK (length(vector) BETWEEN 1 AND 65536),
    PRIMARY KEY (item, model)
) STRICT;

-- What a thread's prompt says of memories.
CREATE TABLE snapshots (
    thread BLOB    NOT NULL PRIMARY KEY REFERENCES threads (id),
    body   TEXT    NOT NULL,
    at     INTEGER NOT NULL
) STRICT;

-- The place in the log up to which the thread has been looked at for memories.
ALTER TABLE threads ADD COLUMN extracted INTEGER NOT NULL DEFAULT 0;
