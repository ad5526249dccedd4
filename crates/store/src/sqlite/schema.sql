-- The schema that all migrations make together. A new database gets it at once; a test compares the two.

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
    deleted_at    INTEGER, extracted INTEGER NOT NULL DEFAULT 0, persona TEXT, pinned INTEGER NOT NULL DEFAULT 0 CHECK (pinned IN (0, 1)), archived INTEGER NOT NULL DEFAULT 0 CHECK (archived IN (0, 1)),
    UNIQUE (id, app, user)
) STRICT, WITHOUT ROWID;

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
    ended_at      INTEGER, cost INTEGER NOT NULL DEFAULT 0, pruned_at INTEGER, actor TEXT, imported INTEGER NOT NULL DEFAULT 0 CHECK (imported IN (0, 1)), owner INTEGER,
    FOREIGN KEY (thread, app, user) REFERENCES threads (id, app, user)
) STRICT, WITHOUT ROWID;

CREATE TABLE events (
    thread BLOB    NOT NULL,
    seq    INTEGER NOT NULL,
    run    BLOB,
    kind   TEXT    NOT NULL,
    at     INTEGER NOT NULL,
    body   TEXT    NOT NULL,
    PRIMARY KEY (thread, seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE messages (
    id         BLOB    NOT NULL PRIMARY KEY CHECK (length(id) = 16),
    thread     BLOB    NOT NULL REFERENCES threads (id),
    parent     BLOB,
    role       TEXT    NOT NULL CHECK (role IN ('user', 'assistant')),
    run        BLOB    NOT NULL REFERENCES runs (id),
    seq        INTEGER NOT NULL,
    created_at INTEGER NOT NULL, depth INTEGER CHECK (depth >= 1), leap BLOB,
    UNIQUE (thread, id),
    UNIQUE (thread, seq),
    FOREIGN KEY (thread, parent) REFERENCES messages (thread, id)
) STRICT, WITHOUT ROWID;

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

CREATE TABLE tool_results (
    call   BLOB    NOT NULL PRIMARY KEY,
    run    BLOB    NOT NULL,
    status TEXT    NOT NULL CHECK (status IN ('complete', 'failed', 'denied', 'cancelled', 'unknown')),
    seq    INTEGER NOT NULL,
    FOREIGN KEY (call, run) REFERENCES tool_calls (id, run)
) STRICT, WITHOUT ROWID;

CREATE TABLE queue (
    position   INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    thread     BLOB    NOT NULL REFERENCES threads (id),
    run        BLOB    NOT NULL UNIQUE REFERENCES runs (id),
    urgent     INTEGER NOT NULL,
    submission TEXT    NOT NULL
) STRICT;

CREATE TABLE idempotency (
    app         TEXT    NOT NULL,
    user        TEXT    NOT NULL,
    key         TEXT    NOT NULL,
    fingerprint BLOB    NOT NULL,
    target      BLOB    NOT NULL,
    created_at  INTEGER NOT NULL,
    PRIMARY KEY (app, user, key)
) STRICT, WITHOUT ROWID;

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
    updated_at INTEGER NOT NULL, owner INTEGER,
    UNIQUE (kind, key)
) STRICT, WITHOUT ROWID;

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

CREATE TABLE ledger_heads (
    app      TEXT    NOT NULL,
    user     TEXT    NOT NULL,
    position INTEGER NOT NULL,
    hash     BLOB    NOT NULL,
    PRIMARY KEY (app, user)
) STRICT, WITHOUT ROWID;

CREATE TABLE ledger_payloads (
    app      TEXT    NOT NULL,
    user     TEXT    NOT NULL,
    position INTEGER NOT NULL,
    salt     BLOB    NOT NULL CHECK (length(salt) = 16),
    payload  TEXT    NOT NULL,
    PRIMARY KEY (app, user, position)
) STRICT, WITHOUT ROWID;

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
, action BLOB) STRICT;

CREATE VIRTUAL TABLE records_text USING fts5 (
    owner, text, content = '', contentless_delete = 1, tokenize = 'unicode61 remove_diacritics 2');

CREATE TABLE files (
    app        TEXT    NOT NULL,
    user       TEXT    NOT NULL,
    path       TEXT    NOT NULL,
    version    INTEGER NOT NULL CHECK (version >= 1),
    state      INTEGER NOT NULL CHECK (state BETWEEN 0 AND version),
    content    TEXT,
    updated_at INTEGER NOT NULL, action BLOB,
    PRIMARY KEY (app, user, path)
) STRICT, WITHOUT ROWID;

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
, same BLOB CHECK (same IS NULL OR length(same) = 16)) STRICT, WITHOUT ROWID;

CREATE TABLE memory_counts (
    app    TEXT    NOT NULL,
    user   TEXT    NOT NULL,
    active INTEGER NOT NULL CHECK (active >= 0),
    PRIMARY KEY (app, user)
) STRICT, WITHOUT ROWID;

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

