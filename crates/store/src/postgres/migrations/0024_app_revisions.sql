-- Revisions of apps: a run that another process continues has the app that it began with.
CREATE TABLE app_revisions (
    app       text COLLATE "C" NOT NULL,
    revision  text COLLATE "C" NOT NULL,
    served_at bigint           NOT NULL,
    files     bytea            NOT NULL,
    PRIMARY KEY (app, revision)
);
