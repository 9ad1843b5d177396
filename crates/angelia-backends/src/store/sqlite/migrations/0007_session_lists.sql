-- What lists of sessions show and sort by, apart from the specification, which may be long.
ALTER TABLE sessions ADD COLUMN cwd TEXT;
ALTER TABLE sessions ADD COLUMN source TEXT;
ALTER TABLE sessions ADD COLUMN first_words TEXT;

UPDATE sessions SET cwd = (SELECT json_extract(p.body, '$.cwd.text') FROM specs p
    WHERE p.session_id = sessions.id AND json_valid(p.body));

-- From now on the start and the end of a turn update its session.
UPDATE sessions SET updated_at = max(updated_at, coalesce((
        SELECT max(t.created_at, coalesce(e.at, t.created_at))
        FROM turns t LEFT JOIN events e ON e.turn_id = t.id AND e.seq = t.finished_seq
        WHERE t.session_id = sessions.id ORDER BY t.number DESC LIMIT 1), updated_at));

-- The source as far as the name and the first turn tell it.
UPDATE sessions SET source = coalesce(
    (SELECT 'bus:' || substr(n.name, 1, instr(n.name, char(31)) - 1) FROM external_names n
        WHERE n.session_id = sessions.id AND n.scope = 'bus'),
    (SELECT CASE
            -- `key:NAME#FINGERPRINT`
            WHEN t.caller LIKE 'key:%#%' THEN substr(t.caller, 1, instr(t.caller, '#') - 1)
            WHEN t.caller LIKE 'session:%' THEN 'agent'
            WHEN t.origin = 'owner' AND t.can_park THEN 'terminal'
            WHEN t.origin = 'remote' AND EXISTS (SELECT 1 FROM external_names n
                WHERE n.session_id = sessions.id AND n.scope = 'run' AND n.name LIKE 'bridge:%')
                THEN 'bridge'
        END
        FROM turns t WHERE t.session_id = sessions.id ORDER BY t.number LIMIT 1));

CREATE INDEX sessions_by_cwd ON sessions (cwd, updated_at);
