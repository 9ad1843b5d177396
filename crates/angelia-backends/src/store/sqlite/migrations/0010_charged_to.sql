-- Turns that somebody else than their caller pays for: work that an agent has handed on.
ALTER TABLE turns ADD COLUMN charged_to TEXT;

CREATE INDEX turns_by_charged_to ON turns (charged_to, created_at) WHERE charged_to IS NOT NULL;
