-- The schema of a database on PostgreSQL, of version 16 or later. Tables, columns, indexes and rules are those of the
-- schema of SQLite, as both get the same statements. So integers are bigint, also those that say yes or no, and texts
-- are compared byte by byte. The search_path of the session names the schema that all of it is in.

-- The number of the newest migration of SQLite whose schema this is.
CREATE TABLE schema_version (
    version bigint NOT NULL
);

INSERT INTO schema_version (version) VALUES (24);

-- The last transaction that each writer has committed, to find out after a lost connection whether a commit happened.
CREATE TABLE commits (
    writer bigint PRIMARY KEY,
    number bigint NOT NULL
);

-- The servers that share the database.
CREATE TABLE nodes (
    number      bigint PRIMARY KEY,
    -- When the others may take over what it has, in milliseconds of this database's clock.
    lease_until bigint           NOT NULL,
    joined_at   bigint           NOT NULL,
    -- The version of the program.
    version     text COLLATE "C" NOT NULL,
    -- Names the key of its vault.
    vault       text COLLATE "C" NOT NULL,
    -- The counts of things that users hold open there, as JSON.
    held        text COLLATE "C" NOT NULL DEFAULT '{}'
);

-- Functions of SQLite that statements call. A body that is one expression becomes part of the statement.

CREATE FUNCTION hex(bytes bytea) RETURNS text LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN upper(encode(bytes, 'hex'));

CREATE FUNCTION unhex(digits text) RETURNS bytea LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN decode(digits, 'hex');

CREATE FUNCTION instr(whole text, part text) RETURNS bigint LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN strpos(whole, part)::bigint;

-- Null if one of the numbers is, which greatest and least are not.
CREATE FUNCTION max(a bigint, b bigint) RETURNS bigint LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN int8larger(a, b);

CREATE FUNCTION max(a bigint, b bigint, c bigint) RETURNS bigint LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN int8larger(int8larger(a, b), c);

CREATE FUNCTION min(a bigint, b bigint) RETURNS bigint LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN int8smaller(a, b);

CREATE FUNCTION json_valid(body text) RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN body IS JSON;

