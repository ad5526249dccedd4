-- Bounds on what grows: every statement of the writer finds its rows by an index, whatever the size of the tables.

-- Finished jobs, oldest first, for removing them.
CREATE INDEX jobs_finished ON jobs (updated_at) WHERE status IN ('done', 'dead');

-- [C2] A request to stop is not taken back, but a run that makes room for a newer message can still be cancelled.
DROP TRIGGER runs_stop_stays;
CREATE TRIGGER runs_stop_stays BEFORE UPDATE OF stop ON runs
WHEN OLD.stop IS NOT NULL AND NEW.stop IS NOT OLD.stop
 AND NOT (OLD.stop = 'interrupted' AND NEW.stop IS 'cancelled')
BEGIN SELECT RAISE(ABORT, 'C2: a run that was told to stop stays so'); END;

-- [C3] A run that was told to stop ends so: the end is decided in the transaction that writes it.
CREATE TRIGGER runs_end_as_told BEFORE UPDATE OF status ON runs
WHEN OLD.stop IS NOT NULL AND NEW.status IN ('completed', 'failed', 'cancelled', 'interrupted')
 AND NEW.status <> OLD.stop
BEGIN SELECT RAISE(ABORT, 'C3: a run that was told to stop ends so'); END;
