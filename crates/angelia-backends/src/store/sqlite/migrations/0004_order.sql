-- Turns are ordered by a number: their ids are times, and a clock can be set back.
ALTER TABLE turns ADD COLUMN number INTEGER NOT NULL DEFAULT 0;

UPDATE turns SET number = numbered.number
    FROM (SELECT id, row_number() OVER (ORDER BY id) AS number FROM turns) AS numbered
    WHERE numbered.id = turns.id;

CREATE INDEX turns_by_number ON turns (number);
DROP INDEX turns_by_session;
CREATE INDEX turns_by_session ON turns (session_id, number);

-- The last turn of the parent that belongs to a fork.
ALTER TABLE sessions ADD COLUMN forked_after BLOB;

UPDATE sessions SET forked_after = (
        SELECT max(t.id) FROM turns t
        WHERE t.session_id = sessions.forked_from AND t.id < sessions.id)
    WHERE forked_from IS NOT NULL;

-- Text of blocks that were not complete yet, in pieces. The complete block counts instead; the end of
-- the turn deletes them.
CREATE TABLE open_text (
    turn_id BLOB    NOT NULL REFERENCES turns (id) ON DELETE CASCADE,
    block   INTEGER NOT NULL,
    -- The number of the last delta of the piece.
    seq     INTEGER NOT NULL,
    channel TEXT    NOT NULL,
    text    TEXT    NOT NULL,
    PRIMARY KEY (turn_id, block, seq)
) STRICT, WITHOUT ROWID;

-- Something to write when somebody asks whether the store can be written. Otherwise empty.
CREATE TABLE write_checks (
    id   INTEGER NOT NULL PRIMARY KEY,
    body BLOB    NOT NULL
) STRICT;
