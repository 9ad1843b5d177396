-- Turns of callers who are not the owner, and turns that wait for a quota.
ALTER TABLE turns ADD COLUMN can_park INTEGER NOT NULL DEFAULT 0;
ALTER TABLE turns ADD COLUMN caller TEXT;
ALTER TABLE turns ADD COLUMN max_cost_usd REAL;
ALTER TABLE turns ADD COLUMN resumes_at INTEGER;
-- Known when the turn has finished.
ALTER TABLE turns ADD COLUMN cost_usd REAL;

CREATE INDEX turns_by_caller ON turns (caller, created_at) WHERE caller IS NOT NULL;
CREATE INDEX turns_parked ON turns (session_id) WHERE state = 'parked';

-- What a conversation looked like to its caller after an answer, and where that was.
CREATE TABLE histories (
    hash    BLOB    NOT NULL,
    turn_id BLOB    NOT NULL REFERENCES turns (id) ON DELETE CASCADE,
    seq     INTEGER NOT NULL,
    at      INTEGER NOT NULL,
    PRIMARY KEY (hash, turn_id, seq)
) STRICT, WITHOUT ROWID;

CREATE INDEX histories_by_turn ON histories (turn_id);
