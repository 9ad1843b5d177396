//! Finds the note that a person means, by its key or its full name.

use angelia_executors::native::memory::{Note, NoteId, NoteStore};

use crate::cli::error::{CommandError, Exit};

/// Returns the note with this name, or the only note with this key.
pub(super) fn find_note(store: &NoteStore, wanted: &str) -> Result<Note, CommandError> {
    let notes = store.all()?;
    let is_named = |note: &&Note| note.id.to_string() == wanted || note.id.key.as_str() == wanted;
    let mut named: Vec<Note> = notes.iter().filter(is_named).cloned().collect();
    match named.len() {
        1 => Ok(named.remove(0)),
        0 => Err(CommandError::new(Exit::Failed, format!("there is no note `{wanted}`"))
            .with_hint("`angelia memory list` prints the notes")),
        _ => {
            let ids: Vec<String> = named.iter().map(|note| note.id.to_string()).collect();
            let what = format!("several notes have the key `{wanted}`");
            Err(CommandError::usage(what).with_hint(format!("name one: {}", ids.join(", "))))
        }
    }
}

/// Returns the note with this name, or the name of a new one.
pub(super) fn find_or_name(
    store: &NoteStore,
    wanted: &str,
) -> Result<(NoteId, Option<String>), CommandError> {
    match (find_note(store, wanted), NoteId::parse(wanted)) {
        (Ok(note), _) => Ok((note.id, Some(note.text))),
        (Err(error), _) if error.exit == Exit::Usage => Err(error),
        (Err(_), Some(new)) => Ok((new, None)),
        (Err(error), None) => Err(error.with_hint(
            "`angelia memory list` prints the notes; a new one needs its whole name, such as \
             default/everywhere/style",
        )),
    }
}