CREATE TABLE memory_sources (
    number  INTEGER NOT NULL PRIMARY KEY,
    memory  BLOB    NOT NULL REFERENCES memories (id),
    thread  BLOB,
    message BLOB,
    words   TEXT,
    at      INTEGER NOT NULL
) STRICT;

CREATE TABLE tombstones (
    number INTEGER NOT NULL PRIMARY KEY,
    app    TEXT    NOT NULL,
    user   TEXT    NOT NULL,
    memory BLOB    NOT NULL REFERENCES memories (id),
    words  TEXT    NOT NULL,
    at     INTEGER NOT NULL
) STRICT;

CREATE TABLE memory_off (
    app  TEXT NOT NULL,
    user TEXT NOT NULL,
    PRIMARY KEY (app, user)
) STRICT, WITHOUT ROWID;

CREATE TABLE vectors (
    app    TEXT NOT NULL,
    user   TEXT NOT NULL,
    item   BLOB NOT NULL CHECK (length(item) = 16),
    model  TEXT NOT NULL,
    hash   BLOB NOT NULL CHECK (length(hash) = 16),
    vector BLOB NOT NULL CHECK (length(vector) BETWEEN 1 AND 65536),
    PRIMARY KEY (item, model)
) STRICT;

CREATE TABLE snapshots (
    thread BLOB    NOT NULL PRIMARY KEY REFERENCES threads (id),
    at     INTEGER NOT NULL
) STRICT;

CREATE TABLE texts (
    app    TEXT NOT NULL,
    user   TEXT NOT NULL,
    source TEXT NOT NULL,
    hash   BLOB NOT NULL CHECK (length(hash) = 16),
    body   TEXT NOT NULL CHECK (length(CAST(body AS BLOB)) <= 262144),
    PRIMARY KEY (app, user, source, hash)
) STRICT, WITHOUT ROWID;

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

CREATE TABLE pins (
    id         BLOB    NOT NULL PRIMARY KEY CHECK (length(id) = 16),
    app        TEXT    NOT NULL,
    user       TEXT    NOT NULL,
    thread     BLOB,
    text       TEXT    NOT NULL CHECK (length(CAST(text AS BLOB)) BETWEEN 1 AND 4096),
    created_at INTEGER NOT NULL,
    FOREIGN KEY (thread, app, user) REFERENCES threads (id, app, user)
) STRICT, WITHOUT ROWID;

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
, hash BLOB CHECK (hash IS NULL OR length(hash) = 32)) STRICT, WITHOUT ROWID;

CREATE TABLE chunks (
    id         BLOB    NOT NULL PRIMARY KEY CHECK (length(id) = 16),
    document   BLOB    NOT NULL REFERENCES documents (id),
    number     INTEGER NOT NULL CHECK (number >= 0),
    text       TEXT    NOT NULL CHECK (length(CAST(text AS BLOB)) BETWEEN 1 AND 4096),
    place      TEXT    NOT NULL,
    suspicious INTEGER NOT NULL,
    UNIQUE (document, number)
) STRICT;

CREATE TABLE items (
    rev  INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    app  TEXT    NOT NULL,
    user TEXT    NOT NULL,
    kind TEXT    NOT NULL CHECK (kind IN ('memory', 'message', 'thread', 'tombstone', 'chunk', 'document')),
    id   BLOB    NOT NULL CHECK (length(id) = 16),
    UNIQUE (kind, id)
) STRICT;

CREATE TABLE secrets (
    name  TEXT NOT NULL PRIMARY KEY,
    value BLOB NOT NULL CHECK (length(value) = 32)
) STRICT, WITHOUT ROWID;

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

