-- Requests that must run once. Whoever comes again with the same key gets the same turn.
CREATE TABLE claims (
    caller    TEXT    NOT NULL,
    key       TEXT    NOT NULL,
    input     BLOB    NOT NULL,
    turn_id   BLOB    NOT NULL REFERENCES turns (id) ON DELETE CASCADE,
    made_at   INTEGER NOT NULL,
    -- When the window it was made with is over; windows differ.
    forget_at INTEGER NOT NULL,
    PRIMARY KEY (caller, key)
) STRICT, WITHOUT ROWID;

CREATE INDEX claims_by_turn ON claims (turn_id);
CREATE INDEX claims_to_forget ON claims (forget_at);

-- What was asked of people, and by whom it was decided. The question itself is not repeated here:
-- it is the event that `asked_seq` names.
CREATE TABLE approvals (
    id         BLOB    NOT NULL PRIMARY KEY,
    session_id BLOB    NOT NULL,
    turn_id    BLOB    NOT NULL REFERENCES turns (id) ON DELETE CASCADE,
    asked_seq  INTEGER NOT NULL,
    asked_at   INTEGER NOT NULL,
    decided_at INTEGER,
    verdict    TEXT,
    decided_by TEXT
) STRICT, WITHOUT ROWID;

CREATE INDEX approvals_by_turn ON approvals (turn_id);
CREATE INDEX approvals_pending ON approvals (id) WHERE decided_at IS NULL;
