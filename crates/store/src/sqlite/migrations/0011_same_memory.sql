-- What a memory says, whatever its case and punctuation, as a hash: so that of two requests at the same moment the second
-- finds the first. Those from before have none, and are found by their words before anything is written.
ALTER TABLE memories ADD COLUMN same BLOB CHECK (same IS NULL OR length(same) = 16);

CREATE INDEX memories_same ON memories (app, user, same) WHERE status = 'active';
