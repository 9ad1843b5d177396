//! The tables. Each version of the file adds its statements; an old one is never changed.

pub(super) const SCHEMA: [&str; 2] = [
    "
    -- An event stays here as its key alone after its work has ended, so that a late repetition is known.
    CREATE TABLE events (
        position INTEGER PRIMARY KEY AUTOINCREMENT,
        platform TEXT NOT NULL,
        dedupe_key TEXT NOT NULL,
        received_at INTEGER NOT NULL,
        event TEXT,
        turn TEXT,
        UNIQUE (platform, dedupe_key)
    ) STRICT;
    CREATE INDEX unfinished_events ON events (position) WHERE event IS NOT NULL;
    CREATE TABLE cursors (platform TEXT PRIMARY KEY, cursor TEXT NOT NULL) STRICT;
    CREATE TABLE guests (
        platform TEXT NOT NULL,
        id TEXT NOT NULL,
        name TEXT NOT NULL,
        since INTEGER NOT NULL,
        PRIMARY KEY (platform, id)
    ) STRICT;
    CREATE TABLE codes (
        code TEXT PRIMARY KEY,
        platform TEXT NOT NULL,
        sender TEXT NOT NULL,
        name TEXT NOT NULL,
        made_at INTEGER NOT NULL,
        UNIQUE (platform, sender)
    ) STRICT;
    CREATE TABLE chats (
        address TEXT PRIMARY KEY,
        session TEXT,
        profile TEXT,
        cwd TEXT
    ) STRICT;
    CREATE TABLE chat_sessions (
        address TEXT NOT NULL,
        session TEXT NOT NULL,
        at INTEGER NOT NULL,
        PRIMARY KEY (address, session)
    ) STRICT;
    CREATE TABLE cards (
        approval TEXT PRIMARY KEY,
        address TEXT NOT NULL,
        message_id TEXT NOT NULL,
        at INTEGER NOT NULL
    ) STRICT;
    CREATE TABLE previews (turn TEXT PRIMARY KEY, message_id TEXT NOT NULL, at INTEGER NOT NULL) STRICT;
    CREATE TABLE hook_answers (
        turn TEXT PRIMARY KEY,
        hook TEXT NOT NULL,
        recipient TEXT NOT NULL
    ) STRICT;
",
    "
    CREATE TABLE routes (
        platform TEXT NOT NULL,
        chat TEXT NOT NULL,
        value TEXT NOT NULL,
        expires_at INTEGER NOT NULL,
        PRIMARY KEY (platform, chat)
    ) STRICT;
",
];