CREATE TABLE credentials (
    app        TEXT    NOT NULL,
    user       TEXT    NOT NULL,
    name       TEXT    NOT NULL,
    sealed     BLOB    NOT NULL,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (app, user, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE "actions" (
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
, actor TEXT, owner INTEGER) STRICT, WITHOUT ROWID;

CREATE TABLE pace (
    app    TEXT    NOT NULL,
    user   TEXT    NOT NULL,
    -- Its first millisecond.
    minute INTEGER NOT NULL,
    runs   INTEGER NOT NULL,
    tokens INTEGER NOT NULL,
    PRIMARY KEY (app, user, minute)
) STRICT, WITHOUT ROWID;

CREATE TABLE skipped (
    thread BLOB    NOT NULL REFERENCES threads (id),
    first  INTEGER NOT NULL,
    last   INTEGER NOT NULL CHECK (last >= first),
    reason TEXT    NOT NULL CHECK (reason IN ('power loss', 'restored')),
    at     INTEGER NOT NULL,
    PRIMARY KEY (thread, first)
) STRICT, WITHOUT ROWID;

CREATE TABLE state (
    name  TEXT NOT NULL PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE "profiles" (
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

CREATE TABLE job_lines (
    user   TEXT    NOT NULL,
    kind   TEXT    NOT NULL,
    app    TEXT    NOT NULL,
    thread BLOB    NOT NULL,
    due_at INTEGER NOT NULL,
    PRIMARY KEY (user, kind, app, thread)
) STRICT, WITHOUT ROWID;

CREATE TABLE job_users (
    user      TEXT    NOT NULL PRIMARY KEY,
    due_at    INTEGER,
    working   INTEGER NOT NULL,
    served_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE reservations (
    holder BLOB    PRIMARY KEY CHECK (length(holder) = 16),
    app    TEXT    NOT NULL,
    user   TEXT    NOT NULL,
    tokens INTEGER NOT NULL CHECK (tokens >= 0),
    -- Billionths of a US dollar.
    cost   INTEGER NOT NULL CHECK (cost >= 0)
) STRICT, WITHOUT ROWID;

CREATE TABLE text_uses (
    thread BLOB NOT NULL REFERENCES threads (id),
    app    TEXT NOT NULL,
    source TEXT NOT NULL,
    hash   BLOB NOT NULL CHECK (length(hash) = 16),
    PRIMARY KEY (thread, source, hash)
) STRICT, WITHOUT ROWID;

CREATE TABLE snapshot_lines (
    thread BLOB    NOT NULL REFERENCES threads (id),
    number INTEGER NOT NULL,
    source TEXT    NOT NULL,
    at     INTEGER NOT NULL,
    text   TEXT    NOT NULL CHECK (length(CAST(text AS BLOB)) <= 8192),
    PRIMARY KEY (thread, number)
) STRICT, WITHOUT ROWID;

CREATE TABLE shadows (
    number INTEGER NOT NULL PRIMARY KEY,
    app    TEXT    NOT NULL,
    user   TEXT    NOT NULL,
    shadow BLOB    NOT NULL CHECK (length(shadow) BETWEEN 6 AND 16384),
    at     INTEGER NOT NULL
) STRICT;

CREATE TABLE action_things (
    app    TEXT NOT NULL,
    user   TEXT NOT NULL,
    thing  TEXT NOT NULL,
    action BLOB NOT NULL,
    PRIMARY KEY (app, user, thing, action)
) STRICT, WITHOUT ROWID;

CREATE TABLE erasures (
    app      TEXT    NOT NULL,
    user     TEXT    NOT NULL,
    thing    TEXT    NOT NULL,
    by_hand  INTEGER NOT NULL CHECK (by_hand IN (0, 1)),
    position INTEGER NOT NULL,
    at       INTEGER NOT NULL,
    PRIMARY KEY (app, user, thing, by_hand)
) STRICT, WITHOUT ROWID;

CREATE TABLE erasure_counts (
    app    TEXT    NOT NULL,
    user   TEXT    NOT NULL,
    number INTEGER NOT NULL,
    PRIMARY KEY (app, user)
) STRICT, WITHOUT ROWID;

CREATE TABLE missing_apps (
    app   TEXT    NOT NULL PRIMARY KEY,
    since INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE app_revisions (
    app       TEXT    NOT NULL,
    revision  TEXT    NOT NULL,
    -- When a server began to serve it for the last time. The oldest ones go first.
    served_at INTEGER NOT NULL,
    -- The files of the folder, as JSON.
    files     BLOB    NOT NULL,
    PRIMARY KEY (app, revision)
) STRICT, WITHOUT ROWID;

CREATE TABLE delta_log_0 (number INTEGER PRIMARY KEY, body BLOB NOT NULL, news BLOB) STRICT;

CREATE TABLE delta_log_1 (number INTEGER PRIMARY KEY, body BLOB NOT NULL, news BLOB) STRICT;

CREATE TABLE packed_deltas (
    thread BLOB    NOT NULL,
    first  INTEGER NOT NULL,
    last   INTEGER NOT NULL CHECK (last >= first),
    run    BLOB    NOT NULL,
    at     INTEGER NOT NULL,
    body   BLOB    NOT NULL,
    PRIMARY KEY (thread, first)
) STRICT, WITHOUT ROWID;

CREATE TABLE "keys" (
    id          BLOB    NOT NULL PRIMARY KEY CHECK (length(id) = 16),
    hash        BLOB    NOT NULL UNIQUE CHECK (length(hash) = 32),
    user        TEXT    NOT NULL,
    app         TEXT,
    -- Names with commas between them, in the order of the alphabet.
    rights      TEXT    NOT NULL,
    -- The users for whom the key may speak.
    acts_for    TEXT    CHECK (acts_for IN ('any')),
    created_at  INTEGER NOT NULL,
    expires_at  INTEGER,
    used_at     INTEGER,
    revoked_at  INTEGER,
    made_by     TEXT,
    revoked_by  TEXT,
    -- The key that a rotation made in place of this one.
    replaced_by BLOB
) STRICT, WITHOUT ROWID;

CREATE TABLE sessions (
    id         BLOB    NOT NULL PRIMARY KEY CHECK (length(id) = 16),
    hash       BLOB    NOT NULL UNIQUE CHECK (length(hash) = 32),
    user       TEXT    NOT NULL,
    -- A JSON list; null for all apps.
    apps       TEXT    CHECK (json_valid(apps)),
    rights     TEXT    NOT NULL,
    -- Who speaks for the user, if it is not the user.
    actor      TEXT,
    key        BLOB,
    issuer     TEXT,
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    ended_at   INTEGER
) STRICT, WITHOUT ROWID;

CREATE TABLE admin_audit (
    number INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    at     INTEGER NOT NULL,
    by     TEXT    NOT NULL,
    kind   TEXT    NOT NULL,
    -- Null where it concerns all apps.
    app    TEXT,
    target TEXT    NOT NULL,
    detail TEXT    NOT NULL CHECK (json_valid(detail)),
    hash   BLOB    NOT NULL CHECK (length(hash) = 32)
) STRICT;

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

CREATE TABLE notices_swept (
    user    TEXT    NOT NULL PRIMARY KEY,
    through INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE thing_versions (
    app      TEXT    NOT NULL,
    user     TEXT    NOT NULL,
    thing    TEXT    NOT NULL,
    version  INTEGER NOT NULL CHECK (version >= 1),
    -- Null if it was deleted.
    contents TEXT,
    at       INTEGER NOT NULL,
    action   BLOB,
    PRIMARY KEY (app, user, thing, version)
) STRICT, WITHOUT ROWID;

CREATE TABLE images (
    id           BLOB    NOT NULL PRIMARY KEY CHECK (length(id) = 16),
    app          TEXT    NOT NULL,
    user         TEXT    NOT NULL,
    -- SHA-256 of the upload.
    hash         BLOB    NOT NULL CHECK (length(hash) = 32),
    media_type   TEXT    NOT NULL,
    width        INTEGER NOT NULL CHECK (width > 0),
    height       INTEGER NOT NULL CHECK (height > 0),
    -- Of the content as it is kept.
    bytes        INTEGER NOT NULL,
    name         TEXT,
    created_at   INTEGER NOT NULL,
    -- Since when no message shows it. Null while one does.
    unused_since INTEGER
) STRICT, WITHOUT ROWID;

CREATE TABLE image_contents (
    image   BLOB NOT NULL PRIMARY KEY REFERENCES images (id),
    content BLOB NOT NULL
) STRICT;

CREATE TABLE image_uses (
    image   BLOB NOT NULL REFERENCES images (id),
    message BLOB NOT NULL,
    thread  BLOB NOT NULL REFERENCES threads (id),
    PRIMARY KEY (image, message)
) STRICT, WITHOUT ROWID;

CREATE VIEW job_moves (user, kind, app, thread, taken_at) AS SELECT '', '', '', NULL, 0;

CREATE INDEX threads_listed ON threads (app, user, archived, updated_at DESC, id DESC, pinned) WHERE deleted_at IS NULL;

CREATE INDEX threads_deleted ON threads (deleted_at) WHERE deleted_at IS NOT NULL;

CREATE UNIQUE INDEX runs_one_active ON runs (thread) WHERE status IN ('running', 'waiting');

CREATE INDEX runs_by_thread ON runs (thread);

CREATE INDEX runs_unfinished ON runs (created_at) WHERE ended_at IS NULL;

CREATE INDEX events_facts ON events (run, kind, seq)
    WHERE kind <> 'text:delta' AND kind <> 'reasoning:delta' AND kind <> 'tool:input';

CREATE UNIQUE INDEX events_one_end ON events (run) WHERE kind = 'run:end';

CREATE INDEX messages_children ON messages (thread, parent);

CREATE INDEX messages_by_run ON messages (run);

CREATE INDEX queue_next ON queue (thread, urgent DESC, position);

CREATE INDEX idempotency_by_user ON idempotency (user, key);

CREATE INDEX idempotency_oldest ON idempotency (created_at);

CREATE INDEX jobs_newest ON jobs (created_at DESC, id DESC);

CREATE INDEX usage_by_day ON usage (user, day);

CREATE INDEX ledger_by_action ON ledger (action);

CREATE INDEX records_newest ON records (app, user, type, updated_at DESC, id DESC) WHERE data IS NOT NULL;

CREATE INDEX proposals_newest ON proposals (app, user, created_at DESC, id DESC);

CREATE INDEX proposals_by_run ON proposals (run) WHERE run IS NOT NULL;

CREATE INDEX proposals_by_thread ON proposals (thread) WHERE thread IS NOT NULL;

CREATE UNIQUE INDEX proposals_of_call ON proposals (call) WHERE call IS NOT NULL AND status = 'open';

CREATE INDEX proposals_open ON proposals (expires_at) WHERE status = 'open';

CREATE INDEX memories_newest ON memories (app, user, status, created_at DESC, id DESC);

CREATE INDEX memories_all ON memories (app, user, created_at DESC, id DESC);

CREATE INDEX memories_least ON memories (app, user, access_count * 864000000 + created_at, created_at, id)
    WHERE status = 'active';

CREATE INDEX memory_sources_of ON memory_sources (memory);

CREATE INDEX memory_sources_by_thread ON memory_sources (thread) WHERE thread IS NOT NULL;

CREATE INDEX tombstones_of ON tombstones (app, user);

CREATE INDEX tombstones_by_memory ON tombstones (memory);

CREATE INDEX threads_by_persona ON threads (app, user, persona) WHERE persona IS NOT NULL;

CREATE INDEX pins_oldest ON pins (app, user, created_at, id);

CREATE INDEX pins_by_thread ON pins (thread) WHERE thread IS NOT NULL;

CREATE INDEX summaries_newest ON summaries (thread, to_seq, level);

CREATE INDEX summaries_by_before ON summaries (thread, after_message);

CREATE INDEX summaries_by_first ON summaries (thread, from_message);

CREATE INDEX summaries_by_last ON summaries (thread, to_message);

CREATE INDEX summaries_merged ON summaries (merged_into) WHERE merged_into IS NOT NULL;

CREATE INDEX documents_newest ON documents (app, user, created_at DESC, id DESC) WHERE deleted_at IS NULL;

CREATE INDEX documents_adding ON documents (created_at) WHERE status = 'adding' AND deleted_at IS NULL;

CREATE INDEX documents_unlisted ON documents (created_at)
    WHERE status = 'ready' AND listed < chunks AND deleted_at IS NULL;

CREATE INDEX documents_deleted ON documents (deleted_at) WHERE deleted_at IS NOT NULL;

CREATE UNIQUE INDEX documents_of_apps ON documents (app, name)
    WHERE user = '' AND status = 'ready' AND deleted_at IS NULL;

CREATE INDEX items_newest ON items (app, user, rev);

CREATE UNIQUE INDEX actions_newest ON actions (app, user, position DESC);

CREATE INDEX actions_by_run ON actions (run, position DESC) WHERE run IS NOT NULL;

CREATE INDEX actions_by_thread ON actions (thread, position DESC) WHERE thread IS NOT NULL;

CREATE INDEX actions_begun ON actions (started_at) WHERE status = 'started' AND run IS NULL;

CREATE UNIQUE INDEX actions_undo ON actions (undo_of)
    WHERE undo_of IS NOT NULL AND status IN ('started', 'complete', 'unknown');

CREATE INDEX pace_oldest ON pace (minute);

CREATE INDEX runs_working ON runs (app, user) WHERE status = 'running';

CREATE INDEX runs_to_prune ON runs (ended_at) WHERE ended_at IS NOT NULL AND pruned_at IS NULL;

CREATE INDEX jobs_done ON jobs (updated_at) WHERE status = 'done';

CREATE INDEX jobs_dead ON jobs (updated_at) WHERE status = 'dead';

CREATE INDEX jobs_of_app ON jobs (app, created_at DESC, id DESC);

CREATE INDEX job_lines_due ON job_lines (user, due_at);

CREATE INDEX job_users_due ON job_users (due_at) WHERE working < 8 AND due_at IS NOT NULL;

CREATE INDEX jobs_in_line ON jobs (user, kind, app, thread, run_at) WHERE status = 'ready';

CREATE INDEX jobs_working ON jobs (user, kind, app, thread) WHERE status = 'running';

CREATE INDEX reservations_by_user ON reservations (app, user);

CREATE INDEX text_uses_of ON text_uses (app, source, hash);

CREATE INDEX texts_of_profiles ON texts (user) WHERE source GLOB 'profile_*';

CREATE INDEX snapshot_lines_of ON snapshot_lines (source);

CREATE INDEX shadows_of ON shadows (app, user);

CREATE INDEX memories_superseded ON memories (superseded_by) WHERE superseded_by IS NOT NULL;

CREATE INDEX action_things_of ON action_things (action);

CREATE INDEX erasures_due ON erasures (by_hand, at);

CREATE INDEX proposals_by_action ON proposals (action) WHERE action IS NOT NULL;

CREATE INDEX actions_taking_back ON actions (undo_of) WHERE undo_of IS NOT NULL;

CREATE INDEX jobs_by_thread ON jobs (thread, status) WHERE thread IS NOT NULL;

CREATE INDEX tool_results_by_run ON tool_results (run);

CREATE INDEX runs_unfinished_by_thread ON runs (thread) WHERE ended_at IS NULL;

CREATE INDEX actions_begun_by_thread ON actions (thread) WHERE thread IS NOT NULL AND status = 'started';

CREATE INDEX actions_to_erase ON actions (thread, position) WHERE thread IS NOT NULL AND input IS NOT NULL;

CREATE INDEX messages_unplaced ON messages (thread, seq) WHERE depth IS NULL;

CREATE INDEX memories_same ON memories (app, user, same) WHERE status = 'active';

CREATE INDEX keys_oldest ON keys (created_at, id);

CREATE INDEX keys_of_app ON keys (app, created_at, id) WHERE app IS NOT NULL;

CREATE INDEX keys_good ON keys (expires_at) WHERE revoked_at IS NULL;

CREATE INDEX sessions_newest ON sessions (created_at DESC, id DESC) WHERE ended_at IS NULL;

CREATE INDEX sessions_of_user ON sessions (user, created_at, id) WHERE ended_at IS NULL;

CREATE INDEX sessions_expiring ON sessions (expires_at);

CREATE INDEX sessions_ended ON sessions (ended_at) WHERE ended_at IS NOT NULL;

CREATE INDEX admin_audit_of_app ON admin_audit (app, number DESC) WHERE app IS NOT NULL;

CREATE INDEX client_calls_newest ON client_calls (app, user, created_at DESC, id DESC);

CREATE INDEX client_calls_by_run ON client_calls (run) WHERE status = 'open';

CREATE INDEX client_calls_by_thread ON client_calls (thread);

CREATE INDEX client_calls_open ON client_calls (expires_at) WHERE status = 'open';

CREATE INDEX notices_oldest ON notices (at);

CREATE INDEX runs_newest ON runs (created_at DESC, id DESC);

CREATE INDEX usage_of_all ON usage (day, app, user, model);

CREATE UNIQUE INDEX images_by_content ON images (app, user, hash);

CREATE INDEX images_newest ON images (app, user, created_at DESC, id DESC);

CREATE INDEX images_unused ON images (unused_since) WHERE unused_since IS NOT NULL;

CREATE INDEX image_uses_of_thread ON image_uses (thread);

CREATE INDEX image_uses_of_message ON image_uses (message);

CREATE TRIGGER threads_seq_grows BEFORE UPDATE OF next_seq ON threads
WHEN NEW.next_seq < OLD.next_seq
BEGIN SELECT RAISE(ABORT, 'S1: a sequence never goes back'); END;

CREATE TRIGGER runs_epoch_grows BEFORE UPDATE OF epoch ON runs
WHEN NEW.epoch < OLD.epoch
BEGIN SELECT RAISE(ABORT, 'R3: an epoch never goes back'); END;

CREATE TRIGGER runs_begin BEFORE INSERT ON runs
WHEN NEW.status NOT IN ('queued', 'running') OR NEW.ended_at IS NOT NULL
BEGIN SELECT RAISE(ABORT, 'R1: a run begins queued or running'); END;

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

CREATE TRIGGER events_fixed BEFORE UPDATE ON events
BEGIN SELECT RAISE(ABORT, 'S1: events do not change'); END;

CREATE TRIGGER tool_calls_fixed BEFORE UPDATE ON tool_calls
BEGIN SELECT RAISE(ABORT, 'T5: calls do not change'); END;

CREATE TRIGGER tool_results_fixed BEFORE UPDATE ON tool_results
BEGIN SELECT RAISE(ABORT, 'T6: the first result stays'); END;

CREATE TRIGGER ledger_fixed BEFORE UPDATE ON ledger
BEGIN SELECT RAISE(ABORT, 'E3: entries do not change'); END;

CREATE TRIGGER ledger_stays BEFORE DELETE ON ledger
BEGIN SELECT RAISE(ABORT, 'E3: entries stay'); END;

CREATE TRIGGER records_version_grows BEFORE UPDATE ON records
WHEN NEW.version <= OLD.version OR NEW.id <> OLD.id
  OR NEW.app <> OLD.app OR NEW.user <> OLD.user OR NEW.type <> OLD.type
BEGIN SELECT RAISE(ABORT, 'E4: a version only grows, and a record stays in its scope'); END;

CREATE TRIGGER records_stay BEFORE DELETE ON records
BEGIN SELECT RAISE(ABORT, 'E4: a deleted record keeps its version'); END;

CREATE TRIGGER files_version_grows BEFORE UPDATE ON files
WHEN NEW.version <= OLD.version OR NEW.app <> OLD.app OR NEW.user <> OLD.user OR NEW.path <> OLD.path
BEGIN SELECT RAISE(ABORT, 'E4: a version only grows, and a file stays in its place'); END;

CREATE TRIGGER files_stay BEFORE DELETE ON files
BEGIN SELECT RAISE(ABORT, 'E4: a deleted file keeps its version'); END;

CREATE TRIGGER proposals_decided_once BEFORE UPDATE OF status ON proposals
WHEN OLD.status <> 'open' AND NEW.status <> OLD.status
BEGIN SELECT RAISE(ABORT, 'a proposal is decided once'); END;

CREATE TRIGGER memories_stay BEFORE UPDATE OF app, user ON memories
WHEN NEW.app <> OLD.app OR NEW.user <> OLD.user
BEGIN SELECT RAISE(ABORT, 'M1: a memory stays in its scope'); END;

CREATE TRIGGER memories_version_grows BEFORE UPDATE OF text, kind, status, version, valid_from, valid_until, superseded_by
ON memories WHEN NEW.version <> OLD.version + 1
BEGIN SELECT RAISE(ABORT, 'M5: each change of a memory is a version of its own'); END;

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

CREATE TRIGGER memory_versions_fixed BEFORE UPDATE ON memory_versions
BEGIN SELECT RAISE(ABORT, 'M5: versions do not change'); END;

CREATE TRIGGER memory_sources_fixed BEFORE UPDATE ON memory_sources
WHEN NEW.memory <> OLD.memory OR NEW.at <> OLD.at
  OR NEW.thread IS NOT NULL OR NEW.message IS NOT NULL OR NEW.words IS NOT NULL
BEGIN SELECT RAISE(ABORT, 'M5: a source changes only when its conversation is deleted'); END;

CREATE TRIGGER summaries_merged_once BEFORE UPDATE ON summaries
WHEN OLD.merged_into IS NOT NULL OR NEW.merged_into IS NULL OR NEW.id <> OLD.id OR NEW.thread <> OLD.thread
  OR NEW.hash <> OLD.hash OR NEW.to_seq <> OLD.to_seq OR NEW.from_seq <> OLD.from_seq
BEGIN SELECT RAISE(ABORT, 'S1: a summary is merged once, and does not change otherwise'); END;

CREATE TRIGGER documents_stay BEFORE UPDATE OF app, user ON documents
WHEN NEW.app <> OLD.app OR NEW.user <> OLD.user
BEGIN SELECT RAISE(ABORT, 'M1: a document stays in its scope'); END;

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

CREATE TRIGGER actions_undone_once BEFORE UPDATE OF undone_by ON actions
WHEN OLD.undone_by IS NOT NULL AND NEW.undone_by IS NOT OLD.undone_by
BEGIN SELECT RAISE(ABORT, 'E4: an action is undone once'); END;

CREATE TRIGGER actions_settle BEFORE UPDATE OF status ON actions
WHEN OLD.status <> 'started' AND NEW.status <> OLD.status
BEGIN SELECT RAISE(ABORT, 'E1: the outcome of an action does not change'); END;

CREATE TRIGGER runs_absorb BEFORE UPDATE OF id, thread, app, user, message, status, model, error, input_tokens,
    output_tokens, cached_tokens, reasoning_tokens, cost, estimated, start_seq, end_seq, stop, epoch, created_at,
    ended_at ON runs
WHEN OLD.status IN ('completed', 'failed', 'cancelled', 'interrupted')
BEGIN SELECT RAISE(ABORT, 'R1: an ended run does not change'); END;

CREATE TRIGGER runs_pruned BEFORE UPDATE OF pruned_at ON runs
WHEN OLD.pruned_at IS NOT NULL OR OLD.ended_at IS NULL
BEGIN SELECT RAISE(ABORT, 'S5: a run is pruned once, after its end'); END;

CREATE TRIGGER events_kept BEFORE DELETE ON events
WHEN NOT ((OLD.kind = 'text:delta' OR OLD.kind = 'reasoning:delta' OR OLD.kind = 'tool:input')
          AND EXISTS (SELECT 1 FROM runs r WHERE r.id = OLD.run AND r.ended_at IS NOT NULL))
 AND NOT EXISTS (SELECT 1 FROM threads t WHERE t.id = OLD.thread AND t.deleted_at IS NOT NULL)
BEGIN SELECT RAISE(ABORT, 'S1: events stay'); END;

CREATE TRIGGER runs_stop_stays BEFORE UPDATE OF stop ON runs
WHEN OLD.stop IS NOT NULL AND NEW.stop IS NOT OLD.stop
 AND NOT (OLD.stop = 'interrupted' AND NEW.stop IS 'cancelled')
BEGIN SELECT RAISE(ABORT, 'C2: a run that was told to stop stays so'); END;

CREATE TRIGGER runs_end_as_told BEFORE UPDATE OF status ON runs
WHEN OLD.stop IS NOT NULL AND NEW.status IN ('completed', 'failed', 'cancelled', 'interrupted')
 AND NEW.status <> OLD.stop
BEGIN SELECT RAISE(ABORT, 'C3: a run that was told to stop ends so'); END;

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

CREATE TRIGGER jobs_give_back AFTER DELETE ON jobs
BEGIN DELETE FROM reservations WHERE holder = OLD.id; END;

CREATE TRIGGER messages_fixed BEFORE UPDATE OF id, thread, parent, role, run, seq, created_at ON messages
BEGIN SELECT RAISE(ABORT, 'messages are inserted, never changed'); END;

CREATE TRIGGER messages_placed_once BEFORE UPDATE OF depth, leap ON messages
WHEN OLD.depth IS NOT NULL
BEGIN SELECT RAISE(ABORT, 'a message keeps its place'); END;

CREATE TRIGGER packed_deltas_append BEFORE INSERT ON packed_deltas
BEGIN
    SELECT RAISE(ABORT, 'S1: the sequence has a gap')
        WHERE NEW.first IS NOT (SELECT t.next_seq FROM threads t WHERE t.id = NEW.thread)
          AND NOT EXISTS (SELECT 1 FROM events e WHERE e.thread = NEW.thread AND e.seq = NEW.first - 1)
          AND NEW.first - 1 IS NOT (SELECT d.last FROM packed_deltas d
                                    WHERE d.thread = NEW.thread AND d.first < NEW.first ORDER BY d.first DESC LIMIT 1);
    SELECT RAISE(ABORT, 'S2: a number is used twice')
        WHERE EXISTS (SELECT 1 FROM events e WHERE e.thread = NEW.thread AND e.seq >= NEW.first)
           OR EXISTS (SELECT 1 FROM packed_deltas d WHERE d.thread = NEW.thread AND d.first >= NEW.first);
    SELECT RAISE(ABORT, 'R4: the run has ended or is not of this thread')
        WHERE NOT EXISTS (SELECT 1 FROM runs r WHERE r.id = NEW.run AND r.thread = NEW.thread AND r.ended_at IS NULL);
END;

CREATE TRIGGER packed_deltas_fixed BEFORE UPDATE ON packed_deltas
BEGIN SELECT RAISE(ABORT, 'S1: events do not change'); END;

CREATE TRIGGER packed_deltas_kept BEFORE DELETE ON packed_deltas
WHEN NOT EXISTS (SELECT 1 FROM runs r WHERE r.id = OLD.run AND r.ended_at IS NOT NULL AND r.pruned_at IS NULL)
 AND NOT EXISTS (SELECT 1 FROM threads t WHERE t.id = OLD.thread AND t.deleted_at IS NOT NULL)
BEGIN SELECT RAISE(ABORT, 'S1: events stay'); END;

CREATE TRIGGER events_append BEFORE INSERT ON events
BEGIN
    SELECT RAISE(ABORT, 'S1: the sequence has a gap')
        WHERE NOT EXISTS (SELECT 1 FROM events e WHERE e.thread = NEW.thread AND e.seq = NEW.seq - 1)
          AND NEW.seq IS NOT (SELECT t.next_seq FROM threads t WHERE t.id = NEW.thread)
          AND NEW.seq - 1 IS NOT (SELECT d.last FROM packed_deltas d
                                  WHERE d.thread = NEW.thread AND d.first < NEW.seq ORDER BY d.first DESC LIMIT 1);
    SELECT RAISE(ABORT, 'S2: a number is used twice')
        WHERE NEW.seq <= (SELECT d.last FROM packed_deltas d
                          WHERE d.thread = NEW.thread ORDER BY d.first DESC LIMIT 1);
    SELECT RAISE(ABORT, 'R4: the run has ended or is not of this thread')
        WHERE NEW.run IS NOT NULL
          AND NOT EXISTS (SELECT 1 FROM runs r WHERE r.id = NEW.run AND r.thread = NEW.thread
                          AND r.ended_at IS NULL);
END;

CREATE TRIGGER admin_audit_append BEFORE INSERT ON admin_audit
WHEN NEW.number <> 1 + coalesce((SELECT max(number) FROM admin_audit), 0)
BEGIN SELECT RAISE(ABORT, 'E5: the numbers of the audit have no gap'); END;

CREATE TRIGGER admin_audit_fixed BEFORE UPDATE ON admin_audit
BEGIN SELECT RAISE(ABORT, 'E5: entries of the audit do not change'); END;

CREATE TRIGGER admin_audit_stays BEFORE DELETE ON admin_audit
BEGIN SELECT RAISE(ABORT, 'E5: entries of the audit stay'); END;

CREATE TRIGGER client_calls_answered_once BEFORE UPDATE OF status ON client_calls
WHEN OLD.status <> 'open'
BEGIN SELECT RAISE(ABORT, 'T6: a call of the client is answered once'); END;

CREATE TRIGGER jobs_absorb BEFORE UPDATE OF status ON jobs
WHEN OLD.status IN ('done', 'dead') AND NEW.status <> OLD.status
 AND NOT (OLD.status = 'dead' AND NEW.status = 'ready' AND NEW.attempts = 0)
BEGIN SELECT RAISE(ABORT, 'J2: a job is done once'); END;

CREATE TRIGGER thing_versions_fixed BEFORE UPDATE ON thing_versions
BEGIN SELECT RAISE(ABORT, 'E4: versions do not change'); END;

-- The message that each job of the kind webhook delivers.
CREATE TABLE webhook_messages (
    job     BLOB NOT NULL PRIMARY KEY,
    -- The name of the webhook in its app.
    webhook TEXT NOT NULL,
    body    TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TRIGGER webhook_messages_end AFTER DELETE ON jobs WHEN OLD.kind = 'webhook' BEGIN
    DELETE FROM webhook_messages WHERE job = OLD.id;
END;

CREATE TABLE nodes (
    number      INTEGER PRIMARY KEY,
    -- When the others may take over what it has, in milliseconds of the database's clock.
    lease_until INTEGER NOT NULL,
    joined_at   INTEGER NOT NULL,
    -- The version of the program.
    version     TEXT    NOT NULL,
    -- Names the key of its vault.
    vault       TEXT    NOT NULL,
    -- What users hold open there, as JSON.
    held        TEXT    NOT NULL DEFAULT '{}'
) STRICT;

-- Changes are numbered from 1.
INSERT INTO sqlite_sequence (name, seq) VALUES ('items', 0);

-- A secret of this installation.
INSERT INTO secrets (name, value) VALUES ('server', randomblob(32));