-- The JSON with U+FFFD in place of U+0000, which no text of PostgreSQL can hold: to take a member out of it would fail.
CREATE FUNCTION json_readable(body text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN strpos(body, '\u0000') = 0 THEN body
            ELSE regexp_replace(body, '(?<!\\)((?:\\\\)*)\\u0000', '\1\\ufffd', 'g') END;

-- A member of an object; null if there is none, or no object.
CREATE FUNCTION json_member(body text, field text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN (CASE WHEN body IS JSON OBJECT THEN json_readable(body) END)::json ->> field;

-- The value at a path such as $.usage.tokens or $.calls[0], as text; null if there is none.
CREATE FUNCTION json_extract(body text, path text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN json_readable(body)::json
    #>> string_to_array(replace(replace(pg_catalog.substr(path, 3), '[', '.'), ']', ''), '.');

CREATE FUNCTION substr(whole text, first bigint) RETURNS text LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN pg_catalog.substr(whole, first::int);

CREATE FUNCTION substr(whole text, first bigint, count bigint) RETURNS text LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN pg_catalog.substr(whole, first::int, greatest(count, 0)::int);

-- Whether a record has each of the fields asked for, given as [[name, [value]], …]. A list has a value if one of its
-- elements is the value.
CREATE FUNCTION has_fields(data text, asked text) RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN NOT EXISTS (
    SELECT 1 FROM jsonb_array_elements(json_readable(asked)::jsonb) want (pair),
        LATERAL (SELECT json_readable(data)::jsonb -> (want.pair ->> 0) AS value) field
    WHERE NOT coalesce(field.value = want.pair -> 1 -> 0
        OR (jsonb_typeof(field.value) = 'array' AND field.value @> jsonb_build_array(want.pair -> 1 -> 0)
            AND EXISTS (SELECT 1 FROM jsonb_array_elements(
                CASE jsonb_typeof(field.value) WHEN 'array' THEN field.value ELSE '[]'::jsonb END) e (value)
                WHERE e.value = want.pair -> 1 -> 0)), false));

-- The elements of an array, each with its index from 0, or the members of an object.
CREATE FUNCTION json_each(body text) RETURNS TABLE (key text, value text)
LANGUAGE sql IMMUTABLE PARALLEL SAFE ROWS 20
BEGIN ATOMIC
    SELECT (e.number - 1)::text, e.element
        FROM json_array_elements_text(CASE WHEN body IS JSON ARRAY THEN json_readable(body) ELSE '[]' END::json)
            WITH ORDINALITY e (element, number)
    UNION ALL
    SELECT m.key, m.value
        FROM json_each_text(CASE WHEN body IS JSON ARRAY THEN '{}' ELSE json_readable(body) END::json) m;
END;

-- Tables.

CREATE TABLE threads (
    id            bytea            NOT NULL PRIMARY KEY CHECK (octet_length(id) = 16),
    app           text COLLATE "C" NOT NULL,
    "user"        text COLLATE "C" NOT NULL,
    title         text COLLATE "C",
    head          bytea,
    model         text COLLATE "C",
    next_seq      bigint           NOT NULL DEFAULT 1,
    message_count bigint           NOT NULL DEFAULT 0,
    created_at    bigint           NOT NULL,
    updated_at    bigint           NOT NULL,
    deleted_at    bigint,
    extracted     bigint           NOT NULL DEFAULT 0,
    persona       text COLLATE "C",
    pinned        bigint           NOT NULL DEFAULT 0 CHECK (pinned IN (0, 1)),
    archived      bigint           NOT NULL DEFAULT 0 CHECK (archived IN (0, 1)),
    UNIQUE (id, app, "user")
);

CREATE TABLE runs (
    id               bytea            NOT NULL PRIMARY KEY CHECK (octet_length(id) = 16),
    thread           bytea            NOT NULL,
    app              text COLLATE "C" NOT NULL,
    "user"           text COLLATE "C" NOT NULL,
    message          bytea            NOT NULL,
    status           text COLLATE "C" NOT NULL
        CHECK (status IN ('queued', 'running', 'waiting', 'completed', 'failed', 'cancelled', 'interrupted')),
    model            text COLLATE "C",
    error            text COLLATE "C",
    input_tokens     bigint           NOT NULL DEFAULT 0,
    output_tokens    bigint           NOT NULL DEFAULT 0,
    cached_tokens    bigint           NOT NULL DEFAULT 0,
    reasoning_tokens bigint           NOT NULL DEFAULT 0,
    estimated        bigint           NOT NULL DEFAULT 0,
    start_seq        bigint,
    end_seq          bigint,
    stop             text COLLATE "C" CHECK (stop IN ('cancelled', 'interrupted')),
    epoch            bigint           NOT NULL DEFAULT 1,
    created_at       bigint           NOT NULL,
    ended_at         bigint,
    cost             bigint           NOT NULL DEFAULT 0,
    pruned_at        bigint,
    actor            text COLLATE "C",
    imported         bigint           NOT NULL DEFAULT 0 CHECK (imported IN (0, 1)),
    -- The node that has it under way.
    owner            bigint,
    FOREIGN KEY (thread, app, "user") REFERENCES threads (id, app, "user")
);

CREATE TABLE events (
    thread bytea            NOT NULL,
    seq    bigint           NOT NULL,
    run    bytea,
    kind   text COLLATE "C" NOT NULL,
    at     bigint           NOT NULL,
    body   text COLLATE "C" NOT NULL,
    PRIMARY KEY (thread, seq)
);

CREATE TABLE messages (
    id         bytea            NOT NULL PRIMARY KEY CHECK (octet_length(id) = 16),
    thread     bytea            NOT NULL REFERENCES threads (id),
    parent     bytea,
    role       text COLLATE "C" NOT NULL CHECK (role IN ('user', 'assistant')),
    run        bytea            NOT NULL REFERENCES runs (id),
    seq        bigint           NOT NULL,
    created_at bigint           NOT NULL,
    depth      bigint           CHECK (depth >= 1),
    leap       bytea,
    UNIQUE (thread, id),
    UNIQUE (thread, seq),
    FOREIGN KEY (thread, parent) REFERENCES messages (thread, id)
);

CREATE TABLE tool_calls (
    id          bytea            NOT NULL PRIMARY KEY CHECK (octet_length(id) = 16),
    run         bytea            NOT NULL REFERENCES runs (id),
    step        bigint           NOT NULL CHECK (step BETWEEN 1 AND 201),
    idx         bigint           NOT NULL CHECK (idx BETWEEN 0 AND 31),
    provider_id text COLLATE "C" NOT NULL,
    name        text COLLATE "C" NOT NULL,
    seq         bigint           NOT NULL,
    UNIQUE (id, run),
    UNIQUE (run, step, idx),
    UNIQUE (run, step, provider_id)
);

CREATE TABLE tool_results (
    call   bytea            NOT NULL PRIMARY KEY,
    run    bytea            NOT NULL,
    status text COLLATE "C" NOT NULL CHECK (status IN ('complete', 'failed', 'denied', 'cancelled', 'unknown')),
    seq    bigint           NOT NULL,
    FOREIGN KEY (call, run) REFERENCES tool_calls (id, run)
);

CREATE TABLE queue (
    position   bigint           GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    thread     bytea            NOT NULL REFERENCES threads (id),
    run        bytea            NOT NULL UNIQUE REFERENCES runs (id),
    urgent     bigint           NOT NULL,
    submission text COLLATE "C" NOT NULL
);

CREATE TABLE idempotency (
    app         text COLLATE "C" NOT NULL,
    "user"      text COLLATE "C" NOT NULL,
    key         text COLLATE "C" NOT NULL,
    fingerprint bytea            NOT NULL,
    target      bytea            NOT NULL,
    created_at  bigint           NOT NULL,
    PRIMARY KEY (app, "user", key)
);

CREATE TABLE jobs (
    id         bytea            NOT NULL PRIMARY KEY CHECK (octet_length(id) = 16),
    kind       text COLLATE "C" NOT NULL,
    key        text COLLATE "C" NOT NULL,
    app        text COLLATE "C" NOT NULL,
    "user"     text COLLATE "C" NOT NULL,
    thread     bytea,
    status     text COLLATE "C" NOT NULL CHECK (status IN ('ready', 'running', 'done', 'dead')),
    attempts   bigint           NOT NULL DEFAULT 0,
    epoch      bigint           NOT NULL DEFAULT 0,
    run_at     bigint           NOT NULL,
    error      text COLLATE "C",
    created_at bigint           NOT NULL,
    updated_at bigint           NOT NULL,
    owner      bigint,
    UNIQUE (kind, key)
);

CREATE TABLE usage (
    "user"           text COLLATE "C" NOT NULL,
    app              text COLLATE "C" NOT NULL,
    day              text COLLATE "C" NOT NULL CHECK (length(day) = 10),
    model            text COLLATE "C" NOT NULL,
    calls            bigint           NOT NULL,
    input_tokens     bigint           NOT NULL,
    output_tokens    bigint           NOT NULL,
    cached_tokens    bigint           NOT NULL,
    reasoning_tokens bigint           NOT NULL,
    cost             bigint           NOT NULL,
    estimated        bigint           NOT NULL,
    PRIMARY KEY ("user", app, day, model)
);

CREATE TABLE ledger (
    app      text COLLATE "C" NOT NULL,
    "user"   text COLLATE "C" NOT NULL,
    position bigint           NOT NULL,
    action   bytea            NOT NULL,
    kind     text COLLATE "C" NOT NULL CHECK (kind IN ('intent', 'outcome', 'undo', 'late', 'erase')),
    at       bigint           NOT NULL,
    digest   bytea            NOT NULL CHECK (octet_length(digest) = 32),
    hash     bytea            NOT NULL CHECK (octet_length(hash) = 32),
    PRIMARY KEY (app, "user", position)
);

CREATE TABLE ledger_heads (
    app      text COLLATE "C" NOT NULL,
    "user"   text COLLATE "C" NOT NULL,
    position bigint           NOT NULL,
    hash     bytea            NOT NULL,
    PRIMARY KEY (app, "user")
);

CREATE TABLE ledger_payloads (
    app      text COLLATE "C" NOT NULL,
    "user"   text COLLATE "C" NOT NULL,
    position bigint           NOT NULL,
    salt     bytea            NOT NULL CHECK (octet_length(salt) = 16),
    payload  text COLLATE "C" NOT NULL,
    PRIMARY KEY (app, "user", position)
);

CREATE TABLE records (
    number     bigint           GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    id         bytea            NOT NULL UNIQUE CHECK (octet_length(id) = 16),
    app        text COLLATE "C" NOT NULL,
    "user"     text COLLATE "C" NOT NULL,
    type       text COLLATE "C" NOT NULL,
    version    bigint           NOT NULL CHECK (version >= 1),
    state      bigint           NOT NULL CHECK (state BETWEEN 0 AND version),
    data       text COLLATE "C" CHECK (data IS JSON),
    created_at bigint           NOT NULL,
    updated_at bigint           NOT NULL,
    action     bytea
);

-- The words of the records that are not deleted.
CREATE TABLE records_text (
    number bigint           NOT NULL PRIMARY KEY,
    owner  text COLLATE "C" NOT NULL,
    words  tsvector         NOT NULL
);

CREATE TABLE files (
    app        text COLLATE "C" NOT NULL,
    "user"     text COLLATE "C" NOT NULL,
    path       text COLLATE "C" NOT NULL,
    version    bigint           NOT NULL CHECK (version >= 1),
    state      bigint           NOT NULL CHECK (state BETWEEN 0 AND version),
    content    text COLLATE "C",
    updated_at bigint           NOT NULL,
    action     bytea,
    PRIMARY KEY (app, "user", path)
);

CREATE TABLE proposals (
    id         bytea            NOT NULL PRIMARY KEY CHECK (octet_length(id) = 16),
    app        text COLLATE "C" NOT NULL,
    "user"     text COLLATE "C" NOT NULL,
    thread     bytea,
    run        bytea,
    call       bytea,
    tool       text COLLATE "C" NOT NULL,
    input      text COLLATE "C" NOT NULL,
    hash       bytea            NOT NULL CHECK (octet_length(hash) = 32),
    note       text COLLATE "C",
    status     text COLLATE "C" NOT NULL
        CHECK (status IN ('open', 'confirmed', 'rejected', 'expired', 'superseded', 'withdrawn')),
    -- The action a confirmed one became; for one of a run, its call's.
    action     bytea,
    expires_at bigint           NOT NULL,
    created_at bigint           NOT NULL,
    decided_at bigint
);

CREATE TABLE memories (
    id               bytea            NOT NULL PRIMARY KEY CHECK (octet_length(id) = 16),
    app              text COLLATE "C" NOT NULL,
    "user"           text COLLATE "C" NOT NULL,
    text             text COLLATE "C" NOT NULL CHECK (octet_length(text) BETWEEN 1 AND 4096),
    kind             text COLLATE "C" NOT NULL CHECK (length(kind) BETWEEN 1 AND 32),
    status           text COLLATE "C" NOT NULL
        CHECK (status IN ('active', 'forgotten', 'removed', 'expired', 'superseded')),
    version          bigint           NOT NULL DEFAULT 1 CHECK (version >= 1),
    valid_from       bigint,
    valid_until      bigint,
    superseded_by    bytea,
    access_count     bigint           NOT NULL DEFAULT 0,
    last_accessed_at bigint,
    -- The origin of the memory, in one word.
    source           text COLLATE "C" NOT NULL,
    created_at       bigint           NOT NULL,
    updated_at       bigint           NOT NULL,
    same             bytea            CHECK (same IS NULL OR octet_length(same) = 16)
);

CREATE TABLE memory_counts (
    app    text COLLATE "C" NOT NULL,
    "user" text COLLATE "C" NOT NULL,
    active bigint           NOT NULL CHECK (active >= 0),
    PRIMARY KEY (app, "user")
);

CREATE TABLE memory_versions (
    memory      bytea            NOT NULL REFERENCES memories (id),
    version     bigint           NOT NULL CHECK (version >= 1),
    text        text COLLATE "C" NOT NULL,
    kind        text COLLATE "C" NOT NULL,
    status      text COLLATE "C" NOT NULL,
    reason      text COLLATE "C" NOT NULL
        CHECK (reason IN ('created', 'edited', 'updated', 'merged', 'removed', 'forgotten', 'restored', 'expired',
            'superseded', 'undone')),
    valid_from  bigint,
    valid_until bigint,
    at          bigint           NOT NULL,
    PRIMARY KEY (memory, version)
);

CREATE TABLE memory_sources (
    number  bigint           GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    memory  bytea            NOT NULL REFERENCES memories (id),
    thread  bytea,
    message bytea,
    words   text COLLATE "C",
    at      bigint           NOT NULL
);

CREATE TABLE tombstones (
    number bigint           GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    app    text COLLATE "C" NOT NULL,
    "user" text COLLATE "C" NOT NULL,
    memory bytea            NOT NULL REFERENCES memories (id),
    words  text COLLATE "C" NOT NULL,
    at     bigint           NOT NULL
);

CREATE TABLE memory_off (
    app    text COLLATE "C" NOT NULL,
    "user" text COLLATE "C" NOT NULL,
    PRIMARY KEY (app, "user")
);

CREATE TABLE vectors (
    app    text COLLATE "C" NOT NULL,
    "user" text COLLATE "C" NOT NULL,
    item   bytea            NOT NULL CHECK (octet_length(item) = 16),
    model  text COLLATE "C" NOT NULL,
    hash   bytea            NOT NULL CHECK (octet_length(hash) = 16),
    -- Null stands for a vector without numbers, of a text from which none can be made.
    vector vector,
    PRIMARY KEY (item, model)
);

CREATE TABLE snapshots (
    thread bytea  NOT NULL PRIMARY KEY REFERENCES threads (id),
    at     bigint NOT NULL
);

CREATE TABLE texts (
    app    text COLLATE "C" NOT NULL,
    "user" text COLLATE "C" NOT NULL,
    source text COLLATE "C" NOT NULL,
    hash   bytea            NOT NULL CHECK (octet_length(hash) = 16),
    body   text COLLATE "C" NOT NULL CHECK (octet_length(body) <= 262144),
    PRIMARY KEY (app, "user", source, hash)
);

CREATE TABLE personas (
    app        text COLLATE "C" NOT NULL,
    "user"     text COLLATE "C" NOT NULL,
    id         text COLLATE "C" NOT NULL,
    name       text COLLATE "C" NOT NULL,
    prompt     text COLLATE "C" NOT NULL CHECK (octet_length(prompt) <= 65536),
    settings   text COLLATE "C" NOT NULL CHECK (settings IS JSON),
    created_at bigint           NOT NULL,
    updated_at bigint           NOT NULL,
    PRIMARY KEY (app, "user", id)
);

CREATE TABLE pins (
    id         bytea            NOT NULL PRIMARY KEY CHECK (octet_length(id) = 16),
    app        text COLLATE "C" NOT NULL,
    "user"     text COLLATE "C" NOT NULL,
    thread     bytea,
    text       text COLLATE "C" NOT NULL CHECK (octet_length(text) BETWEEN 1 AND 4096),
    created_at bigint           NOT NULL,
    FOREIGN KEY (thread, app, "user") REFERENCES threads (id, app, "user")
);

CREATE TABLE summaries (
    id            bytea  NOT NULL PRIMARY KEY CHECK (octet_length(id) = 16),
    thread        bytea  NOT NULL REFERENCES threads (id),
    level         bigint NOT NULL CHECK (level >= 0),
    -- The message before the first it covers.
    after_message bytea,
    from_message  bytea  NOT NULL,
    to_message    bytea  NOT NULL,
    from_seq      bigint NOT NULL,
    to_seq        bigint NOT NULL CHECK (to_seq >= from_seq),
    messages      bigint NOT NULL CHECK (messages >= 1),
    hash          bytea  NOT NULL CHECK (octet_length(hash) = 16),
    -- The one of a higher level that took its place.
    merged_into   bytea  REFERENCES summaries (id),
    created_at    bigint NOT NULL,
    UNIQUE (thread, level, to_message),
    FOREIGN KEY (thread, after_message) REFERENCES messages (thread, id),
    FOREIGN KEY (thread, from_message) REFERENCES messages (thread, id),
    FOREIGN KEY (thread, to_message) REFERENCES messages (thread, id)
);

CREATE TABLE documents (
    id         bytea            NOT NULL PRIMARY KEY CHECK (octet_length(id) = 16),
    app        text COLLATE "C" NOT NULL,
    "user"     text COLLATE "C" NOT NULL,
    name       text COLLATE "C" NOT NULL,
    title      text COLLATE "C",
    kind       text COLLATE "C" NOT NULL,
    bytes      bigint           NOT NULL,
    text_bytes bigint           NOT NULL,
    pages      bigint,
    chunks     bigint           NOT NULL CHECK (chunks >= 0),
    suspicious bigint           NOT NULL,
    status     text COLLATE "C" NOT NULL CHECK (status IN ('adding', 'ready')),
    listed     bigint           NOT NULL DEFAULT 0 CHECK (listed BETWEEN 0 AND chunks),
    created_at bigint           NOT NULL,
    deleted_at bigint,
    hash       bytea            CHECK (hash IS NULL OR octet_length(hash) = 32)
);

CREATE TABLE chunks (
    id         bytea            NOT NULL PRIMARY KEY CHECK (octet_length(id) = 16),
    document   bytea            NOT NULL REFERENCES documents (id),
    number     bigint           NOT NULL CHECK (number >= 0),
    text       text COLLATE "C" NOT NULL CHECK (octet_length(text) BETWEEN 1 AND 4096),
    place      text COLLATE "C" NOT NULL,
    suspicious bigint           NOT NULL,
    UNIQUE (document, number)
);

-- Changes are numbered from 1. One that is changed again gets a new number.
CREATE SEQUENCE items_rev;

CREATE TABLE items (
    rev    bigint           NOT NULL DEFAULT nextval('items_rev') PRIMARY KEY,
    app    text COLLATE "C" NOT NULL,
    "user" text COLLATE "C" NOT NULL,
    kind   text COLLATE "C" NOT NULL CHECK (kind IN ('memory', 'message', 'thread', 'tombstone', 'chunk', 'document')),
    id     bytea            NOT NULL CHECK (octet_length(id) = 16),
    UNIQUE (kind, id)
);

ALTER SEQUENCE items_rev OWNED BY items.rev;

CREATE TABLE secrets (
    name  text COLLATE "C" NOT NULL PRIMARY KEY,
    value bytea            NOT NULL CHECK (octet_length(value) = 32)
);

CREATE TABLE mcp_tools (
    app                 text COLLATE "C" NOT NULL,
    server              text COLLATE "C" NOT NULL,
    tool                text COLLATE "C" NOT NULL,
    -- As last offered.
    definition          text COLLATE "C" NOT NULL CHECK (definition IS JSON),
    hash                text COLLATE "C" NOT NULL,
    approved_hash       text COLLATE "C",
    approved_definition text COLLATE "C" CHECK (approved_definition IS JSON),
    approved_at         bigint,
    -- Null for one that was there when its server was first seen.
    approved_by         text COLLATE "C",
    seen_at             bigint           NOT NULL,
    present             bigint           NOT NULL CHECK (present IN (0, 1)),
    -- Among what the server offers.
    position            bigint           NOT NULL,
    PRIMARY KEY (app, server, tool),
    CHECK ((approved_hash IS NULL) = (approved_definition IS NULL)
       AND (approved_hash IS NULL) = (approved_at IS NULL))
);

CREATE TABLE credentials (
    app        text COLLATE "C" NOT NULL,
    "user"     text COLLATE "C" NOT NULL,
    name       text COLLATE "C" NOT NULL,
    sealed     bytea            NOT NULL,
    updated_at bigint           NOT NULL,
    PRIMARY KEY (app, "user", name)
);

CREATE TABLE actions (
    id          bytea            NOT NULL PRIMARY KEY CHECK (octet_length(id) = 16),
    app         text COLLATE "C" NOT NULL,
    "user"      text COLLATE "C" NOT NULL,
    thread      bytea,
    run         bytea,
    step        bigint,
    tool        text COLLATE "C" NOT NULL,
    effect      text COLLATE "C" NOT NULL CHECK (effect IN ('read', 'idempotent', 'reversible', 'irreversible')),
    status      text COLLATE "C" NOT NULL
        CHECK (status IN ('started', 'complete', 'failed', 'denied', 'cancelled', 'unknown')),
    -- Null once erased, as are output and changes then.
    input       text COLLATE "C",
    output      text COLLATE "C",
    -- The changes of its writes, as they must be put back: null when there is nothing to undo.
    changes     text COLLATE "C",
    started_at  bigint           NOT NULL,
    duration_ms bigint,
    -- The action that undid this one, and the one that this one undid or set out to undo.
    undone_by   bytea,
    undo_of     bytea,
    position    bigint           NOT NULL,
    actor       text COLLATE "C",
    owner       bigint
);

CREATE TABLE pace (
    app    text COLLATE "C" NOT NULL,
    "user" text COLLATE "C" NOT NULL,
    -- Its first millisecond.
    minute bigint           NOT NULL,
    runs   bigint           NOT NULL,
    tokens bigint           NOT NULL,
    PRIMARY KEY (app, "user", minute)
);

CREATE TABLE skipped (
    thread bytea            NOT NULL REFERENCES threads (id),
    first  bigint           NOT NULL,
    last   bigint           NOT NULL CHECK (last >= first),
    reason text COLLATE "C" NOT NULL CHECK (reason IN ('power loss', 'restored')),
    at     bigint           NOT NULL,
    PRIMARY KEY (thread, first)
);

CREATE TABLE state (
    name  text COLLATE "C" NOT NULL PRIMARY KEY,
    value text COLLATE "C" NOT NULL
);

CREATE TABLE profiles (
    app        text COLLATE "C" NOT NULL,
    "user"     text COLLATE "C" NOT NULL,
    name       text COLLATE "C",
    timezone   text COLLATE "C",
    locale     text COLLATE "C",
    fields     text COLLATE "C" NOT NULL CHECK (fields IS JSON AND octet_length(fields) <= 16384),
    updated_at bigint           NOT NULL,
    version    bigint           NOT NULL DEFAULT 1,
    PRIMARY KEY (app, "user")
);

CREATE TABLE job_lines (
    "user" text COLLATE "C" NOT NULL,
    kind   text COLLATE "C" NOT NULL,
    app    text COLLATE "C" NOT NULL,
    thread bytea            NOT NULL,
    due_at bigint           NOT NULL,
    PRIMARY KEY ("user", kind, app, thread)
);

CREATE TABLE job_users (
    "user"    text COLLATE "C" NOT NULL PRIMARY KEY,
    due_at    bigint,
    working   bigint           NOT NULL,
    served_at bigint           NOT NULL
);

CREATE TABLE reservations (
    holder bytea            PRIMARY KEY CHECK (octet_length(holder) = 16),
    app    text COLLATE "C" NOT NULL,
    "user" text COLLATE "C" NOT NULL,
    tokens bigint           NOT NULL CHECK (tokens >= 0),
    -- Billionths of a US dollar.
    cost   bigint           NOT NULL CHECK (cost >= 0)
);

CREATE TABLE text_uses (
    thread bytea            NOT NULL REFERENCES threads (id),
    app    text COLLATE "C" NOT NULL,
    source text COLLATE "C" NOT NULL,
    hash   bytea            NOT NULL CHECK (octet_length(hash) = 16),
    PRIMARY KEY (thread, source, hash)
);

CREATE TABLE snapshot_lines (
    thread bytea            NOT NULL REFERENCES threads (id),
    number bigint           NOT NULL,
    source text COLLATE "C" NOT NULL,
    at     bigint           NOT NULL,
    text   text COLLATE "C" NOT NULL CHECK (octet_length(text) <= 8192),
    PRIMARY KEY (thread, number)
);

CREATE TABLE shadows (
    number bigint           GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    app    text COLLATE "C" NOT NULL,
    "user" text COLLATE "C" NOT NULL,
    shadow bytea            NOT NULL CHECK (octet_length(shadow) BETWEEN 6 AND 16384),
    at     bigint           NOT NULL
);

CREATE TABLE action_things (
    app    text COLLATE "C" NOT NULL,
    "user" text COLLATE "C" NOT NULL,
    thing  text COLLATE "C" NOT NULL,
    action bytea            NOT NULL,
    PRIMARY KEY (app, "user", thing, action)
);

CREATE TABLE erasures (
    app      text COLLATE "C" NOT NULL,
    "user"   text COLLATE "C" NOT NULL,
    thing    text COLLATE "C" NOT NULL,
    by_hand  bigint           NOT NULL CHECK (by_hand IN (0, 1)),
    position bigint           NOT NULL,
    at       bigint           NOT NULL,
    PRIMARY KEY (app, "user", thing, by_hand)
);

CREATE TABLE erasure_counts (
    app    text COLLATE "C" NOT NULL,
    "user" text COLLATE "C" NOT NULL,
    number bigint           NOT NULL,
    PRIMARY KEY (app, "user")
);

CREATE TABLE missing_apps (
    app   text COLLATE "C" NOT NULL PRIMARY KEY,
    since bigint           NOT NULL
);

CREATE TABLE app_revisions (
    app       text COLLATE "C" NOT NULL,
    revision  text COLLATE "C" NOT NULL,
    -- When a server began to serve it for the last time. The oldest ones go first.
    served_at bigint           NOT NULL,
    -- The files of the folder, as JSON.
    files     bytea            NOT NULL,
    PRIMARY KEY (app, revision)
);

CREATE TABLE delta_log_0 (
    number bigint PRIMARY KEY,
    body   bytea  NOT NULL,
    -- The news of the commit for the other nodes.
    news   bytea
);

CREATE TABLE delta_log_1 (
    number bigint PRIMARY KEY,
    body   bytea  NOT NULL,
    -- The news of the commit for the other nodes.
    news   bytea
);

CREATE TABLE packed_deltas (
    thread bytea  NOT NULL,
    first  bigint NOT NULL,
    last   bigint NOT NULL CHECK (last >= first),
    run    bytea  NOT NULL,
    at     bigint NOT NULL,
    body   bytea  NOT NULL,
    PRIMARY KEY (thread, first)
);

CREATE TABLE keys (
    id          bytea            NOT NULL PRIMARY KEY CHECK (octet_length(id) = 16),
    hash        bytea            NOT NULL UNIQUE CHECK (octet_length(hash) = 32),
    "user"      text COLLATE "C" NOT NULL,
    app         text COLLATE "C",
    -- Names with commas between them, in the order of the alphabet.
    rights      text COLLATE "C" NOT NULL,
    -- The users for whom the key may speak.
    acts_for    text COLLATE "C" CHECK (acts_for IN ('any')),
    created_at  bigint           NOT NULL,
    expires_at  bigint,
    used_at     bigint,
    revoked_at  bigint,
    made_by     text COLLATE "C",
    revoked_by  text COLLATE "C",
    -- The key that a rotation made in place of this one.
    replaced_by bytea
);

CREATE TABLE sessions (
    id         bytea            NOT NULL PRIMARY KEY CHECK (octet_length(id) = 16),
    hash       bytea            NOT NULL UNIQUE CHECK (octet_length(hash) = 32),
    "user"     text COLLATE "C" NOT NULL,
    -- A JSON list; null for all apps.
    apps       text COLLATE "C" CHECK (apps IS JSON),
    rights     text COLLATE "C" NOT NULL,
    -- The actor who speaks for the user, if it is not the user.
    actor      text COLLATE "C",
    key        bytea,
    issuer     text COLLATE "C",
    created_at bigint           NOT NULL,
    expires_at bigint           NOT NULL,
    ended_at   bigint
);

CREATE TABLE admin_audit (
    number bigint           NOT NULL PRIMARY KEY,
    at     bigint           NOT NULL,
    by     text COLLATE "C" NOT NULL,
    kind   text COLLATE "C" NOT NULL,
    -- Null where it concerns all apps.
    app    text COLLATE "C",
    target text COLLATE "C" NOT NULL,
    detail text COLLATE "C" NOT NULL CHECK (detail IS JSON),
    hash   bytea            NOT NULL CHECK (octet_length(hash) = 32)
);

-- The last number that an entry of the audit got: it stays when the end of the chain is cut off. The name is the one
-- under which SQLite notes it.
CREATE TABLE sqlite_sequence (
    name text COLLATE "C" NOT NULL PRIMARY KEY,
    seq  bigint           NOT NULL
);

CREATE TABLE client_calls (
    id          bytea            NOT NULL PRIMARY KEY CHECK (octet_length(id) = 16),
    app         text COLLATE "C" NOT NULL,
    "user"      text COLLATE "C" NOT NULL,
    thread      bytea            NOT NULL,
    run         bytea            NOT NULL,
    status      text COLLATE "C" NOT NULL CHECK (status IN ('open', 'answered', 'expired', 'superseded', 'cancelled')),
    expires_at  bigint           NOT NULL,
    created_at  bigint           NOT NULL,
    answered_at bigint,
    CHECK ((status = 'open') = (answered_at IS NULL)),
    FOREIGN KEY (id, run) REFERENCES tool_calls (id, run)
);

CREATE TABLE notices (
    "user"    text COLLATE "C" NOT NULL,
    number    bigint           NOT NULL CHECK (number >= 1),
    app       text COLLATE "C" NOT NULL,
    kind      text COLLATE "C" NOT NULL,
    -- An id; of memories one after the other.
    subject   bytea            NOT NULL
        CHECK (octet_length(subject) BETWEEN 16 AND 1600 AND octet_length(subject) % 16 = 0),
    -- The status of the thing, or its change.
    status    text COLLATE "C" NOT NULL,
    -- The change of the thread of a run, which has the number before this one.
    of_thread text COLLATE "C",
    at        bigint           NOT NULL,
    PRIMARY KEY ("user", number)
);

CREATE TABLE notices_swept (
    "user"  text COLLATE "C" NOT NULL PRIMARY KEY,
    through bigint           NOT NULL
);

CREATE TABLE thing_versions (
    app      text COLLATE "C" NOT NULL,
    "user"   text COLLATE "C" NOT NULL,
    thing    text COLLATE "C" NOT NULL,
    version  bigint           NOT NULL CHECK (version >= 1),
    -- Null if it was deleted.
    contents text COLLATE "C",
    at       bigint           NOT NULL,
    action   bytea,
    PRIMARY KEY (app, "user", thing, version)
);

CREATE TABLE images (
    id           bytea            NOT NULL PRIMARY KEY CHECK (octet_length(id) = 16),
    app          text COLLATE "C" NOT NULL,
    "user"       text COLLATE "C" NOT NULL,
    -- SHA-256 of the upload.
    hash         bytea            NOT NULL CHECK (octet_length(hash) = 32),
    media_type   text COLLATE "C" NOT NULL,
    width        bigint           NOT NULL CHECK (width > 0),
    height       bigint           NOT NULL CHECK (height > 0),
    -- Of the content as it is kept.
    bytes        bigint           NOT NULL,
    name         text COLLATE "C",
    created_at   bigint           NOT NULL,
    -- Since when no message shows it. Null while one does.
    unused_since bigint
);

CREATE TABLE image_contents (
    image   bytea NOT NULL PRIMARY KEY REFERENCES images (id),
    content bytea NOT NULL
);

CREATE TABLE image_uses (
    image   bytea NOT NULL REFERENCES images (id),
    message bytea NOT NULL,
    thread  bytea NOT NULL REFERENCES threads (id),
    PRIMARY KEY (image, message)
);

-- The message that each job of the kind webhook delivers.
CREATE TABLE webhook_messages (
    job     bytea            NOT NULL PRIMARY KEY,
    -- The name of the webhook in its app.
    webhook text COLLATE "C" NOT NULL,
    body    text COLLATE "C" NOT NULL
);

-- Indexes.

CREATE INDEX threads_listed ON threads (app, "user", archived, updated_at DESC, id DESC, pinned)
    WHERE deleted_at IS NULL;

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

CREATE INDEX idempotency_by_user ON idempotency ("user", key);

CREATE INDEX idempotency_oldest ON idempotency (created_at);

CREATE INDEX jobs_newest ON jobs (created_at DESC, id DESC);

CREATE INDEX usage_by_day ON usage ("user", day);

CREATE INDEX ledger_by_action ON ledger (action);

CREATE INDEX records_newest ON records (app, "user", type, updated_at DESC, id DESC) WHERE data IS NOT NULL;

CREATE INDEX records_text_words ON records_text USING gin (words);

CREATE INDEX records_text_owner ON records_text (owner);

CREATE INDEX proposals_newest ON proposals (app, "user", created_at DESC, id DESC);

CREATE INDEX proposals_by_run ON proposals (run) WHERE run IS NOT NULL;

CREATE INDEX proposals_by_thread ON proposals (thread) WHERE thread IS NOT NULL;

CREATE UNIQUE INDEX proposals_of_call ON proposals (call) WHERE call IS NOT NULL AND status = 'open';

CREATE INDEX proposals_open ON proposals (expires_at) WHERE status = 'open';

CREATE INDEX memories_newest ON memories (app, "user", status, created_at DESC, id DESC);

CREATE INDEX memories_all ON memories (app, "user", created_at DESC, id DESC);

CREATE INDEX memories_least ON memories (app, "user", (access_count * 864000000 + created_at), created_at, id)
    WHERE status = 'active';

CREATE INDEX memory_sources_of ON memory_sources (memory);

CREATE INDEX memory_sources_by_thread ON memory_sources (thread) WHERE thread IS NOT NULL;

CREATE INDEX tombstones_of ON tombstones (app, "user");

CREATE INDEX tombstones_by_memory ON tombstones (memory);

CREATE INDEX threads_by_persona ON threads (app, "user", persona) WHERE persona IS NOT NULL;

CREATE INDEX pins_oldest ON pins (app, "user", created_at, id);

CREATE INDEX pins_by_thread ON pins (thread) WHERE thread IS NOT NULL;

CREATE INDEX summaries_newest ON summaries (thread, to_seq, level);

CREATE INDEX summaries_by_before ON summaries (thread, after_message);

CREATE INDEX summaries_by_first ON summaries (thread, from_message);

CREATE INDEX summaries_by_last ON summaries (thread, to_message);

CREATE INDEX summaries_merged ON summaries (merged_into) WHERE merged_into IS NOT NULL;

CREATE INDEX documents_newest ON documents (app, "user", created_at DESC, id DESC) WHERE deleted_at IS NULL;

CREATE INDEX documents_adding ON documents (created_at) WHERE status = 'adding' AND deleted_at IS NULL;

CREATE INDEX documents_unlisted ON documents (created_at)
    WHERE status = 'ready' AND listed < chunks AND deleted_at IS NULL;

CREATE INDEX documents_deleted ON documents (deleted_at) WHERE deleted_at IS NOT NULL;

CREATE UNIQUE INDEX documents_of_apps ON documents (app, name)
    WHERE "user" = '' AND status = 'ready' AND deleted_at IS NULL;

CREATE INDEX items_newest ON items (app, "user", rev);

CREATE UNIQUE INDEX actions_newest ON actions (app, "user", position DESC);

CREATE INDEX actions_by_run ON actions (run, position DESC) WHERE run IS NOT NULL;

CREATE INDEX actions_by_thread ON actions (thread, position DESC) WHERE thread IS NOT NULL;

CREATE INDEX actions_begun ON actions (started_at) WHERE status = 'started' AND run IS NULL;

CREATE UNIQUE INDEX actions_undo ON actions (undo_of)
    WHERE undo_of IS NOT NULL AND status IN ('started', 'complete', 'unknown');

CREATE INDEX pace_oldest ON pace (minute);

CREATE INDEX runs_working ON runs (app, "user") WHERE status = 'running';

CREATE INDEX runs_to_prune ON runs (ended_at) WHERE ended_at IS NOT NULL AND pruned_at IS NULL;

CREATE INDEX jobs_done ON jobs (updated_at) WHERE status = 'done';

CREATE INDEX jobs_dead ON jobs (updated_at) WHERE status = 'dead';

CREATE INDEX jobs_of_app ON jobs (app, created_at DESC, id DESC);

CREATE INDEX job_lines_due ON job_lines ("user", due_at);

CREATE INDEX job_users_due ON job_users (due_at) WHERE working < 8 AND due_at IS NOT NULL;

CREATE INDEX jobs_in_line ON jobs ("user", kind, app, thread, run_at) WHERE status = 'ready';

CREATE INDEX jobs_working ON jobs ("user", kind, app, thread) WHERE status = 'running';

CREATE INDEX reservations_by_user ON reservations (app, "user");

CREATE INDEX text_uses_of ON text_uses (app, source, hash);

CREATE INDEX texts_of_profiles ON texts ("user") WHERE source LIKE 'profile\_%';

CREATE INDEX snapshot_lines_of ON snapshot_lines (source);

CREATE INDEX shadows_of ON shadows (app, "user");

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

CREATE INDEX memories_same ON memories (app, "user", same) WHERE status = 'active';

CREATE INDEX keys_oldest ON keys (created_at, id);

CREATE INDEX keys_of_app ON keys (app, created_at, id) WHERE app IS NOT NULL;

CREATE INDEX keys_good ON keys (expires_at) WHERE revoked_at IS NULL;

CREATE INDEX sessions_newest ON sessions (created_at DESC, id DESC) WHERE ended_at IS NULL;

CREATE INDEX sessions_of_user ON sessions ("user", created_at, id) WHERE ended_at IS NULL;

CREATE INDEX sessions_expiring ON sessions (expires_at);

CREATE INDEX sessions_ended ON sessions (ended_at) WHERE ended_at IS NOT NULL;

CREATE INDEX admin_audit_of_app ON admin_audit (app, number DESC) WHERE app IS NOT NULL;

CREATE INDEX client_calls_newest ON client_calls (app, "user", created_at DESC, id DESC);

CREATE INDEX client_calls_by_run ON client_calls (run) WHERE status = 'open';

CREATE INDEX client_calls_by_thread ON client_calls (thread);

CREATE INDEX client_calls_open ON client_calls (expires_at) WHERE status = 'open';

CREATE INDEX notices_oldest ON notices (at);

CREATE INDEX runs_newest ON runs (created_at DESC, id DESC);

CREATE INDEX usage_of_all ON usage (day, app, "user", model);

CREATE UNIQUE INDEX images_by_content ON images (app, "user", hash);

CREATE INDEX images_newest ON images (app, "user", created_at DESC, id DESC);

CREATE INDEX images_unused ON images (unused_since) WHERE unused_since IS NOT NULL;

CREATE INDEX image_uses_of_thread ON image_uses (thread);

CREATE INDEX image_uses_of_message ON image_uses (message);

-- Rules.

-- Refuses what a trigger is called for, with the words that it is given.
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '%', TG_ARGV[0] USING ERRCODE = 'integrity_constraint_violation';
END $$;

CREATE TRIGGER threads_seq_grows BEFORE UPDATE OF next_seq ON threads FOR EACH ROW
WHEN (NEW.next_seq < OLD.next_seq)
EXECUTE FUNCTION refuse('S1: a sequence never goes back');

CREATE TRIGGER runs_epoch_grows BEFORE UPDATE OF epoch ON runs FOR EACH ROW
WHEN (NEW.epoch < OLD.epoch)
EXECUTE FUNCTION refuse('R3: an epoch never goes back');

CREATE TRIGGER runs_begin BEFORE INSERT ON runs FOR EACH ROW
WHEN (NEW.status NOT IN ('queued', 'running') OR NEW.ended_at IS NOT NULL)
EXECUTE FUNCTION refuse('R1: a run begins queued or running');

CREATE FUNCTION runs_end() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT 1 FROM tool_calls c WHERE c.run = NEW.id
               AND NOT EXISTS (SELECT 1 FROM tool_results r WHERE r.call = c.id)) THEN
        RAISE EXCEPTION 'T2: a call has no result' USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    IF NEW.end_seq IS NULL OR NEW.ended_at IS NULL OR NEW.status IN ('queued', 'running', 'waiting')
       OR NOT EXISTS (SELECT 1 FROM events e WHERE e.thread = NEW.thread AND e.seq = NEW.end_seq
                      AND e.run = NEW.id AND e.kind = 'run:end')
       OR EXISTS (SELECT 1 FROM events e WHERE e.thread = NEW.thread AND e.seq > NEW.end_seq AND e.run = NEW.id) THEN
        RAISE EXCEPTION 'R4: run:end is not the last event' USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NEW;
END $$;

-- Triggers are called in the order of their names. A row that runs_end_as_told refuses is left to it, because C3 is the
-- fault to name.
CREATE TRIGGER runs_end BEFORE UPDATE OF status, ended_at ON runs FOR EACH ROW
WHEN (OLD.ended_at IS NULL
 AND (NEW.ended_at IS NOT NULL OR NEW.status IN ('completed', 'failed', 'cancelled', 'interrupted'))
 AND NOT (OLD.stop IS NOT NULL AND NEW.status <> OLD.status AND NEW.status <> OLD.stop
          AND NEW.status IN ('completed', 'failed', 'cancelled', 'interrupted')))
EXECUTE FUNCTION runs_end();

CREATE TRIGGER events_fixed BEFORE UPDATE ON events FOR EACH ROW
EXECUTE FUNCTION refuse('S1: events do not change');

CREATE TRIGGER tool_calls_fixed BEFORE UPDATE ON tool_calls FOR EACH ROW
EXECUTE FUNCTION refuse('T5: calls do not change');

CREATE TRIGGER tool_results_fixed BEFORE UPDATE ON tool_results FOR EACH ROW
EXECUTE FUNCTION refuse('T6: the first result stays');

CREATE TRIGGER ledger_fixed BEFORE UPDATE ON ledger FOR EACH ROW
EXECUTE FUNCTION refuse('E3: entries do not change');

CREATE TRIGGER ledger_stays BEFORE DELETE ON ledger FOR EACH ROW
EXECUTE FUNCTION refuse('E3: entries stay');

CREATE TRIGGER records_version_grows BEFORE UPDATE ON records FOR EACH ROW
WHEN (NEW.version <= OLD.version OR NEW.id <> OLD.id
   OR NEW.app <> OLD.app OR NEW."user" <> OLD."user" OR NEW.type <> OLD.type)
EXECUTE FUNCTION refuse('E4: a version only grows, and a record stays in its scope');

CREATE TRIGGER records_stay BEFORE DELETE ON records FOR EACH ROW
EXECUTE FUNCTION refuse('E4: a deleted record keeps its version');

CREATE TRIGGER files_version_grows BEFORE UPDATE ON files FOR EACH ROW
WHEN (NEW.version <= OLD.version OR NEW.app <> OLD.app OR NEW."user" <> OLD."user" OR NEW.path <> OLD.path)
EXECUTE FUNCTION refuse('E4: a version only grows, and a file stays in its place');

CREATE TRIGGER files_stay BEFORE DELETE ON files FOR EACH ROW
EXECUTE FUNCTION refuse('E4: a deleted file keeps its version');

CREATE TRIGGER proposals_decided_once BEFORE UPDATE OF status ON proposals FOR EACH ROW
WHEN (OLD.status <> 'open' AND NEW.status <> OLD.status)
EXECUTE FUNCTION refuse('a proposal is decided once');

CREATE TRIGGER memories_stay BEFORE UPDATE OF app, "user" ON memories FOR EACH ROW
WHEN (NEW.app <> OLD.app OR NEW."user" <> OLD."user")
EXECUTE FUNCTION refuse('M1: a memory stays in its scope');

CREATE TRIGGER memories_version_grows
BEFORE UPDATE OF text, kind, status, version, valid_from, valid_until, superseded_by ON memories FOR EACH ROW
WHEN (NEW.version <> OLD.version + 1)
EXECUTE FUNCTION refuse('M5: each change of a memory is a version of its own');

CREATE FUNCTION memories_count() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' THEN
        UPDATE memory_counts SET active = active - 1 WHERE app = OLD.app AND "user" = OLD."user";
    ELSIF NEW.status = 'active' THEN
        INSERT INTO memory_counts AS c (app, "user", active) VALUES (NEW.app, NEW."user", 1)
            ON CONFLICT (app, "user") DO UPDATE SET active = c.active + 1;
    ELSE
        INSERT INTO memory_counts AS c (app, "user", active) VALUES (NEW.app, NEW."user", 0)
            ON CONFLICT (app, "user") DO UPDATE SET active = c.active - 1;
    END IF;
    RETURN NULL;
END $$;

CREATE TRIGGER memories_count_added AFTER INSERT ON memories FOR EACH ROW
WHEN (NEW.status = 'active')
EXECUTE FUNCTION memories_count();

CREATE TRIGGER memories_count_changed AFTER UPDATE OF status ON memories FOR EACH ROW
WHEN ((OLD.status = 'active') <> (NEW.status = 'active'))
EXECUTE FUNCTION memories_count();

CREATE TRIGGER memories_count_deleted AFTER DELETE ON memories FOR EACH ROW
WHEN (OLD.status = 'active')
EXECUTE FUNCTION memories_count();

CREATE TRIGGER memory_versions_fixed BEFORE UPDATE ON memory_versions FOR EACH ROW
EXECUTE FUNCTION refuse('M5: versions do not change');

CREATE TRIGGER memory_sources_fixed BEFORE UPDATE ON memory_sources FOR EACH ROW
WHEN (NEW.memory <> OLD.memory OR NEW.at <> OLD.at
   OR NEW.thread IS NOT NULL OR NEW.message IS NOT NULL OR NEW.words IS NOT NULL)
EXECUTE FUNCTION refuse('M5: a source changes only when its conversation is deleted');

CREATE TRIGGER summaries_merged_once BEFORE UPDATE ON summaries FOR EACH ROW
WHEN (OLD.merged_into IS NOT NULL OR NEW.merged_into IS NULL OR NEW.id <> OLD.id OR NEW.thread <> OLD.thread
   OR NEW.hash <> OLD.hash OR NEW.to_seq <> OLD.to_seq OR NEW.from_seq <> OLD.from_seq)
EXECUTE FUNCTION refuse('S1: a summary is merged once, and does not change otherwise');

CREATE TRIGGER documents_stay BEFORE UPDATE OF app, "user" ON documents FOR EACH ROW
WHEN (NEW.app <> OLD.app OR NEW."user" <> OLD."user")
EXECUTE FUNCTION refuse('M1: a document stays in its scope');

CREATE FUNCTION documents_whole() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF OLD.status <> 'adding' OR OLD.deleted_at IS NOT NULL THEN
        RAISE EXCEPTION 'a document becomes ready once, and not after its deletion'
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    IF NEW.chunks <> (SELECT count(*) FROM chunks c WHERE c.document = NEW.id) THEN
        RAISE EXCEPTION 'a document is ready with all of its pieces' USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NEW;
END $$;

CREATE TRIGGER documents_whole BEFORE UPDATE OF status ON documents FOR EACH ROW
WHEN (OLD.status <> NEW.status)
EXECUTE FUNCTION documents_whole();

CREATE FUNCTION chunks_only_while_adding() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT 1 FROM documents d
                   WHERE d.id = NEW.document AND d.status = 'adding' AND d.deleted_at IS NULL) THEN
        RAISE EXCEPTION 'pieces are added before a document is ready' USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NEW;
END $$;

CREATE TRIGGER chunks_only_while_adding BEFORE INSERT ON chunks FOR EACH ROW
EXECUTE FUNCTION chunks_only_while_adding();

CREATE TRIGGER chunks_fixed BEFORE UPDATE ON chunks FOR EACH ROW
EXECUTE FUNCTION refuse('pieces do not change');

CREATE FUNCTION chunks_kept() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT 1 FROM documents d WHERE d.id = OLD.document AND d.deleted_at IS NOT NULL) THEN
        RAISE EXCEPTION 'pieces go with their document' USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN OLD;
