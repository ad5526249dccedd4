-- What prompts are made of beside messages and memories: kept texts, personas, pins, summaries, documents, profiles.

-- Texts beside the log, named by their hash. `source` is the wire id of what a text comes from, and both go together.
CREATE TABLE texts (
    app    TEXT NOT NULL,
    user   TEXT NOT NULL,
    source TEXT NOT NULL,
    hash   BLOB NOT NULL CHECK (length(hash) = 16),
    body   TEXT NOT NULL CHECK (length(CAST(body AS BLOB)) <= 262144),
    PRIMARY KEY (app, user, source, hash)
) STRICT, WITHOUT ROWID;

-- Named prompts of users.
CREATE TABLE personas (
    app        TEXT    NOT NULL,
    user       TEXT    NOT NULL,
    id         TEXT    NOT NULL,
    name       TEXT    NOT NULL,
    prompt     TEXT    NOT NULL CHECK (length(CAST(prompt AS BLOB)) <= 65536),
    settings   TEXT    NOT NULL CHECK (json_valid(settings)),
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (app, user, id)
) STRICT, WITHOUT ROWID;

-- Who answers in the thread unless a run says otherwise: a persona of the app or of the user.
ALTER TABLE threads ADD COLUMN persona TEXT;
CREATE INDEX threads_by_persona ON threads (app, user, persona) WHERE persona IS NOT NULL;

-- What users marked as important, in one thread or (without one) in all of the app.
CREATE TABLE pins (
    id         BLOB    NOT NULL PRIMARY KEY CHECK (length(id) = 16),
    app        TEXT    NOT NULL,
    user       TEXT    NOT NULL,
    thread     BLOB,
    text       TEXT    NOT NULL CHECK (length(CAST(text AS BLOB)) BETWEEN 1 AND 4096),
    created_at INTEGER NOT NULL,
    FOREIGN KEY (thread, app, user) REFERENCES threads (id, app, user)
) STRICT, WITHOUT ROWID;

CREATE INDEX pins_oldest ON pins (app, user, created_at, id);
CREATE INDEX pins_by_thread ON pins (thread) WHERE thread IS NOT NULL;

-- [S1] Summaries as their events tell them. Their texts are kept beside the log, with the thread as their source.
CREATE TABLE summaries (
    id            BLOB    NOT NULL PRIMARY KEY CHECK (length(id) = 16),
    thread        BLOB    NOT NULL REFERENCES threads (id),
    level         INTEGER NOT NULL CHECK (level >= 0),
    -- The message before the first it covers.
    after_message BLOB,
    from_message  BLOB    NOT NULL,
    to_message    BLOB    NOT NULL,
    from_seq      INTEGER NOT NULL,
    to_seq        INTEGER NOT NULL CHECK (to_seq >= from_seq),
    messages      INTEGER NOT NULL CHECK (messages >= 1),
    hash          BLOB    NOT NULL CHECK (length(hash) = 16),
    -- The one of a higher level that took its place.
    merged_into   BLOB    REFERENCES summaries (id),
    created_at    INTEGER NOT NULL,
    UNIQUE (thread, level, to_message),
    FOREIGN KEY (thread, after_message) REFERENCES messages (thread, id),
    FOREIGN KEY (thread, from_message) REFERENCES messages (thread, id),
    FOREIGN KEY (thread, to_message) REFERENCES messages (thread, id)
) STRICT, WITHOUT ROWID;

CREATE INDEX summaries_newest ON summaries (thread, to_seq, level);
CREATE INDEX summaries_by_before ON summaries (thread, after_message);
CREATE INDEX summaries_by_first ON summaries (thread, from_message);
CREATE INDEX summaries_by_last ON summaries (thread, to_message);
CREATE INDEX summaries_merged ON summaries (merged_into) WHERE merged_into IS NOT NULL;

CREATE TRIGGER summaries_merged_once BEFORE UPDATE ON summaries
WHEN OLD.merged_into IS NOT NULL OR NEW.merged_into IS NULL OR NEW.id <> OLD.id OR NEW.thread <> OLD.thread
  OR NEW.hash <> OLD.hash OR NEW.to_seq <> OLD.to_seq OR NEW.from_seq <> OLD.from_seq
BEGIN SELECT RAISE(ABORT, 'S1: a summary is merged once, and does not change otherwise'); END;

