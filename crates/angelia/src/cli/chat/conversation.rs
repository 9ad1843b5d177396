//! The session of a chat: runs its turns, and the commands that change it.

use std::{path::PathBuf, sync::Arc};

use angelia_core::model::{SessionId, Usage};
use angelia_frontends::{http::resources::SessionResource, turn_service::TurnService};

use super::chat_command::{self, ChatCommand};
use crate::{
    assemble::App,
    cli::{
        args::{ListArgs, RunArgs},
        error::CommandError,
        print,
        run::{
            RunningTurn, attachments, follow_rendered,
            keyboard::Keyboard,
            signals::StopSignals,
            submit::{self, NewTurn},
        },
        sessions::list::{self, SessionListArgs},
        usage::format_used,
        view::short_id,
    },
    records::Records,
    resolve,
};

/// The number of sessions that `/resume` lists.
const LISTED_SESSIONS: usize = 10;

pub(super) struct Conversation {
    app: Arc<App>,
    turns: Arc<dyn TurnService>,
    /// The options for a new session.
    wanted: RunArgs,
    /// `None` if the next prompt starts a session.
    session: Option<SessionId>,
}

impl Conversation {
    pub(super) fn new(
        app: Arc<App>,
        turns: Arc<dyn TurnService>,
        wanted: RunArgs,
        session: Option<SessionId>,
    ) -> Self {
        Self { app, turns, wanted, session }
    }

    /// Prints which session is continued, and how to get help.
    pub(super) async fn greet(&mut self) -> Result<(), CommandError> {
        if self.session.is_some() {
            let session = self.open_session().await?;
            print::note(&describe(&session));
        }
        print::note("/help lists the commands; Ctrl-C interrupts a turn, Ctrl-D leaves");
        Ok(())
    }

    /// Runs a turn with the person's input. Returns the lines that the person typed in the
    /// meantime.
    pub(super) async fn say(&mut self, text: String) -> Result<Vec<String>, CommandError> {
        let files = named_files(&text);
        let input = attachments::with_files(text, &files)?;
        let session = self.open_session().await?;
        let signals = StopSignals::listen().map_err(CommandError::internal)?;
        let keyboard = Keyboard::open();
        let can_ask = keyboard.is_some();
        let new = NewTurn { session: session.id, input, can_ask, one_off: false };
        let accepted = submit::submit(&*self.turns, new).await?;
        let turn = RunningTurn::new(Arc::clone(&self.turns), accepted, can_ask);
        let end = follow_rendered(&self.app, turn, false, Some(signals), keyboard).await?;
        Ok(end.typed_ahead.into_iter().filter(|line| !line.trim().is_empty()).collect())
    }

    pub(super) async fn obey(&mut self, command: ChatCommand) -> Result<(), CommandError> {
        match command {
            ChatCommand::Model(None) => {
                let session = self.current().await?;
                let model = session.as_ref().map_or(&self.wanted.model, |session| &session.model);
                print::note(model.as_deref().unwrap_or("the agent's own default"));
            }
            ChatCommand::Model(Some(model)) => {
                self.wanted.model = Some(model);
                if self.session.is_some() {
                    let session = self.open_session().await?;
                    print::note(&describe(&session));
                }
            }
            ChatCommand::Profile(None) => {
                let session = self.current().await?;
                let profile = session.map(|session| session.profile);
                let profile = profile.or_else(|| self.wanted.profile.clone());
                print::note(profile.as_deref().unwrap_or("default"));
            }
            ChatCommand::Profile(Some(profile)) => {
                self.begin_new();
                self.wanted.model = None;
                self.wanted.profile = Some(profile);
            }
            ChatCommand::New => self.begin_new(),
            ChatCommand::Fork => {
                let session = self.session.ok_or_else(nothing_said)?;
                let forked = self.turns.fork_session(session).await?;
                print::note(&describe(&forked));
                self.session = Some(forked.id);
            }
            ChatCommand::Compact => {
                let session = self.session.ok_or_else(nothing_said)?;
                let result = self.turns.compact_session(session).await?;
                print::note(&result.reason);
            }
            ChatCommand::Resume(None) => {
                let records = Records::open(&self.app).await?;
                let args = ListArgs { limit: LISTED_SESSIONS, before: None, json: false };
                let args = SessionListArgs::all(args);
                list::print(&self.app, &records, &args).await?;
            }
            ChatCommand::Resume(Some(wanted)) => self.resume(&wanted).await?,
            ChatCommand::Usage => self.print_usage().await?,
            ChatCommand::Stop => print::note("no turn is running"),
            ChatCommand::Help => print::note(&chat_command::help()),
            // Handled by the main loop of the chat.
            ChatCommand::Quit => {}
        }
        Ok(())
    }