END $$;

CREATE TRIGGER chunks_kept BEFORE DELETE ON chunks FOR EACH ROW
EXECUTE FUNCTION chunks_kept();

CREATE TRIGGER actions_undone_once BEFORE UPDATE OF undone_by ON actions FOR EACH ROW
WHEN (OLD.undone_by IS NOT NULL AND NEW.undone_by IS DISTINCT FROM OLD.undone_by)
EXECUTE FUNCTION refuse('E4: an action is undone once');

CREATE TRIGGER actions_settle BEFORE UPDATE OF status ON actions FOR EACH ROW
WHEN (OLD.status <> 'started' AND NEW.status <> OLD.status)
EXECUTE FUNCTION refuse('E1: the outcome of an action does not change');

CREATE TRIGGER runs_absorb BEFORE UPDATE OF id, thread, app, "user", message, status, model, error, input_tokens,
    output_tokens, cached_tokens, reasoning_tokens, cost, estimated, start_seq, end_seq, stop, epoch, created_at,
    ended_at ON runs FOR EACH ROW
WHEN (OLD.status IN ('completed', 'failed', 'cancelled', 'interrupted'))
EXECUTE FUNCTION refuse('R1: an ended run does not change');

CREATE TRIGGER runs_pruned BEFORE UPDATE OF pruned_at ON runs FOR EACH ROW
WHEN (OLD.pruned_at IS NOT NULL OR OLD.ended_at IS NULL)
EXECUTE FUNCTION refuse('S5: a run is pruned once, after its end');

