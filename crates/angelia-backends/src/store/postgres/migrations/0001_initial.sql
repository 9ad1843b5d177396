-- Times are nanoseconds since 1970 (UTC), except those of owners, which only the server's clock decides.
-- Text of people and agents is bytea: text refuses NUL. A long key is unique by its hash: an index entry is short.

CREATE TABLE machines (
    id        text        NOT NULL PRIMARY KEY,
    name      bytea       NOT NULL,
    joined_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- One row per process that writes: its heartbeat, its fence and its ledger. `batch` and `single` are the last
-- committed attempts of its two connections.
CREATE TABLE owners (
    id      text        NOT NULL PRIMARY KEY,
    machine text        NOT NULL REFERENCES machines (id),
    pid     bigint      NOT NULL,
    command text        NOT NULL,
    batch   bigint      NOT NULL DEFAULT 0,
    single  bigint      NOT NULL DEFAULT 0,
    seen_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- Set by whoever takes its sessions over, and by itself at its end.
    dead_at timestamptz
) WITH (fillfactor = 50);

CREATE TABLE sessions (
    id           uuid   NOT NULL PRIMARY KEY,
    revision     bigint NOT NULL,
    created_at   bigint NOT NULL,
    updated_at   bigint NOT NULL,
    title        bytea,
    native       bytea,
    forked_from  uuid,
    forked_after uuid,
    source       bytea,
    cwd          bytea,
    profile      bytea,
    executor     bytea,
    first_words  bytea,
    turns        bigint NOT NULL DEFAULT 0,
    cost_usd     double precision
) WITH (fillfactor = 80);

CREATE INDEX sessions_by_update ON sessions (updated_at, id);

-- Apart from the session, because it may carry a long history and hardly ever changes.
CREATE TABLE specs (
    session_id uuid  NOT NULL PRIMARY KEY REFERENCES sessions (id) ON DELETE CASCADE,
    body       bytea NOT NULL
);

-- Who may write to a session. The epoch only grows.
CREATE TABLE leases (
    session_id uuid   NOT NULL PRIMARY KEY REFERENCES sessions (id) ON DELETE CASCADE,
    owner      text,
    epoch      bigint NOT NULL
) WITH (fillfactor = 50);

CREATE TABLE external_names (
    scope      bytea NOT NULL,
    name       bytea NOT NULL,
    session_id uuid  NOT NULL REFERENCES sessions (id) ON DELETE CASCADE
);

CREATE UNIQUE INDEX external_names_by_name ON external_names (sha256(scope), sha256(name));
CREATE INDEX external_names_by_session ON external_names (session_id);

-- The outcome is not repeated here: it is the event that `finished_seq` names.
CREATE TABLE turns (
    id           uuid    NOT NULL PRIMARY KEY,
    session_id   uuid    NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    -- Orders turns: their ids are times, and a clock can be set back.
    number       bigint  NOT NULL GENERATED ALWAYS AS IDENTITY,
    created_at   bigint  NOT NULL,
    state        text    NOT NULL,
    status       text,
    finished_seq bigint,
    origin       text    NOT NULL,
    can_ask      boolean NOT NULL,
    can_park     boolean NOT NULL,
    caller       bytea,
    charged_to   bytea,
    max_cost_usd double precision,
    tool_choice  bytea,
    resumes_at   bigint,
    cost_usd     double precision,
    is_indexed   boolean NOT NULL DEFAULT false
) WITH (fillfactor = 80);

CREATE UNIQUE INDEX turns_by_number ON turns (number);
CREATE INDEX turns_by_session ON turns (session_id, number);
CREATE INDEX turns_unfinished ON turns (session_id) WHERE finished_seq IS NULL;
CREATE INDEX turns_to_index ON turns (number) WHERE NOT is_indexed AND finished_seq IS NOT NULL;
CREATE INDEX turns_by_caller ON turns (sha256(caller), created_at) WHERE caller IS NOT NULL;
CREATE INDEX turns_by_charged_to ON turns (sha256(charged_to), created_at) WHERE charged_to IS NOT NULL;

-- Apart from the turn, because it may hold images and never changes.
CREATE TABLE inputs (
    turn_id uuid  NOT NULL PRIMARY KEY REFERENCES turns (id) ON DELETE CASCADE,
    body    bytea NOT NULL
);

-- No reference to the turn: `append_events` has just read it, and a check of every row costs as much as the row.
CREATE TABLE events (
    turn_id uuid     NOT NULL,
    seq     bigint   NOT NULL,
    at      bigint   NOT NULL,
    format  smallint NOT NULL,
    kind    text     NOT NULL,
    body    bytea    NOT NULL,
    PRIMARY KEY (turn_id, seq)
);

CREATE TABLE open_text (
    turn_id uuid   NOT NULL REFERENCES turns (id) ON DELETE CASCADE,
    block   bigint NOT NULL,
    -- The number of the last delta of the piece.
    seq     bigint NOT NULL,
    channel text   NOT NULL,
    text    bytea  NOT NULL,
    PRIMARY KEY (turn_id, block, seq)
);

-- Requests that must run once. The claim is written before its turn, so that a second one waits for the first.
CREATE TABLE claims (
    caller    bytea  NOT NULL,
    key       bytea  NOT NULL,
    input     bytea  NOT NULL,
    turn_id   uuid   NOT NULL,
    made_at   bigint NOT NULL,
    forget_at bigint NOT NULL
);

CREATE UNIQUE INDEX claims_by_key ON claims (sha256(caller), sha256(key));
CREATE INDEX claims_by_turn ON claims (turn_id);
CREATE INDEX claims_to_forget ON claims (forget_at);

-- What was asked of people. The question itself is the event that `asked_seq` names.
CREATE TABLE approvals (
    id         uuid   NOT NULL PRIMARY KEY,
    session_id uuid   NOT NULL,
    turn_id    uuid   NOT NULL REFERENCES turns (id) ON DELETE CASCADE,
    asked_seq  bigint NOT NULL,
    asked_at   bigint NOT NULL,
    decided_at bigint,
    verdict    text,
    decided_by bytea
);

CREATE INDEX approvals_by_turn ON approvals (turn_id);
CREATE INDEX approvals_pending ON approvals (id) WHERE decided_at IS NULL;

-- What a conversation looked like to its caller after an answer, and where that was.
CREATE TABLE histories (
    hash    bytea  NOT NULL,
    turn_id uuid   NOT NULL REFERENCES turns (id) ON DELETE CASCADE,
    seq     bigint NOT NULL,
    at      bigint NOT NULL,
    PRIMARY KEY (hash, turn_id, seq)
);

CREATE INDEX histories_by_turn ON histories (turn_id);

-- What a person allowed for good: either a tool with exactly this subject, or a pattern.
CREATE TABLE rules (
    id         uuid   NOT NULL PRIMARY KEY,
    profile    bytea  NOT NULL,
    cwd        bytea  NOT NULL,
    tool       bytea,
    subject    bytea,
    pattern    bytea,
    created_at bigint NOT NULL,
    granted_by bytea  NOT NULL,
    CHECK ((pattern IS NULL) = (tool IS NOT NULL AND subject IS NOT NULL))
);

-- Who has decided, changed, deleted or exposed something. Rows are only ever added.
CREATE TABLE audit (
    number  bigint NOT NULL GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at      bigint NOT NULL,
    actor   bytea  NOT NULL,
    action  text   NOT NULL,
    subject bytea  NOT NULL
);

-- What a turn used. The row stays when the session is deleted: it holds no words.
CREATE TABLE usage (
    turn_id            uuid    NOT NULL PRIMARY KEY,
    session_id         uuid    REFERENCES sessions (id) ON DELETE SET NULL,
    at                 bigint  NOT NULL,
    profile            bytea   NOT NULL,
    executor           bytea   NOT NULL,
    model              bytea,
    caller             bytea,
    lane               bytea,
    input_tokens       bigint  NOT NULL DEFAULT 0,
    output_tokens      bigint  NOT NULL DEFAULT 0,
    cache_read_tokens  bigint  NOT NULL DEFAULT 0,
    cache_write_tokens bigint  NOT NULL DEFAULT 0,
    cost_usd           double precision,
    -- The hash of all that precedes the conversation, and why the turn found nothing in the cache.
    prefix             bytea,
    cold               text
);

CREATE INDEX usage_by_time ON usage (at);
CREATE INDEX usage_by_session ON usage (session_id, turn_id) WHERE session_id IS NOT NULL;
CREATE INDEX usage_cold ON usage (at) WHERE cold IS NOT NULL;

CREATE TABLE quotas (
    executor    bytea   NOT NULL,
    "window"    bytea   NOT NULL,
    used        double precision,
    exhausted   boolean NOT NULL,
    resets_at   bigint,
    reported_at bigint  NOT NULL,
    PRIMARY KEY (executor, "window")
);

-- What was said, for the search; `folded` is in lower case.
CREATE TABLE texts (
    turn_id uuid   NOT NULL REFERENCES turns (id) ON DELETE CASCADE,
    -- That of the turn, so that the newest are found first.
    number  bigint NOT NULL,
    speaker text   NOT NULL,
    text    bytea  NOT NULL,
    folded  bytea  NOT NULL,
    PRIMARY KEY (turn_id, speaker)
);

CREATE INDEX texts_by_number ON texts (number, speaker);

CREATE TABLE schedules (
    id           uuid    NOT NULL PRIMARY KEY,
    spec         bytea   NOT NULL,
    zone         text,
    prompt       bytea   NOT NULL,
    profile      bytea,
    session      bytea,
    cwd          bytea,
    caller_cwd   bytea,
    target       bytea,
    missed       text    NOT NULL,
    overlap      text    NOT NULL,
    paused       boolean NOT NULL,
    created_at   bigint  NOT NULL,
    active_since bigint  NOT NULL,
    next_at      bigint
);

-- The times that a schedule was due. A row is the claim of its time: there is one for each.
CREATE TABLE occurrences (
    schedule_id  uuid   NOT NULL REFERENCES schedules (id) ON DELETE CASCADE,
    due_at       bigint NOT NULL,
    claimed_at   bigint NOT NULL,
    ended_at     bigint,
    missed_since bigint,
    skipped      bigint NOT NULL,
    turn_id      uuid,
    status       text   NOT NULL,
    note         bytea,
    PRIMARY KEY (schedule_id, due_at)
);

-- Browsers that the owner has signed in with. The token itself is only in the browser.
CREATE TABLE browsers (
    id         uuid   NOT NULL PRIMARY KEY,
    sha256     bytea  NOT NULL,
    name       bytea  NOT NULL,
    created_at bigint NOT NULL,
    used_at    bigint NOT NULL,
    expires_at bigint NOT NULL
);

-- Something to write when somebody asks whether the store can be written. Otherwise empty.
CREATE TABLE write_checks (
    body bytea NOT NULL
);

-- The checks of writes that are sent in one go. An error ends the whole transaction, and its code says why.
CREATE FUNCTION refuse_unless(is_allowed boolean, code text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF is_allowed IS NOT TRUE THEN
        RAISE EXCEPTION 'refused' USING ERRCODE = code;
    END IF;
END $$;

CREATE FUNCTION audit_is_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the audit is append-only';
END $$;

CREATE TRIGGER audit_is_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON audit
    FOR EACH STATEMENT EXECUTE FUNCTION audit_is_append_only();

-- Begins a transaction of an owner: locks its row, and moves its ledger from one number to the next. ANG01: it was
-- marked dead, or the ledger is elsewhere.
CREATE FUNCTION enter_group(me text, before bigint, next bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    UPDATE owners SET batch = next, seen_at = clock_timestamp()
        WHERE id = me AND batch = before AND dead_at IS NULL;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'fenced' USING ERRCODE = 'ANG01';
    END IF;
END $$;

CREATE FUNCTION enter_alone(me text, before bigint, next bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    UPDATE owners SET single = next, seen_at = clock_timestamp()
        WHERE id = me AND single = before AND dead_at IS NULL;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'fenced' USING ERRCODE = 'ANG01';
    END IF;
END $$;

-- ANG02: the lease is lost. ANG03: there is no such session.
CREATE FUNCTION check_lease(me text, session uuid, lease_epoch bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    found_owner text;
    found_epoch bigint;
BEGIN
    SELECT l.owner, l.epoch INTO found_owner, found_epoch FROM leases l WHERE l.session_id = session;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'no session' USING ERRCODE = 'ANG03';
    END IF;
    IF found_owner IS DISTINCT FROM me OR found_epoch <> lease_epoch THEN
        RAISE EXCEPTION 'lease lost' USING ERRCODE = 'ANG02';
    END IF;
END $$;

-- ANG04: there is no such turn. ANG05: it has finished.
CREATE FUNCTION check_open_turn(me text, session uuid, lease_epoch bigint, turn uuid) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    found_owner text;
    found_epoch bigint;
    is_finished boolean;
BEGIN
    SELECT l.owner, l.epoch, t.finished_seq IS NOT NULL INTO found_owner, found_epoch, is_finished
        FROM turns t JOIN leases l ON l.session_id = t.session_id
        WHERE t.id = turn AND t.session_id = session;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'no turn' USING ERRCODE = 'ANG04';
    END IF;
    IF found_owner IS DISTINCT FROM me OR found_epoch <> lease_epoch THEN
        RAISE EXCEPTION 'lease lost' USING ERRCODE = 'ANG02';
    END IF;
    IF is_finished THEN
        RAISE EXCEPTION 'finished' USING ERRCODE = 'ANG05';
    END IF;
END $$;

-- ANG06, ANG07: the event with the number in the message is recorded already, or is not.
CREATE FUNCTION append_events(me text, session uuid, lease_epoch bigint, turn uuid, earlier bigint[],
    seqs bigint[], times bigint[], event_format smallint, kinds text[], bodies bytea[]) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    missing bigint;
    known bigint;
BEGIN
    IF cardinality(earlier) > 0 THEN
        SELECT e.wanted INTO missing FROM unnest(earlier) AS e (wanted)
            WHERE NOT EXISTS (SELECT 1 FROM events WHERE turn_id = turn AND seq = e.wanted) LIMIT 1;
        IF FOUND THEN
            RAISE EXCEPTION '%', missing USING ERRCODE = 'ANG07';
        END IF;
    END IF;
    PERFORM check_open_turn(me, session, lease_epoch, turn);
    -- Before the insertion, which sees its own rows.
    SELECT n.seq INTO known FROM unnest(seqs) WITH ORDINALITY AS n (seq, place)
        WHERE n.place > array_position(seqs, n.seq)
            OR EXISTS (SELECT 1 FROM events e WHERE e.turn_id = turn AND e.seq = n.seq)
        ORDER BY n.place LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION '%', known USING ERRCODE = 'ANG06';
    END IF;
    INSERT INTO events (turn_id, seq, at, format, kind, body)
        SELECT turn, n.seq, n.at, event_format, n.kind, n.body
        FROM unnest(seqs, times, kinds, bodies) AS n (seq, at, kind, body);
END $$;

-- Notes why a finished turn found nothing in the model's cache; `is_cold` is decided by the caller.
CREATE FUNCTION finish_usage(turn uuid, new_prefix bytea, is_cold boolean) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    own usage;
    earlier usage;
    reason text;
BEGIN
    SELECT * INTO own FROM usage WHERE turn_id = turn;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    IF is_cold THEN
        SELECT * INTO earlier FROM usage u WHERE u.session_id = own.session_id AND u.turn_id < turn
            ORDER BY u.turn_id DESC LIMIT 1;
        reason := CASE
            WHEN NOT FOUND THEN 'new_session'
            WHEN earlier.model IS DISTINCT FROM own.model THEN 'model_changed'
            WHEN earlier.prefix IS DISTINCT FROM new_prefix THEN 'prefix_changed'
            ELSE 'expired' END;
    END IF;
    UPDATE usage SET prefix = new_prefix, cold = reason WHERE turn_id = turn;
END $$;
