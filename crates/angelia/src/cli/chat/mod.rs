//! `angelia chat`: turn after turn in one session, with a prompt line.
//!
//! - [`prompt_line`]: reads the person's input, with [`completion`] and a [`history`].
//! - [`chat_command`]: the lines that begin with `/`.
//! - [`conversation`]: the session of the chat, and the effect of each line on it.
//!
//! The code of `run` displays the turns.

mod chat_command;
mod completion;
mod conversation;
mod history;
mod prompt_line;

use std::{
    collections::VecDeque,
    io::{self, IsTerminal as _},
    path::PathBuf,
    sync::Arc,
};

use clap::{Args, builder::NonEmptyStringValueParser};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};

use self::{
    chat_command::ChatCommand,
    conversation::Conversation,
    history::History,
    prompt_line::{PROMPT, PromptInput, PromptLine},
};
use super::{
    args::RunArgs,
    error::{CommandError, Exit},
    print,
    run::{continued_session, signals::StopSignals},
};
use crate::{
    assemble::App,
    home_turns::{HomeTurns, TurnsUse},
};

#[derive(Debug, Args)]
pub(crate) struct ChatArgs {
    /// The profile to use; `default` when none is named.
    #[arg(short, long)]
    profile: Option<String>,

    /// Continue this session: an id or the start of one, `last`, or a name of your choice, which
    /// starts a session the first time it is used.
    #[arg(short, long)]
    session: Option<String>,

    /// The model, as the agent's own CLI calls it; an existing session switches to it.
    #[arg(short, long, value_parser = NonEmptyStringValueParser::new())]
    model: Option<String>,

    /// The directory the agent works in; the current directory by default.
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,
}

pub(crate) async fn run(app: &Arc<App>, args: ChatArgs) -> Result<Exit, CommandError> {
    let is_terminal =
        io::stdin().is_terminal() && io::stdout().is_terminal() && io::stderr().is_terminal();
    if !is_terminal {
        return Err(CommandError::usage("a chat needs a terminal")
            .with_hint("`angelia run` takes its prompt from a pipe"));
    }
    app.home.prepare()?;
    let wanted = RunArgs {
        profile: args.profile,
        session: args.session,
        model: args.model,
        cwd: args.cwd,
        ..RunArgs::default()
    };
    let continued = continued_session::find(app, &wanted).await?.map(|session| session.id);
    // Without this, a signal at the prompt would leave the terminal in the line editor's mode.
    let _restored = SavedTerminal::save();
    HomeTurns::with(TurnsUse::New, app, "run", |turns| async move {
        let prompt = PromptLine::open(History::open(app.home.chat_history()))?;
        let conversation = Conversation::new(Arc::clone(app), turns, wanted, continued);
        talk(conversation, prompt).await
    })
    .await
}

async fn talk(
    mut conversation: Conversation,
    mut prompt: PromptLine,
) -> Result<Exit, CommandError> {
    let mut signals = StopSignals::listen().map_err(CommandError::internal)?;
    conversation.greet().await?;
    // Lines typed while a turn ran are submitted after it, as if they had been typed now.
    let mut typed_ahead = VecDeque::new();
    loop {
        let input = tokio::select! {
            input = next_input(&mut typed_ahead, &mut prompt) => input?,
            // At the prompt, Ctrl-C is a key, so this signal comes from another process and ends
            // the chat.
            _ = signals.next() => return Ok(Exit::Interrupted),
        };
        let text = match input {
            PromptInput::Text(text) => text,
            PromptInput::Cancelled => {
                print::note("(Ctrl-D or /quit leaves)");
                continue;
            }
            PromptInput::End => return Ok(Exit::Done),
        };
        if text.trim().is_empty() {
            continue;
        }
        let done = match ChatCommand::parse(&text) {
            Some(Ok(ChatCommand::Quit)) => return Ok(Exit::Done),
            Some(Ok(command)) => conversation.obey(command).await,
            Some(Err(what)) => Err(CommandError::usage(what).with_hint("/help lists them")),
            None => conversation.say(text).await.map(|typed| typed_ahead.extend(typed)),
        };
        // The turn has already handled the signals that stopped it, so they must not end the chat.
        signals = StopSignals::listen().map_err(CommandError::internal)?;
        match done {
            Ok(()) => {}
            Err(error) if error.exit == Exit::Output => return Err(error),
            Err(error) => print::error(&error),
        }
    }
}

/// Returns the next line that was typed ahead, shown as at the prompt, or reads one.
async fn next_input(
    typed_ahead: &mut VecDeque<String>,
    prompt: &mut PromptLine,
) -> Result<PromptInput, CommandError> {
    match typed_ahead.pop_front() {
        Some(line) => {
            print::note(&format!("{PROMPT}{line}"));
            Ok(PromptInput::Text(line))
        }
        None => prompt.read().await,
    }
}

/// The saved terminal mode, restored on drop.
struct SavedTerminal(Option<Termios>);

impl SavedTerminal {
    fn save() -> Self {
        Self(tcgetattr(io::stdin()).ok())
    }
}

impl Drop for SavedTerminal {
    fn drop(&mut self) {
        if let Some(saved) = &self.0 {
            // The terminal may be gone.
            let _gone = tcsetattr(io::stdin(), OptionalActions::Now, saved);
        }
    }
}