    fn begin_new(&mut self) {
        (self.session, self.wanted.session) = (None, None);
    }

    async fn resume(&mut self, wanted: &str) -> Result<(), CommandError> {
        let records = Records::open(&self.app).await?;
        let session = resolve::session_id(&records, wanted).await?;
        // The session keeps its own model and profile.
        (self.wanted.model, self.wanted.profile) = (None, None);
        (self.session, self.wanted.session) = (Some(session), None);
        let session = self.open_session().await?;
        print::note(&describe(&session));
        Ok(())
    }

    async fn print_usage(&self) -> Result<(), CommandError> {
        let session = self.session.ok_or_else(nothing_said)?;
        let turns = Records::open(&self.app).await?.all_turns(session).await?;
        let mut total = Usage::default();
        for usage in turns.iter().filter_map(|turn| turn.usage.as_ref()) {
            total = total.plus(&usage.0);
        }
        let s = if turns.len() == 1 { "" } else { "s" };
        print::note(&format!("{} turn{s} · {}", turns.len(), format_used(&total)));
        Ok(())
    }

    async fn current(&self) -> Result<Option<SessionResource>, CommandError> {
        match self.session {
            Some(session) => Ok(Some(self.turns.session(session).await?)),
            None => Ok(None),
        }
    }

    /// Returns the session, switched to the wanted model. Starts one if there is none.
    async fn open_session(&mut self) -> Result<SessionResource, CommandError> {
        let session =
            submit::open_session(&self.app, &*self.turns, &self.wanted, self.session, true).await?;
        self.session = Some(session.id);
        Ok(session)
    }
}

fn nothing_said() -> CommandError {
    CommandError::usage("there is no session yet").with_hint("say something first")
}

fn describe(session: &SessionResource) -> String {
    let model = session.model.as_deref().unwrap_or("its default model");
    let name = session.name.clone().unwrap_or_else(|| short_id(&session.id.to_string()).to_owned());
    format!("session {name} · {} · {model}", session.profile)
}

/// Returns the files that a prompt names: images by path, and any file as `@PATH`.
fn named_files(text: &str) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for word in text.split_whitespace() {
        let (is_marked, path) = match word.strip_prefix('@') {
            Some(path) => (true, path),
            None => (false, word.trim_matches(['"', '\'', '(', ')', ','])),
        };
        let path = PathBuf::from(path);
        let is_wanted = path.is_file() && (is_marked || attachments::is_image(&path));
        if is_wanted && !files.contains(&path) {
            files.push(path);
        }
    }
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prompt_names_its_files() {
        let folder = tempfile::tempdir().unwrap();
        let (image, text) = (folder.path().join("a.dat"), folder.path().join("b.txt"));
        std::fs::write(&image, b"\x89PNG\r\n\x1a\n").unwrap();
        std::fs::write(&text, "words").unwrap();
        let (i, t) = (image.display(), text.display());
        let compared = named_files(&format!("compare ({i}) with {t} and \"{i}\""));
        assert_eq!(compared, std::slice::from_ref(&image));
        let read = named_files(&format!("read @{t} and mail a@b.example"));
        assert_eq!(read, std::slice::from_ref(&text));
        assert!(named_files("nothing here, not even @missing").is_empty());
    }
}
