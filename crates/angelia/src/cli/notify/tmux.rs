//! The parts of tmux that we use: finding our own session, and typing into another one. Text is
//! typed literally: a leading dash is not an option, and `Enter` is five letters.

use std::{borrow::Cow, sync::Arc, time::Duration};

use angelia_core::ports::{CommandOutput, CommandProgram, CommandRunner as _, CommandSpec};
use angelia_executors::process::ShellCommands;

use super::programs;
use crate::{
    cli::error::{CommandError, Exit},
    config::Environment,
};

const COMMAND_TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum number of bytes that one tmux call types. Longer text is sent in chunks.
const MAX_TYPED_BYTES: usize = 8 * 1024;

pub(super) struct Tmux {
    commands: ShellCommands,
}

impl Tmux {
    pub(super) fn new(environment: &Environment) -> Result<Self, CommandError> {
        let commands = programs::sender_commands(environment)?;
        Ok(Self { commands })
    }

    /// Runs a tmux command line. The line refers to its arguments through variables, so the shell
    /// does not interpret them.
    async fn run(
        &self,
        line: &'static str,
        env: Vec<(&'static str, Arc<str>)>,
    ) -> Result<CommandOutput, CommandError> {
        let command = CommandSpec {
            program: CommandProgram::Shell(line.into()),
            env,
            input: None,
            timeout: COMMAND_TIMEOUT,
        };
        let ran = self.commands.run(command).await.map_err(CommandError::internal)?;
        if ran.timed_out {
            return Err(CommandError::new(Exit::Failed, "tmux does not answer"));
        }
        if ran.stderr.contains("not found") && ran.stderr.contains("tmux:") {
            let what = "tmux is not installed, or not in PATH";
            return Err(CommandError::new(Exit::Unavailable, what));
        }
        Ok(ran)
    }

    /// Returns whether there is a session with exactly this name.
    pub(super) async fn has_session(&self, session: &str) -> Result<bool, CommandError> {
        let line = r#"exec tmux has-session -t "=$SESSION:""#;
        Ok(self.run(line, vec![("SESSION", session.into())]).await?.ok)
    }

    pub(super) async fn type_text(&self, session: &str, text: &str) -> Result<(), CommandError> {
        let mut rest = text;
        while !rest.is_empty() {
            let mut end = rest.len().min(MAX_TYPED_BYTES);
            // A chunk must not end inside a character.
            while !rest.is_char_boundary(end) {
                end -= 1;
            }
            let (piece, more) = rest.split_at(end);
            rest = more;
            let piece = &escape_last_semicolon(piece);
            let line = r#"exec tmux send-keys -t "=$SESSION:" -l -- "$PIECE""#;
            self.send_keys(line, session, piece).await?;
        }
        Ok(())
    }

    /// Presses a key, given by its tmux name.
    pub(super) async fn press_key(&self, session: &str, key: &str) -> Result<(), CommandError> {
        let line = r#"exec tmux send-keys -t "=$SESSION:" "$PIECE""#;
        self.send_keys(line, session, key).await
    }

    async fn send_keys(
        &self,
        line: &'static str,
        session: &str,
        piece: &str,
    ) -> Result<(), CommandError> {
        let env = vec![("SESSION", session.into()), ("PIECE", piece.into())];
        let ran = self.run(line, env).await?;
        if !ran.ok {
            let what = format!("tmux rejected the text: {}", ran.stderr.trim());
            return Err(CommandError::new(Exit::Failed, what));
        }
        Ok(())
    }
}

/// Escapes a `;` at the end of an argument. tmux treats it as the end of the command, even after
/// `-l --`, unless a backslash precedes it, which tmux removes.
fn escape_last_semicolon(argument: &str) -> Cow<'_, str> {
    match argument.strip_suffix(';') {
        Some(start) => format!("{start}\\;").into(),
        None => argument.into(),
    }
}

/// Returns the session of the tmux pane in which this process was started.
pub(super) async fn own_session(environment: &Environment) -> Option<String> {
    environment.non_empty("TMUX")?;
    let pane = environment.non_empty("TMUX_PANE")?.to_str()?;
    let tmux = Tmux::new(environment).ok()?;
    let line = r#"exec tmux display-message -p -t "$PANE" '#S'"#;
    let ran = tmux.run(line, vec![("PANE", pane.into())]).await.ok()?;
    let name = String::from_utf8(ran.stdout).ok()?;
    let name = name.trim();
    (ran.ok && !name.is_empty()).then(|| name.to_owned())
}