CREATE FUNCTION events_kept() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NOT ((OLD.kind = 'text:delta' OR OLD.kind = 'reasoning:delta' OR OLD.kind = 'tool:input')
            AND EXISTS (SELECT 1 FROM runs r WHERE r.id = OLD.run AND r.ended_at IS NOT NULL))
       AND NOT EXISTS (SELECT 1 FROM threads t WHERE t.id = OLD.thread AND t.deleted_at IS NOT NULL) THEN
        RAISE EXCEPTION 'S1: events stay' USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN OLD;
END $$;

CREATE TRIGGER events_kept BEFORE DELETE ON events FOR EACH ROW
EXECUTE FUNCTION events_kept();

CREATE TRIGGER runs_stop_stays BEFORE UPDATE OF stop ON runs FOR EACH ROW
WHEN (OLD.stop IS NOT NULL AND NEW.stop IS DISTINCT FROM OLD.stop
 AND NOT (OLD.stop = 'interrupted' AND NEW.stop IS NOT DISTINCT FROM 'cancelled'))
EXECUTE FUNCTION refuse('C2: a run that was told to stop stays so');

CREATE TRIGGER runs_end_as_told BEFORE UPDATE OF status ON runs FOR EACH ROW
WHEN (OLD.stop IS NOT NULL AND NEW.status IN ('completed', 'failed', 'cancelled', 'interrupted')
 AND NEW.status <> OLD.stop)
