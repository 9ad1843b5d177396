-- Whether the model may or must call a tool of the caller: `none`, `required`, `tool:NAME`; NULL: it may.
ALTER TABLE turns ADD COLUMN tool_choice TEXT;
