//! Opens the session that a command asks for, and submits a turn to it.

use std::sync::Once;

use angelia_core::model::{Content, FailureKind, SessionId, SessionSource, TurnOrigin};
use angelia_executors::parrot;
use angelia_frontends::{
    http::{NewSessionBody, TurnBody, TurnInput, resources::SessionResource},
    turn_service::{AcceptedTurn, TurnErrorKind, TurnService, TurnSubmission},
};

use super::continued_session;
use crate::{
    assemble::App,
    cli::{
        args::RunArgs,
        error::{CommandError, Exit},
        print,
    },
};

/// Returns the session to continue, switched to the model that the options name, or else a new
/// session. `at_terminal` means that the owner is at a terminal.
pub(in crate::cli) async fn open_session(
    app: &App,
    service: &dyn TurnService,
    args: &RunArgs,
    continued: Option<SessionId>,
    at_terminal: bool,
) -> Result<SessionResource, CommandError> {
    let session = match continued {
        Some(session) => {
            let session = service.session(session).await?;
            note_older_settings(&session);
            match &args.model {
                Some(model) if session.model.as_ref() != Some(model) => {
                    service.change_model(session.id, model.as_str().into()).await?
                }
                _ => session,
            }
        }
        None => create_session(service, args, at_terminal).await?,
    };
    if parrot::is_demo(&session.executor) && !app.config.is_pinned(&session.profile) {
        // Once is enough in a chat.
        static NOTE: Once = Once::new();
        NOTE.call_once(|| {
            print::note(
                "angelia: the built-in demo agent answers; no coding agent is behind it\n  hint: \
                 `angelia doctor` says how to get one",
            );
        });
    }
    Ok(session)
}

/// A turn to submit.
pub(in crate::cli) struct NewTurn {
    pub(in crate::cli) session: SessionId,
    pub(in crate::cli) input: Vec<Content>,
    /// Whether a person can answer the agent's questions.
    pub(in crate::cli) can_ask: bool,
    /// Whether the session will probably not be continued.
    pub(in crate::cli) one_off: bool,
}

pub(in crate::cli) async fn submit(
    service: &dyn TurnService,
    turn: NewTurn,
) -> Result<AcceptedTurn, CommandError> {
    let body = TurnBody {
        input: TurnInput(turn.input),
        can_ask: Some(turn.can_ask),
        one_off: turn.one_off,
        ..TurnBody::default()
    };
    let (session, origin) = (turn.session, TurnOrigin::Owner);
    let submission = TurnSubmission { session, body, origin, key: None, hold: false };
    Ok(service.submit(submission).await?)
}

/// Creates the session that the options ask for.
async fn create_session(
    service: &dyn TurnService,
    args: &RunArgs,
    at_terminal: bool,
) -> Result<SessionResource, CommandError> {
    let here = std::env::current_dir();
    let new = NewSessionBody {
        profile: args.profile.as_deref().map(Into::into),
        cwd: args.cwd.as_deref().map(continued_session::absolute).transpose()?,
        caller_cwd: here.as_ref().ok().cloned(),
        model: args.model.as_deref().map(Into::into),
        title: None,
        name: args.session.clone(),
        source: Some(SessionSource::Terminal.to_string()),
    };
    service.create_session(new, at_terminal).await.map_err(|error| {
        // Nothing has been started. If no option chose anything else, the configuration is at
        // fault.
        let chose = args.profile.is_some() || args.cwd.is_some() || args.model.is_some();
        let is_usage = chose && error.kind == TurnErrorKind::Failed(FailureKind::Invalid);
        let mut error = CommandError::from(error);
        if let Err(reason) = here.as_ref()
            && args.cwd.is_none()
        {
            error = error.with_hint(format!(
                "the current directory cannot be used ({reason}): change to another one, or name \
                 one with --cwd"
            ));
        }
        if is_usage { CommandError { exit: Exit::Usage, ..error } } else { error }
    })
}

/// Prints a note that a session keeps its original settings, if its profile has changed since then.
fn note_older_settings(session: &SessionResource) {
    if !session.older_settings.is_empty() {
        print::note(&format!(
            "angelia: this session keeps the settings it began with; profile `{}` has changed since \
             ({})\n  hint: a new session has the new settings",
            session.profile,
            session.older_settings.join(", ")
        ));
    }
}
