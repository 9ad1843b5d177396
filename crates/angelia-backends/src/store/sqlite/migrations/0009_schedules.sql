-- Turns that begin by themselves.
CREATE TABLE schedules (
    id           BLOB    NOT NULL PRIMARY KEY,
    spec         TEXT    NOT NULL,
    zone         TEXT,
    prompt       TEXT    NOT NULL,
    profile      TEXT,
    session      TEXT,
    cwd          TEXT,
    caller_cwd   TEXT,
    target       TEXT,
    missed       TEXT    NOT NULL,
    overlap      TEXT    NOT NULL,
    paused       INTEGER NOT NULL,
    created_at   INTEGER NOT NULL,
    active_since INTEGER NOT NULL,
    next_at      INTEGER
) STRICT, WITHOUT ROWID;

-- The times that a schedule was due. A row is the claim of its time: there is one for each.
CREATE TABLE occurrences (
    schedule_id  BLOB    NOT NULL REFERENCES schedules (id) ON DELETE CASCADE,
    due_at       INTEGER NOT NULL,
    claimed_at   INTEGER NOT NULL,
    ended_at     INTEGER,
    missed_since INTEGER,
    skipped      INTEGER NOT NULL,
    turn_id      BLOB,
    status       TEXT    NOT NULL,
    note         TEXT,
    PRIMARY KEY (schedule_id, due_at)
) STRICT, WITHOUT ROWID;
