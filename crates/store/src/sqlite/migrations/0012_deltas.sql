-- Deltas have a place of their own, because a row for each token in the log of its thread wrote several pages.

-- Deltas as they are committed, of all threads together: one row for each commit, in the one of two tables whose turn it
-- is. Nobody reads them but the next start after a crash. The older table is emptied as a whole every half minute.
CREATE TABLE delta_log_0 (number INTEGER PRIMARY KEY, body BLOB NOT NULL) STRICT;
CREATE TABLE delta_log_1 (number INTEGER PRIMARY KEY, body BLOB NOT NULL) STRICT;

-- Deltas of one run that have the numbers from `first` to `last`, packed. They come here before the next event of their
-- thread is recorded.
CREATE TABLE packed_deltas (
    thread BLOB    NOT NULL,
    first  INTEGER NOT NULL,
    last   INTEGER NOT NULL CHECK (last >= first),
    run    BLOB    NOT NULL,
    at     INTEGER NOT NULL,
    body   BLOB    NOT NULL,
    PRIMARY KEY (thread, first)
) STRICT, WITHOUT ROWID;

-- [S1, S2, R4] No gap, no reuse, and nothing after run:end.
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

-- Deltas of ended runs may be pruned, and a deleted thread purged; nothing else goes.
CREATE TRIGGER packed_deltas_kept BEFORE DELETE ON packed_deltas
WHEN NOT EXISTS (SELECT 1 FROM runs r WHERE r.id = OLD.run AND r.ended_at IS NOT NULL AND r.pruned_at IS NULL)
 AND NOT EXISTS (SELECT 1 FROM threads t WHERE t.id = OLD.thread AND t.deleted_at IS NOT NULL)
BEGIN SELECT RAISE(ABORT, 'S1: events stay'); END;

-- [S1, S2, R4] An event follows the event before it, or packed deltas.
DROP TRIGGER events_append;
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
