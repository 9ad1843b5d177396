-- Times are nanoseconds since 1970 (UTC). Identifiers are the 16 bytes of a UUID that sorts by age.

CREATE TABLE sessions (
    id          BLOB    NOT NULL PRIMARY KEY,
    revision    INTEGER NOT NULL,
    created_at  INTEGER NOT NULL,
    updated_at  INTEGER NOT NULL,
    title       TEXT,
    native      TEXT,
    forked_from BLOB
) STRICT, WITHOUT ROWID;

CREATE INDEX sessions_by_update ON sessions (updated_at);

-- Apart from the session, because it may carry a long history and hardly ever changes.
CREATE TABLE specs (
    session_id BLOB NOT NULL PRIMARY KEY REFERENCES sessions (id) ON DELETE CASCADE,
    body       TEXT NOT NULL
) STRICT;

-- Who may write to a session. The epoch only grows.
CREATE TABLE leases (
    session_id BLOB    NOT NULL PRIMARY KEY REFERENCES sessions (id) ON DELETE CASCADE,
    owner      TEXT,
    epoch      INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE external_names (
    scope      TEXT NOT NULL,
    name       TEXT NOT NULL,
    session_id BLOB NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    PRIMARY KEY (scope, name)
) STRICT, WITHOUT ROWID;

CREATE INDEX external_names_by_session ON external_names (session_id);

-- The outcome is not repeated here: it is the event that `finished_seq` names.
CREATE TABLE turns (
    id           BLOB    NOT NULL PRIMARY KEY,
    session_id   BLOB    NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    created_at   INTEGER NOT NULL,
    state        TEXT    NOT NULL,
    finished_seq INTEGER,
    origin       TEXT    NOT NULL,
    can_ask      INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX turns_by_session ON turns (session_id, id);
CREATE INDEX turns_unfinished ON turns (session_id) WHERE finished_seq IS NULL;

-- Apart from the turn, because it may hold images and never changes.
CREATE TABLE inputs (
    turn_id BLOB NOT NULL PRIMARY KEY REFERENCES turns (id) ON DELETE CASCADE,
    body    TEXT NOT NULL
) STRICT;

CREATE TABLE events (
    turn_id BLOB    NOT NULL REFERENCES turns (id) ON DELETE CASCADE,
    seq     INTEGER NOT NULL,
    at      INTEGER NOT NULL,
    format  INTEGER NOT NULL,
    kind    TEXT    NOT NULL,
    body    TEXT    NOT NULL,
    PRIMARY KEY (turn_id, seq)
) STRICT, WITHOUT ROWID;
