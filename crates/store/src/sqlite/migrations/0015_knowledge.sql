-- Documents of apps: they have no user, and the hash of the file that they were made of. Uploads have none.
ALTER TABLE documents ADD COLUMN hash BLOB CHECK (hash IS NULL OR length(hash) = 32);

CREATE UNIQUE INDEX documents_of_apps ON documents (app, name)
    WHERE user = '' AND status = 'ready' AND deleted_at IS NULL;