EXECUTE FUNCTION refuse('C3: a run that was told to stop ends so');

-- Writes down anew when a line of jobs is due, and when its user is. A job has come into the line, left it or changed;
-- taken_at is when it was begun, or 0. The row of the user is written first: of two transactions that move jobs of one
-- user, the second then waits, and sees what the first has done.
CREATE FUNCTION job_moved("user" text, kind text, app text, thread bytea, taken_at bigint) RETURNS void
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    line bytea := coalesce(job_moved.thread, '\x'::bytea);
    next_at bigint;
BEGIN
    INSERT INTO job_users AS u ("user", due_at, working, served_at)
        VALUES (job_moved."user", NULL, 0, max(0, job_moved.taken_at))
        ON CONFLICT ("user") DO UPDATE SET served_at = max(u.served_at, excluded.served_at);
    -- An index finds a null only when asked for one.
    IF job_moved.thread IS NULL THEN
        SELECT run_at INTO next_at FROM jobs
            WHERE status = 'ready' AND "user" = job_moved."user" AND kind = job_moved.kind AND app = job_moved.app
                AND thread IS NULL
                AND NOT EXISTS (SELECT 1 FROM jobs w WHERE w.status = 'running' AND w."user" = job_moved."user"
                    AND w.kind = job_moved.kind AND w.app = job_moved.app AND w.thread IS NULL)
            ORDER BY run_at LIMIT 1;
    ELSE
        SELECT run_at INTO next_at FROM jobs
            WHERE status = 'ready' AND "user" = job_moved."user" AND kind = job_moved.kind AND app = job_moved.app
                AND thread = job_moved.thread
                AND NOT EXISTS (SELECT 1 FROM jobs w WHERE w.status = 'running' AND w."user" = job_moved."user"
                    AND w.kind = job_moved.kind AND w.app = job_moved.app AND w.thread = job_moved.thread)
            ORDER BY run_at LIMIT 1;
    END IF;
    IF next_at IS NULL THEN
        DELETE FROM job_lines WHERE "user" = job_moved."user" AND kind = job_moved.kind AND app = job_moved.app
            AND thread = line;
    ELSE
        INSERT INTO job_lines ("user", kind, app, thread, due_at)
            VALUES (job_moved."user", job_moved.kind, job_moved.app, line, next_at)
            ON CONFLICT ("user", kind, app, thread) DO UPDATE SET due_at = excluded.due_at;
    END IF;
    UPDATE job_users SET
            due_at = max(served_at,
                (SELECT l.due_at FROM job_lines l WHERE l."user" = job_moved."user" ORDER BY l.due_at LIMIT 1)),
            working = (SELECT count(*) FROM jobs j WHERE j.status = 'running' AND j."user" = job_moved."user")
        WHERE "user" = job_moved."user";
    DELETE FROM job_users WHERE "user" = job_moved."user" AND due_at IS NULL AND working = 0;
