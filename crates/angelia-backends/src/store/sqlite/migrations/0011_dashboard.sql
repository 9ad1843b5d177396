-- What lists of sessions filter by and show, apart from the specification and the turns.
ALTER TABLE sessions ADD COLUMN profile TEXT;
ALTER TABLE sessions ADD COLUMN executor TEXT;
ALTER TABLE sessions ADD COLUMN turns INTEGER NOT NULL DEFAULT 0;
ALTER TABLE sessions ADD COLUMN cost_usd REAL;

UPDATE sessions SET
    turns = (SELECT count(*) FROM turns t WHERE t.session_id = sessions.id),
    cost_usd = (SELECT sum(t.cost_usd) FROM turns t WHERE t.session_id = sessions.id);

UPDATE sessions SET profile = p.body ->> '$.profile', executor = p.body ->> '$.executor'
    FROM specs p WHERE p.session_id = sessions.id AND json_valid(p.body);

-- How a finished turn ended, which is otherwise only in its last event.
ALTER TABLE turns ADD COLUMN status TEXT;

UPDATE turns SET status = e.body ->> '$.status'
    FROM events e WHERE e.turn_id = turns.id AND e.seq = turns.finished_seq AND json_valid(e.body);

-- `prefix`: the hash of all that precedes the conversation. `cold`: why the turn found nothing in
-- the cache. `is_final`: the row does not change any more, and is part of `usage_quarters`.
ALTER TABLE usage ADD COLUMN prefix TEXT;
ALTER TABLE usage ADD COLUMN cold TEXT;
ALTER TABLE usage ADD COLUMN is_final INTEGER NOT NULL DEFAULT 0;

UPDATE usage SET prefix = e.body ->> '$.usage.prefix_sha256'
    FROM turns t JOIN events e ON e.turn_id = t.id AND e.seq = t.finished_seq
    WHERE t.id = usage.turn_id AND json_valid(e.body);

UPDATE usage SET is_final = 1 WHERE NOT EXISTS
    (SELECT 1 FROM turns t WHERE t.id = usage.turn_id AND t.finished_seq IS NULL);

UPDATE usage SET cold = CASE
        WHEN earlier.turn_id IS NULL THEN 'new_session'
        WHEN earlier.model IS NOT usage.model THEN 'model_changed'
        WHEN earlier.prefix IS NOT usage.prefix THEN 'prefix_changed'
        ELSE 'expired' END
    FROM (SELECT u.turn_id AS id, lag(u.turn_id) OVER own AS turn_id, lag(u.model) OVER own AS model,
            lag(u.prefix) OVER own AS prefix
        FROM usage u WINDOW own AS (PARTITION BY u.session_id ORDER BY u.turn_id)) AS earlier
    WHERE earlier.id = usage.turn_id AND usage.is_final = 1 AND usage.session_id IS NOT NULL
        AND usage.cache_read_tokens = 0 AND usage.input_tokens + usage.cache_write_tokens >= 1024;

CREATE INDEX usage_running ON usage (at) WHERE is_final = 0;
CREATE INDEX usage_cold ON usage (at) WHERE cold IS NOT NULL;

-- What finished turns used in each quarter of an hour, so that a report does not depend on the number
-- of turns. A quarter, because some time zones are not whole hours apart. Empty words stand for
-- nothing: a key cannot be NULL.
CREATE TABLE usage_quarters (
    -- Seconds since 1970, a multiple of 900.
    start              INTEGER NOT NULL,
    profile            TEXT    NOT NULL,
    executor           TEXT    NOT NULL,
    model              TEXT    NOT NULL,
    caller             TEXT    NOT NULL,
    lane               TEXT    NOT NULL,
    turns              INTEGER NOT NULL,
    input_tokens       INTEGER NOT NULL,
    output_tokens      INTEGER NOT NULL,
    cache_read_tokens  INTEGER NOT NULL,
    cache_write_tokens INTEGER NOT NULL,
    cost_usd           REAL,
    cold_starts        INTEGER NOT NULL,
    PRIMARY KEY (start, profile, executor, model, caller, lane)
) STRICT, WITHOUT ROWID;

INSERT INTO usage_quarters
    SELECT at / 1000000000 / 900 * 900, profile, executor, coalesce(model, ''),
        coalesce(caller, ''), coalesce(lane, ''), count(*), sum(input_tokens), sum(output_tokens),
        sum(cache_read_tokens), sum(cache_write_tokens), sum(cost_usd), count(cold)
    FROM usage WHERE is_final = 1 GROUP BY 1, 2, 3, 4, 5, 6;

-- Browsers that the owner has signed in with. The token itself is only in the browser.
CREATE TABLE browsers (
    id         BLOB    NOT NULL PRIMARY KEY,
    sha256     BLOB    NOT NULL,
    name       TEXT    NOT NULL,
    created_at INTEGER NOT NULL,
    used_at    INTEGER NOT NULL,
    expires_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
