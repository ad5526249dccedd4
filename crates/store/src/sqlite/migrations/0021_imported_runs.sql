-- Runs that were made elsewhere: nothing of them was called or paid for here.
ALTER TABLE runs ADD COLUMN imported INTEGER NOT NULL DEFAULT 0 CHECK (imported IN (0, 1));
