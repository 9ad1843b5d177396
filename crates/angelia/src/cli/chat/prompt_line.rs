//! The prompt line. The line editor blocks, so it runs on a separate thread. It touches the
//! terminal only while it reads a line.

use std::sync::mpsc::{SyncSender, sync_channel};

use rustyline::{CompletionType, Config, Editor, error::ReadlineError, history::MemHistory};
use tokio::sync::mpsc;

use super::{completion::PromptHelper, history::History};
use crate::cli::error::CommandError;

pub(super) const PROMPT: &str = "> ";

#[derive(Debug, PartialEq, Eq)]
pub(super) enum PromptInput {
    Text(String),
    /// Ctrl-C: the typed text is dropped.
    Cancelled,
    /// Ctrl-D, or the terminal is gone.
    End,
}

#[derive(Debug)]
pub(super) struct PromptLine {
    /// Each message asks for one line.
    wanted: SyncSender<()>,
    typed: mpsc::Receiver<Result<PromptInput, ReadlineError>>,
}

impl PromptLine {
    pub(super) fn open(mut history: History) -> Result<Self, CommandError> {
        let mut editor = new_editor(&history).map_err(CommandError::internal)?;
        let (wanted, requests) = sync_channel::<()>(1);
        let (sender, typed) = mpsc::channel(1);
        let read = move || {
            while requests.recv().is_ok() {
                let input = read_line(&mut editor, &mut history);
                if sender.blocking_send(input).is_err() {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new().name("prompt".to_owned());
        thread.spawn(read).map_err(CommandError::internal)?;
        Ok(Self { wanted, typed })
    }

    /// Reads the person's next input.
    pub(super) async fn read(&mut self) -> Result<PromptInput, CommandError> {
        let lost = || CommandError::internal("the prompt line has ended");
        self.wanted.try_send(()).map_err(|_| lost())?;
        let input = self.typed.recv().await.ok_or_else(lost)?;
        input.map_err(|error| CommandError::internal(format!("cannot read a line: {error}")))
    }
}

fn new_editor(history: &History) -> rustyline::Result<Editor<PromptHelper, MemHistory>> {
    let config = Config::builder().completion_type(CompletionType::List).build();
    let mut editor = Editor::with_history(config, MemHistory::new())?;
    editor.set_helper(Some(PromptHelper));
    for entry in &history.entries {
        editor.add_history_entry(entry.as_str())?;
    }
    Ok(editor)
}

fn read_line(
    editor: &mut Editor<PromptHelper, MemHistory>,
    history: &mut History,
) -> Result<PromptInput, ReadlineError> {
    match editor.readline(PROMPT) {
        Ok(line) => {
            history.add(&line);
            editor.add_history_entry(line.as_str())?;
            // The backslash only marks that another line follows.
            Ok(PromptInput::Text(line.replace("\\\n", "\n")))
        }
        Err(ReadlineError::Interrupted) => Ok(PromptInput::Cancelled),
        Err(ReadlineError::Eof) => Ok(PromptInput::End),
        Err(error) => Err(error),
    }
}
