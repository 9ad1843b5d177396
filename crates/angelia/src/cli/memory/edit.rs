//! Edits a note in the person's editor. The editor gets a copy, so that the change can be undone like any
//! other.

use std::{
    ffi::{OsStr, OsString},
    fs::{self, OpenOptions},
    io::{self, IsTerminal as _, Read as _, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use angelia_executors::{
    native::memory::{NoteStore, NoteWriter},
    process::foreground::run_interactive,
};
use tokio::signal::unix::{SignalKind, signal};
use uuid::Uuid;

use super::{chosen_note::find_or_name, how_to_undo};
use crate::{
    assemble::App,
    cli::{
        error::{CommandError, Exit},
        print,
    },
    config::Environment,
};

/// The editor for a person who has not chosen one.
const DEFAULT_EDITOR: &str = "vi";

/// More than any note can contain.
const MAX_INPUT_BYTES: u64 = 64 * 1024;

pub(super) async fn run(app: &App, store: &NoteStore, wanted: &str) -> Result<Exit, CommandError> {
    let (id, old) = find_or_name(store, wanted)?;
    let old = old.unwrap_or_default();
    let new =
        if std::io::stdin().is_terminal() { edit_copy(app, &old).await? } else { read_stdin()? };
    if new.trim() == old.trim() {
        return print::line("nothing was changed");
    }
    let text = Some(new.trim()).filter(|text| !text.is_empty());
    let change = store.change(&id, text, NoteWriter::Owner)?;
    let done = if text.is_some() { "wrote" } else { "forgot" };
    print::line(&format!("{done} {id}; {}", how_to_undo(&change)))
}

fn read_stdin() -> Result<String, CommandError> {
    let mut text = String::new();
    let read = std::io::stdin().lock().take(MAX_INPUT_BYTES).read_to_string(&mut text);
    read.map_err(|error| CommandError::usage(format!("stdin cannot be read: {error}")))?;
    Ok(text)
}

/// Lets the person edit a copy of the text, and returns the result.
async fn edit_copy(app: &App, text: &str) -> Result<String, CommandError> {
    app.home.prepare()?;
    let copy = Draft::create(app.home.dir(), text).map_err(CommandError::internal)?;
    let mut command = editor(&app.environment);
    command.push(copy.0.as_os_str().to_owned());
    // Ctrl-C belongs to the editor while it runs.
    let _held = signal(SignalKind::interrupt()).map_err(CommandError::internal)?;
    let name = command[0].to_string_lossy().into_owned();
    let edited = tokio::task::spawn_blocking(move || {
        let arguments: Vec<&OsStr> = command[1..].iter().map(|word| &**word).collect();
        run_interactive(&command[0], &arguments)
    });
    let failed = |why: String| {
        CommandError::new(Exit::Failed, format!("the editor `{name}` {why}; the note is unchanged"))
            .with_hint("set EDITOR to an editor that is installed")
    };
    match edited.await.map_err(CommandError::internal)? {
        Ok(status) if status.success() => {}
        Ok(status) => return Err(failed(format!("ended with {status}"))),
        Err(error) => return Err(failed(format!("cannot be started: {error}"))),
    }
    fs::read_to_string(&copy.0).map_err(CommandError::internal)
}

/// A file for the editor, removed on drop.
struct Draft(PathBuf);

impl Draft {
    fn create(folder: &Path, text: &str) -> io::Result<Self> {
        let draft = Self(folder.join(format!(".note-{}.md", Uuid::new_v4().simple())));
        let mut options = OpenOptions::new();
        let mut file = options.write(true).create_new(true).mode(0o600).open(&draft.0)?;
        writeln!(file, "{text}")?;
        Ok(draft)
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        // The editor may have moved the file.
        let _gone = fs::remove_file(&self.0);
    }
}

/// Returns the words of the editor's command line.
fn editor(environment: &Environment) -> Vec<OsString> {
    let chosen = ["VISUAL", "EDITOR"].iter().find_map(|name| environment.non_empty(name));
    let words = chosen.and_then(OsStr::to_str).unwrap_or(DEFAULT_EDITOR).split_whitespace();
    words.map(OsString::from).collect()
}