END $$;

CREATE FUNCTION jobs_moved() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' THEN
        PERFORM job_moved(OLD."user", OLD.kind, OLD.app, OLD.thread, 0);
    ELSIF TG_OP = 'UPDATE' AND NEW.status = 'running' THEN
        PERFORM job_moved(NEW."user", NEW.kind, NEW.app, NEW.thread, NEW.updated_at);
    ELSE
        PERFORM job_moved(NEW."user", NEW.kind, NEW.app, NEW.thread, 0);
    END IF;
    RETURN NULL;
END $$;

CREATE TRIGGER jobs_come AFTER INSERT ON jobs FOR EACH ROW
WHEN (NEW.status IN ('ready', 'running'))
EXECUTE FUNCTION jobs_moved();

CREATE TRIGGER jobs_move AFTER UPDATE OF status, run_at ON jobs FOR EACH ROW
EXECUTE FUNCTION jobs_moved();

CREATE TRIGGER jobs_go AFTER DELETE ON jobs FOR EACH ROW
WHEN (OLD.status IN ('ready', 'running'))
EXECUTE FUNCTION jobs_moved();

CREATE FUNCTION jobs_give_back() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM reservations WHERE holder = OLD.id;
    RETURN NULL;
END $$;

CREATE TRIGGER jobs_give_back AFTER DELETE ON jobs FOR EACH ROW
EXECUTE FUNCTION jobs_give_back();