-- What users uploaded. A document grows while it is 'adding', when nobody sees it, and no more once it is 'ready'.
-- `listed` says how many of its pieces recall has been told of, from the first on.
CREATE TABLE documents (
    id         BLOB    NOT NULL PRIMARY KEY CHECK (length(id) = 16),
    app        TEXT    NOT NULL,
    user       TEXT    NOT NULL,
    name       TEXT    NOT NULL,
    title      TEXT,
    kind       TEXT    NOT NULL,
    bytes      INTEGER NOT NULL,
    text_bytes INTEGER NOT NULL,
    pages      INTEGER,
    chunks     INTEGER NOT NULL CHECK (chunks >= 0),
    suspicious INTEGER NOT NULL,
    status     TEXT    NOT NULL CHECK (status IN ('adding', 'ready')),
    listed     INTEGER NOT NULL DEFAULT 0 CHECK (listed BETWEEN 0 AND chunks),
    created_at INTEGER NOT NULL,
    deleted_at INTEGER
) STRICT, WITHOUT ROWID;

CREATE INDEX documents_newest ON documents (app, user, created_at DESC, id DESC) WHERE deleted_at IS NULL;
CREATE INDEX documents_adding ON documents (created_at) WHERE status = 'adding' AND deleted_at IS NULL;
CREATE INDEX documents_unlisted ON documents (created_at)
    WHERE status = 'ready' AND listed < chunks AND deleted_at IS NULL;
CREATE INDEX documents_deleted ON documents (deleted_at) WHERE deleted_at IS NOT NULL;

CREATE TRIGGER documents_stay BEFORE UPDATE OF app, user ON documents
WHEN NEW.app <> OLD.app OR NEW.user <> OLD.user
BEGIN SELECT RAISE(ABORT, 'M1: a document stays in its scope'); END;

CREATE TABLE chunks (
    id         BLOB    NOT NULL PRIMARY KEY CHECK (length(id) = 16),
    document   BLOB    NOT NULL REFERENCES documents (id),
    number     INTEGER NOT NULL CHECK (number >= 0),
    text       TEXT    NOT NULL CHECK (length(CAST(text AS BLOB)) BETWEEN 1 AND 4096),
    place      TEXT    NOT NULL,
    suspicious INTEGER NOT NULL,
    UNIQUE (document, number)
) STRICT;

CREATE TRIGGER documents_whole BEFORE UPDATE OF status ON documents
WHEN OLD.status <> NEW.status
BEGIN
    SELECT RAISE(ABORT, 'a document becomes ready once, and not after its deletion')
        WHERE OLD.status <> 'adding' OR OLD.deleted_at IS NOT NULL;
    SELECT RAISE(ABORT, 'a document is ready with all of its pieces')
        WHERE NEW.chunks <> (SELECT count(*) FROM chunks c WHERE c.document = NEW.id);
END;

CREATE TRIGGER chunks_only_while_adding BEFORE INSERT ON chunks
WHEN NOT EXISTS (SELECT 1 FROM documents d WHERE d.id = NEW.document AND d.status = 'adding' AND d.deleted_at IS NULL)
BEGIN SELECT RAISE(ABORT, 'pieces are added before a document is ready'); END;

CREATE TRIGGER chunks_fixed BEFORE UPDATE ON chunks
BEGIN SELECT RAISE(ABORT, 'pieces do not change'); END;

CREATE TRIGGER chunks_kept BEFORE DELETE ON chunks
WHEN NOT EXISTS (SELECT 1 FROM documents d WHERE d.id = OLD.document AND d.deleted_at IS NOT NULL)
BEGIN SELECT RAISE(ABORT, 'pieces go with their document'); END;

-- What changed for recall, now of documents too. The numbers stay, and none is used twice, also of what is gone.
DROP INDEX items_newest;
ALTER TABLE items RENAME TO items_before;

CREATE TABLE items (
    rev  INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    app  TEXT    NOT NULL,
    user TEXT    NOT NULL,
    kind TEXT    NOT NULL CHECK (kind IN ('memory', 'message', 'thread', 'tombstone', 'chunk', 'document')),
    id   BLOB    NOT NULL CHECK (length(id) = 16),
    UNIQUE (kind, id)
) STRICT;

INSERT INTO items (rev, app, user, kind, id) SELECT rev, app, user, kind, id FROM items_before ORDER BY rev;
DELETE FROM sqlite_sequence WHERE name = 'items';
INSERT INTO sqlite_sequence (name, seq) SELECT 'items', seq FROM sqlite_sequence WHERE name = 'items_before';
DROP TABLE items_before;

CREATE INDEX items_newest ON items (app, user, rev);

-- What users say of themselves, the same in every app.
CREATE TABLE profiles (
    user       TEXT    NOT NULL PRIMARY KEY,
    name       TEXT,
    timezone   TEXT,
    locale     TEXT,
    fields     TEXT    NOT NULL CHECK (json_valid(fields) AND length(CAST(fields AS BLOB)) <= 16384),
    updated_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- What nobody outside knows.
CREATE TABLE secrets (
    name  TEXT NOT NULL PRIMARY KEY,
    value BLOB NOT NULL CHECK (length(value) = 32)
) STRICT, WITHOUT ROWID;

INSERT INTO secrets (name, value) VALUES ('server', randomblob(32));
