-- Webhooks: the message that each job of this kind delivers. It goes with its job.

CREATE TABLE webhook_messages (
    job     BLOB NOT NULL PRIMARY KEY,
    -- The name of the webhook in its app.
    webhook TEXT NOT NULL,
    body    TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TRIGGER webhook_messages_end AFTER DELETE ON jobs WHEN OLD.kind = 'webhook' BEGIN
    DELETE FROM webhook_messages WHERE job = OLD.id;
END;