CREATE FUNCTION webhook_messages_end() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM webhook_messages WHERE job = OLD.id;
    RETURN NULL;
END $$;

CREATE TRIGGER webhook_messages_end AFTER DELETE ON jobs FOR EACH ROW
WHEN (OLD.kind = 'webhook')
EXECUTE FUNCTION webhook_messages_end();

CREATE TRIGGER jobs_absorb BEFORE UPDATE OF status ON jobs FOR EACH ROW
WHEN (OLD.status IN ('done', 'dead') AND NEW.status <> OLD.status
 AND NOT (OLD.status = 'dead' AND NEW.status = 'ready' AND NEW.attempts = 0))
EXECUTE FUNCTION refuse('J2: a job is done once');

CREATE TRIGGER messages_fixed BEFORE UPDATE OF id, thread, parent, role, run, seq, created_at ON messages FOR EACH ROW
EXECUTE FUNCTION refuse('messages are inserted, never changed');

CREATE TRIGGER messages_placed_once BEFORE UPDATE OF depth, leap ON messages FOR EACH ROW
WHEN (OLD.depth IS NOT NULL)
EXECUTE FUNCTION refuse('a message keeps its place');

-- One statement finds what is wrong, and looks only as far as it must.
CREATE FUNCTION events_append() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    fault text := CASE
        WHEN NOT EXISTS (SELECT 1 FROM events e WHERE e.thread = NEW.thread AND e.seq = NEW.seq - 1)
         AND NEW.seq IS DISTINCT FROM (SELECT t.next_seq FROM threads t WHERE t.id = NEW.thread)
         AND NEW.seq - 1 IS DISTINCT FROM (SELECT d.last FROM packed_deltas d
                WHERE d.thread = NEW.thread AND d.first < NEW.seq ORDER BY d.first DESC LIMIT 1)
            THEN 'S1: the sequence has a gap'
        WHEN NEW.seq <= (SELECT d.last FROM packed_deltas d
                WHERE d.thread = NEW.thread ORDER BY d.first DESC LIMIT 1)
            THEN 'S2: a number is used twice'
        WHEN NEW.run IS NOT NULL
         AND NOT EXISTS (SELECT 1 FROM runs r WHERE r.id = NEW.run AND r.thread = NEW.thread AND r.ended_at IS NULL)
            THEN 'R4: the run has ended or is not of this thread'
    END;
