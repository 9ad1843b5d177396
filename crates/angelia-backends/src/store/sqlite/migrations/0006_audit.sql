-- Who has decided, changed, deleted or exposed something. Rows are only ever added.
CREATE TABLE audit (
    number  INTEGER PRIMARY KEY AUTOINCREMENT,
    at      INTEGER NOT NULL,
    actor   TEXT    NOT NULL,
    action  TEXT    NOT NULL,
    subject TEXT    NOT NULL
) STRICT;

CREATE TRIGGER audit_is_not_changed BEFORE UPDATE ON audit
BEGIN SELECT RAISE(ABORT, 'the audit is append-only'); END;

CREATE TRIGGER audit_is_not_deleted BEFORE DELETE ON audit
BEGIN SELECT RAISE(ABORT, 'the audit is append-only'); END;
