//! Lists and prints notes.

use std::collections::HashMap;

use angelia_executors::native::memory::{Note, NoteId, NoteStore};
use serde::Serialize;

use crate::cli::{
    error::{CommandError, Exit},
    print,
    table::{Column, Table},
};

/// A note as `--json` prints it.
#[derive(Serialize)]
struct NoteEntry<'a> {
    id: String,
    profile: &'a str,
    /// The project's directory; `null` if the note applies to all projects.
    project: Option<String>,
    key: &'a str,
    path: String,
    text: &'a str,
    /// Who wrote the note last, and how to undo that; `null` if it was written by hand or long ago.
    by: Option<&'a str>,
    undo: Option<&'a str>,
}

/// The last change to each note: its author and its id.
type LastChanges = HashMap<NoteId, (String, String)>;

fn last_changes(store: &NoteStore) -> Result<LastChanges, CommandError> {
    let mut last = LastChanges::new();
    for change in store.changes()? {
        if let Some(note) = change.note() {
            last.entry(note).or_insert_with(|| (change.by().to_owned(), change.short_id()));
        }
    }
    Ok(last)
}

fn entry<'a>(store: &NoteStore, note: &'a Note, last: &'a LastChanges) -> NoteEntry<'a> {
    let Note { id, text } = note;
    let change = last.get(id);
    NoteEntry {
        id: id.to_string(),
        profile: id.profile.as_str(),
        project: project(store, id),
        key: id.key.as_str(),
        path: store.path(id).display().to_string(),
        text,
        by: change.map(|(by, _)| by.as_str()),
        undo: change.map(|(_, undo)| undo.as_str()),
    }
}

/// Returns the directory of the note's project, or its name if the directory is unknown.
fn project(store: &NoteStore, id: &NoteId) -> Option<String> {
    if id.place.is_everywhere() {
        return None;
    }
    Some(store.project_of(&id.profile, &id.place).unwrap_or_else(|| id.place.to_string()))
}

pub(super) fn list(
    store: &NoteStore,
    profile: Option<&str>,
    json: bool,
) -> Result<Exit, CommandError> {
    let notes = store.all()?;
    let is_wanted = |note: &&Note| profile.is_none_or(|name| note.id.profile.as_str() == name);
    let last = last_changes(store)?;
    let entries = notes.iter().filter(is_wanted).map(|note| entry(store, note, &last));
    if json {
        let mut lines = Vec::new();
        for entry in entries {
            print::json_line(&entry, &mut lines)?;
        }
        return print::bytes(&lines);
    }
    let rendered = table(entries).render();
    if rendered.is_empty() {
        print::note("nothing is remembered; only profiles with `memory: on` remember");
    }
    print::bytes(&rendered)
}

fn table<'a>(entries: impl Iterator<Item = NoteEntry<'a>>) -> Table<5> {
    let column = |header, min_width, rank| Column { header, min_width, rank };
    let mut table = Table::new([
        column("NOTE", None, 0),
        column("PROJECT", Some(12), 2),
        column("BY", None, 3),
        column("UNDO", None, 4),
        column("TEXT", Some(20), 1),
    ]);
    for entry in entries {
        let text = entry.text.lines().find(|line| !line.trim().is_empty());
        table.push([
            entry.id,
            entry.project.unwrap_or_else(|| "everywhere".to_owned()),
            entry.by.unwrap_or_default().to_owned(),
            entry.undo.unwrap_or_default().to_owned(),
            text.unwrap_or_default().to_owned(),
        ]);
    }
    table
}

pub(super) fn show(store: &NoteStore, note: &Note, json: bool) -> Result<Exit, CommandError> {
    if json {
        let last = last_changes(store)?;
        let mut line = Vec::new();
        print::json_line(&entry(store, note, &last), &mut line)?;
        return print::bytes(&line);
    }
    print::line(&print::show_controls(&note.text))
}