BEGIN
    IF fault IS NOT NULL THEN
        RAISE EXCEPTION '%', fault USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NEW;
END $$;

CREATE TRIGGER events_append BEFORE INSERT ON events FOR EACH ROW
EXECUTE FUNCTION events_append();

CREATE FUNCTION packed_deltas_append() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    fault text := CASE
        WHEN NEW.first IS DISTINCT FROM (SELECT t.next_seq FROM threads t WHERE t.id = NEW.thread)
         AND NOT EXISTS (SELECT 1 FROM events e WHERE e.thread = NEW.thread AND e.seq = NEW.first - 1)
         AND NEW.first - 1 IS DISTINCT FROM (SELECT d.last FROM packed_deltas d
                WHERE d.thread = NEW.thread AND d.first < NEW.first ORDER BY d.first DESC LIMIT 1)
            THEN 'S1: the sequence has a gap'
        WHEN EXISTS (SELECT 1 FROM events e WHERE e.thread = NEW.thread AND e.seq >= NEW.first)
          OR EXISTS (SELECT 1 FROM packed_deltas d WHERE d.thread = NEW.thread AND d.first >= NEW.first)
            THEN 'S2: a number is used twice'
        WHEN NOT EXISTS (SELECT 1 FROM runs r WHERE r.id = NEW.run AND r.thread = NEW.thread AND r.ended_at IS NULL)
            THEN 'R4: the run has ended or is not of this thread'
    END;
BEGIN
    IF fault IS NOT NULL THEN
        RAISE EXCEPTION '%', fault USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NEW;
END $$;

CREATE TRIGGER packed_deltas_append BEFORE INSERT ON packed_deltas FOR EACH ROW
EXECUTE FUNCTION packed_deltas_append();

CREATE TRIGGER packed_deltas_fixed BEFORE UPDATE ON packed_deltas FOR EACH ROW
EXECUTE FUNCTION refuse('S1: events do not change');

CREATE FUNCTION packed_deltas_kept() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT 1 FROM runs r WHERE r.id = OLD.run AND r.ended_at IS NOT NULL AND r.pruned_at IS NULL)
       AND NOT EXISTS (SELECT 1 FROM threads t WHERE t.id = OLD.thread AND t.deleted_at IS NOT NULL) THEN
        RAISE EXCEPTION 'S1: events stay' USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN OLD;
END $$;

CREATE TRIGGER packed_deltas_kept BEFORE DELETE ON packed_deltas FOR EACH ROW
EXECUTE FUNCTION packed_deltas_kept();

CREATE FUNCTION admin_audit_append() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.number <> 1 + coalesce((SELECT max(number) FROM admin_audit), 0) THEN
        RAISE EXCEPTION 'E5: the numbers of the audit have no gap' USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NEW;
END $$;

CREATE TRIGGER admin_audit_append BEFORE INSERT ON admin_audit FOR EACH ROW
EXECUTE FUNCTION admin_audit_append();

CREATE FUNCTION admin_audit_noted() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO sqlite_sequence AS s (name, seq) VALUES ('admin_audit', NEW.number)
        ON CONFLICT (name) DO UPDATE SET seq = max(s.seq, excluded.seq);
    RETURN NULL;
END $$;

-- SQLite does it by itself.
CREATE TRIGGER admin_audit_noted AFTER INSERT ON admin_audit FOR EACH ROW
EXECUTE FUNCTION admin_audit_noted();

CREATE TRIGGER admin_audit_fixed BEFORE UPDATE ON admin_audit FOR EACH ROW
EXECUTE FUNCTION refuse('E5: entries of the audit do not change');

CREATE TRIGGER admin_audit_stays BEFORE DELETE ON admin_audit FOR EACH ROW
EXECUTE FUNCTION refuse('E5: entries of the audit stay');

CREATE TRIGGER client_calls_answered_once BEFORE UPDATE OF status ON client_calls FOR EACH ROW
WHEN (OLD.status <> 'open')
EXECUTE FUNCTION refuse('T6: a call of the client is answered once');

CREATE TRIGGER thing_versions_fixed BEFORE UPDATE ON thing_versions FOR EACH ROW
EXECUTE FUNCTION refuse('E4: versions do not change');

-- A secret of this installation.
INSERT INTO secrets (name, value)
    VALUES ('server', decode(replace(gen_random_uuid()::text || gen_random_uuid()::text, '-', ''), 'hex'));
