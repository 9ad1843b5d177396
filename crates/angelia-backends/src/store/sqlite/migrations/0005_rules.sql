-- What a person allowed for good, for a profile in a directory. Either a tool with exactly this
-- subject, or a pattern.
CREATE TABLE rules (
    id         BLOB    PRIMARY KEY NOT NULL,
    profile    TEXT    NOT NULL,
    cwd        TEXT    NOT NULL,
    tool       TEXT,
    subject    TEXT,
    pattern    TEXT,
    created_at INTEGER NOT NULL,
    granted_by TEXT    NOT NULL,
    CHECK ((pattern IS NULL) = (tool IS NOT NULL AND subject IS NOT NULL))
) STRICT;
