-- Several servers share the database: each is a node with a number, and owns the runs, jobs and actions that it has under way.
CREATE TABLE nodes (
    number      bigint PRIMARY KEY,
    lease_until bigint           NOT NULL,
    joined_at   bigint           NOT NULL,
    version     text COLLATE "C" NOT NULL
);

ALTER TABLE runs ADD COLUMN owner bigint;

ALTER TABLE jobs ADD COLUMN owner bigint;

ALTER TABLE actions ADD COLUMN owner bigint;

ALTER TABLE delta_log_0 ADD COLUMN news bytea;

ALTER TABLE delta_log_1 ADD COLUMN news bytea;
