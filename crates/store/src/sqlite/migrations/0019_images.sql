-- Images of messages: stored once for each content that a user has in an app, and kept while a message shows them.

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

CREATE UNIQUE INDEX images_by_content ON images (app, user, hash);
CREATE INDEX images_newest ON images (app, user, created_at DESC, id DESC);
CREATE INDEX images_unused ON images (unused_since) WHERE unused_since IS NOT NULL;

-- Apart from what is said of them, so that no list reads them.
CREATE TABLE image_contents (
    image   BLOB NOT NULL PRIMARY KEY REFERENCES images (id),
    content BLOB NOT NULL
) STRICT;

-- The messages that show an image. A message that waits in a queue shows it, too.
CREATE TABLE image_uses (
    image   BLOB NOT NULL REFERENCES images (id),
    message BLOB NOT NULL,
    thread  BLOB NOT NULL REFERENCES threads (id),
    PRIMARY KEY (image, message)
) STRICT, WITHOUT ROWID;

CREATE INDEX image_uses_of_thread ON image_uses (thread);
CREATE INDEX image_uses_of_message ON image_uses (message);
