//! Submits the turn of `angelia run`.

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

/// Submits the turn to the session that is to be continued, otherwise to a new one.
pub(super) async fn submit(
    app: &App,
    service: &dyn TurnService,
    args: &RunArgs,
    continued: Option<SessionId>,
    text: String,
    can_ask: bool,
) -> Result<AcceptedTurn, CommandError> {
    let session = match continued {
        Some(session) => {
            let session = service.session(session).await?;
            note_older_settings(&session);
            session
        }
        None => create_session(service, args, can_ask).await?,
    };
    if parrot::is_demo(&session.executor) && !app.config.is_pinned(&session.profile) {
        print::note(
            "angelia: the built-in demo agent answers; no coding agent is behind it\n  hint: \
             `angelia doctor` says how to get one",
        );
    }
    let body = TurnBody {
        input: TurnInput(vec![Content::text(text)]),
        can_ask: Some(can_ask),
        one_off: continued.is_none() && args.session.is_none(),
        ..TurnBody::default()
    };
    let origin = TurnOrigin::Owner;
    let submission = TurnSubmission { session: session.id, body, origin, key: None, hold: false };
    Ok(service.submit(submission).await?)
}

/// Begins the session that the options ask for.
async fn create_session(
    service: &dyn TurnService,
    args: &RunArgs,
    at_terminal: bool,
) -> Result<SessionResource, CommandError> {
    let new = NewSessionBody {
        profile: args.profile.as_deref().map(Into::into),
        cwd: args.cwd.as_deref().map(continued_session::absolute).transpose()?,
        caller_cwd: std::env::current_dir().ok(),
        model: args.model.as_deref().map(Into::into),
        title: None,
        name: args.session.clone(),
        source: Some(SessionSource::Terminal.to_string()),
    };
    service.create_session(new, at_terminal).await.map_err(|error| {
        // Nothing has been started. Without an option that chose something else, the fault is in
        // the configuration.
        let chose = args.profile.is_some() || args.cwd.is_some() || args.model.is_some();
        let is_usage = chose && error.kind == TurnErrorKind::Failed(FailureKind::Invalid);
        let error = CommandError::from(error);
        if is_usage { CommandError { exit: Exit::Usage, ..error } } else { error }
    })
}

/// Says that a session keeps the settings it began with, if its profile has others by now.
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
