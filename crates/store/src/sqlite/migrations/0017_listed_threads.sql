-- Threads that are pinned or archived.
ALTER TABLE threads ADD COLUMN pinned INTEGER NOT NULL DEFAULT 0 CHECK (pinned IN (0, 1));
ALTER TABLE threads ADD COLUMN archived INTEGER NOT NULL DEFAULT 0 CHECK (archived IN (0, 1));

-- A list finds its threads in the index alone: archived ones apart, and whether each is pinned.
DROP INDEX threads_newest;
CREATE INDEX threads_listed ON threads (app, user, archived, updated_at DESC, id DESC, pinned) WHERE deleted_at IS NULL;
