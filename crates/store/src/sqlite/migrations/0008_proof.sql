-- What a log may leave out, and what is known of how its last owner ended.

-- When the deltas of an ended run were pruned.
ALTER TABLE runs ADD COLUMN pruned_at INTEGER;

CREATE INDEX runs_to_prune ON runs (ended_at) WHERE ended_at IS NOT NULL AND pruned_at IS NULL;

-- [R1] Terminal states absorb: of an ended run nothing changes but that its deltas go, once.
DROP TRIGGER runs_absorb;
CREATE TRIGGER runs_absorb BEFORE UPDATE OF id, thread, app, user, message, status, model, error, input_tokens,
    output_tokens, cached_tokens, reasoning_tokens, cost, estimated, start_seq, end_seq, stop, epoch, created_at,
    ended_at ON runs
WHEN OLD.status IN ('completed', 'failed', 'cancelled', 'interrupted')
BEGIN SELECT RAISE(ABORT, 'R1: an ended run does not change'); END;

CREATE TRIGGER runs_pruned BEFORE UPDATE OF pruned_at ON runs
WHEN OLD.pruned_at IS NOT NULL OR OLD.ended_at IS NULL
BEGIN SELECT RAISE(ABORT, 'S5: a run is pruned once, after its end'); END;

-- Deltas of ended runs may be pruned, and a deleted thread purged; nothing else goes. As before, but pruning asks once a
-- row. (A list after IN would build a table in memory for every one.)
DROP TRIGGER events_kept;
CREATE TRIGGER events_kept BEFORE DELETE ON events
WHEN NOT ((OLD.kind = 'text:delta' OR OLD.kind = 'reasoning:delta' OR OLD.kind = 'tool:input')
          AND EXISTS (SELECT 1 FROM runs r WHERE r.id = OLD.run AND r.ended_at IS NOT NULL))
 AND NOT EXISTS (SELECT 1 FROM threads t WHERE t.id = OLD.thread AND t.deleted_at IS NOT NULL)
BEGIN SELECT RAISE(ABORT, 'S1: events stay'); END;

-- [S1, D1] Numbers that were left out of a thread's sequence, because events that had them may have been seen and lost.
CREATE TABLE skipped (
    thread BLOB    NOT NULL REFERENCES threads (id),
    first  INTEGER NOT NULL,
    last   INTEGER NOT NULL CHECK (last >= first),
    reason TEXT    NOT NULL CHECK (reason IN ('power loss', 'restored')),
    at     INTEGER NOT NULL,
    PRIMARY KEY (thread, first)
) STRICT, WITHOUT ROWID;

-- What is known of the database as a whole: under which start of the machine it was last open ('boot'), and whether it
-- is a copy ('restored').
CREATE TABLE state (
    name  TEXT NOT NULL PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;
