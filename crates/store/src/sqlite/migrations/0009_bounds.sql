-- Bounds on what grows: every statement of the writer finds its rows by an index, whatever the size of the tables.

-- Finished jobs, oldest first, for removing them.
CREATE INDEX jobs_finished ON jobs (updated_at) WHERE status IN ('done', 'dead');
