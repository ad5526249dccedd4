-- Profiles: changes that are made at once must not lose each other.
ALTER TABLE profiles ADD COLUMN version INTEGER NOT NULL DEFAULT 1;
