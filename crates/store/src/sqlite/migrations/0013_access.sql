-- Access: the rights of keys, the sessions of browsers, the audit of admins, and who spoke for a user.

-- Keys have a list of rights and may expire. `admin` is one of the rights now.
CREATE TABLE keys_with_rights (
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
INSERT INTO keys_with_rights (id, hash, user, app, rights, created_at, revoked_at, made_by, revoked_by)
    SELECT id, hash, user, app, iif(admin, 'admin,read,run', 'read,run'), created_at, revoked_at, made_by, revoked_by
        FROM keys;
DROP TABLE keys;
ALTER TABLE keys_with_rights RENAME TO keys;

CREATE INDEX keys_oldest ON keys (created_at, id);
CREATE INDEX keys_of_app ON keys (app, created_at, id) WHERE app IS NOT NULL;
CREATE INDEX keys_good ON keys (expires_at) WHERE revoked_at IS NULL;

-- Sessions of browsers. A session that was made with a key is good for as long as the key is.
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

CREATE INDEX sessions_newest ON sessions (created_at DESC, id DESC) WHERE ended_at IS NULL;
CREATE INDEX sessions_of_user ON sessions (user, created_at, id) WHERE ended_at IS NULL;
CREATE INDEX sessions_expiring ON sessions (expires_at);
CREATE INDEX sessions_ended ON sessions (ended_at) WHERE ended_at IS NOT NULL;

-- What admins did: entries that are chained by hash. SQLite notes the last number, so that a lost end is found.
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

CREATE INDEX admin_audit_of_app ON admin_audit (app, number DESC) WHERE app IS NOT NULL;

CREATE TRIGGER admin_audit_append BEFORE INSERT ON admin_audit
WHEN NEW.number <> 1 + coalesce((SELECT max(number) FROM admin_audit), 0)
BEGIN SELECT RAISE(ABORT, 'E5: the numbers of the audit have no gap'); END;

CREATE TRIGGER admin_audit_fixed BEFORE UPDATE ON admin_audit
BEGIN SELECT RAISE(ABORT, 'E5: entries of the audit do not change'); END;

CREATE TRIGGER admin_audit_stays BEFORE DELETE ON admin_audit
BEGIN SELECT RAISE(ABORT, 'E5: entries of the audit stay'); END;

-- The holder of the acting key that spoke for the user.
ALTER TABLE runs ADD COLUMN actor TEXT;
ALTER TABLE actions ADD COLUMN actor TEXT;
