-- What a turn used. A row is added when an agent starts on a turn, and stays when the session is
-- deleted: it holds no words.
CREATE TABLE usage (
    turn_id            BLOB    NOT NULL PRIMARY KEY,
    session_id         BLOB    REFERENCES sessions (id) ON DELETE SET NULL,
    at                 INTEGER NOT NULL,
    profile            TEXT    NOT NULL,
    executor           TEXT    NOT NULL,
    model              TEXT,
    caller             TEXT,
    lane               TEXT,
    input_tokens       INTEGER NOT NULL DEFAULT 0,
    output_tokens      INTEGER NOT NULL DEFAULT 0,
    cache_read_tokens  INTEGER NOT NULL DEFAULT 0,
    cache_write_tokens INTEGER NOT NULL DEFAULT 0,
    cost_usd           REAL
) STRICT, WITHOUT ROWID;

CREATE INDEX usage_by_time ON usage (at);
CREATE INDEX usage_by_session ON usage (session_id) WHERE session_id IS NOT NULL;

INSERT INTO usage
    SELECT id, session_id, created_at, started ->> '$.profile', started ->> '$.executor',
        started ->> '$.model', caller, used ->> '$.lane', min(CAST(coalesce(used ->> '$.input', 0) AS INTEGER), 1 << 50),
        min(CAST(coalesce(used ->> '$.output', 0) AS INTEGER), 1 << 50), min(CAST(coalesce(used ->> '$.cache_read', 0) AS INTEGER), 1 << 50),
        min(CAST(coalesce(used ->> '$.cache_write', 0) AS INTEGER), 1 << 50), used ->> '$.cost_usd'
    FROM (SELECT t.id, t.session_id, t.created_at, t.caller,
            (SELECT s.body FROM events s WHERE s.turn_id = t.id AND s.kind = 'started'
                ORDER BY s.seq LIMIT 1) AS started,
            json_extract(CASE WHEN json_valid(e.body) THEN e.body ELSE '{}' END, '$.usage') AS used
        FROM turns t LEFT JOIN events e ON e.turn_id = t.id AND e.seq = t.finished_seq)
    WHERE json_valid(started) AND started ->> '$.profile' IS NOT NULL
        AND started ->> '$.executor' IS NOT NULL
    ON CONFLICT DO NOTHING;

-- The newest report of each quota.
CREATE TABLE quotas (
    executor    TEXT    NOT NULL,
    window      TEXT    NOT NULL,
    used        REAL,
    exhausted   INTEGER NOT NULL,
    resets_at   INTEGER,
    reported_at INTEGER NOT NULL,
    PRIMARY KEY (executor, window)
) STRICT, WITHOUT ROWID;

-- What was said, for the search. The text itself is in `words`, under the same id.
CREATE TABLE texts (
    id      INTEGER NOT NULL PRIMARY KEY,
    turn_id BLOB    NOT NULL REFERENCES turns (id) ON DELETE CASCADE,
    speaker TEXT    NOT NULL
) STRICT;

CREATE INDEX texts_by_turn ON texts (turn_id);

-- Without positions, because a match is checked on the text anyway.
CREATE VIRTUAL TABLE words USING fts5 (text, tokenize = 'trigram', detail = 'none');

-- One row. `has_deleted`: the index still has trigrams of deleted texts.
CREATE TABLE search_state (
    id          INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
    has_deleted INTEGER NOT NULL
) STRICT;

INSERT INTO search_state (id, has_deleted) VALUES (1, 0);

CREATE TRIGGER texts_are_deleted AFTER DELETE ON texts
BEGIN
    DELETE FROM words WHERE rowid = old.id;
    UPDATE search_state SET has_deleted = 1 WHERE has_deleted = 0;
END;

-- Finished turns are indexed later, also those from before this table.
ALTER TABLE turns ADD COLUMN is_indexed INTEGER NOT NULL DEFAULT 0;

CREATE INDEX turns_to_index ON turns (number) WHERE is_indexed = 0 AND finished_seq IS NOT NULL;
