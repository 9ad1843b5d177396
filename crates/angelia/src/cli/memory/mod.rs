//! `angelia memory`: the notes that agents keep from session to session. The notes are files, so no daemon is
//! needed. A running session keeps the notes that it started with.
//!
//! - [`show`]: lists and prints notes.
//! - [`edit`]: changes a note in the person's editor.
//! - [`chosen_note`]: finds the note that a person means.

mod chosen_note;
mod edit;
mod show;

use angelia_executors::native::memory::{MemoryError, NoteChange, NoteStore, NoteWriter};
use clap::Subcommand;

use self::chosen_note::find_note;
use super::{
    error::{CommandError, Exit},
    print,
};
use crate::assemble::App;

#[derive(Debug, Subcommand)]
pub(crate) enum MemoryCommand {
    /// List the notes: where they apply, and their first words.
    List {
        /// Only the notes of this profile.
        #[arg(short, long)]
        profile: Option<String>,
        /// Print JSON, one object per line.
        #[arg(long)]
        json: bool,
    },
    /// Print a note.
    Show {
        /// The note's key, or `PROFILE/PLACE/KEY` if several notes have the same key.
        #[arg(value_name = "NOTE")]
        note: String,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Edit a note with `$VISUAL` or `$EDITOR`; from a pipe, replace it with the input.
    Edit {
        /// The note's key, or `PROFILE/PLACE/KEY`, which may be new.
        #[arg(value_name = "NOTE")]
        note: String,
    },
    /// Forget a note.
    Forget {
        /// The note's key, or `PROFILE/PLACE/KEY` if several notes have the same key.
        #[arg(value_name = "NOTE")]
        note: String,
    },
    /// Undo a change to a note, by default the last one; an undo can be undone as well.
    Undo {
        /// The change, as named by its notice and by `memory list`.
        #[arg(value_name = "CHANGE")]
        change: Option<String>,
    },
}

pub(crate) async fn run(app: &App, command: &MemoryCommand) -> Result<Exit, CommandError> {
    let store = NoteStore::new(app.home.dir());
    match command {
        MemoryCommand::List { profile, json } => show::list(&store, profile.as_deref(), *json),
        MemoryCommand::Show { note, json } => show::show(&store, &find_note(&store, note)?, *json),
        MemoryCommand::Edit { note } => edit::run(app, &store, note).await,
        MemoryCommand::Forget { note } => {
            let note = find_note(&store, note)?;
            let change = store.change(&note.id, None, NoteWriter::Owner)?;
            print::line(&format!("forgot {}; {}", note.id, how_to_undo(&change)))
        }
        MemoryCommand::Undo { change } => undo(&store, change.as_deref()),
    }
}

fn undo(store: &NoteStore, wanted: Option<&str>) -> Result<Exit, CommandError> {
    let changes = store.changes()?;
    let is_wanted = |change: &&NoteChange| {
        wanted.is_none_or(|id| change.short_id() == id || change.id.to_string() == id)
    };
    let Some(change) = changes.iter().find(is_wanted) else {
        let error = MemoryError::NoChange(wanted.unwrap_or("last").to_owned());
        return Err(CommandError::new(Exit::Failed, error.to_string()));
    };
    let taken_back = store.undo(change, NoteWriter::Owner)?;
    let name = change.note().map(|note| note.to_string()).unwrap_or_default();
    let state = match &taken_back.after {
        Some(_) => "has its earlier text again",
        None => "is gone again",
    };
    print::line(&format!("{name} {state}; {}", how_to_undo(&taken_back)))
}

fn how_to_undo(change: &NoteChange) -> String {
    format!("`angelia memory undo {}` undoes this", change.short_id())
}

impl From<MemoryError> for CommandError {
    fn from(error: MemoryError) -> Self {
        Self::new(Exit::Failed, error.to_string())
    }
}
