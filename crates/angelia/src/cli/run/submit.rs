//! Submits the turn of `angelia run`, in the session that its options name.

use std::path::{Path, PathBuf};

use angelia_core::model::{Content, SessionId, TurnOrigin};
use angelia_frontends::{
    http::{NewSessionBody, TurnBody, TurnInput, resources::SessionResource},
    turn_service::{AcceptedTurn, TurnService, TurnSubmission},
};

use crate::cli::{args::RunArgs, error::CommandError};

pub(super) async fn submit(
    service: &dyn TurnService,
    args: &RunArgs,
    text: String,
    can_ask: bool,
) -> Result<AcceptedTurn, CommandError> {
    let session = find_or_create_session(service, args, can_ask).await?;
    let body = TurnBody {
        input: TurnInput(vec![Content::text(text)]),
        can_ask: Some(can_ask),
        ..TurnBody::default()
    };
    let origin = TurnOrigin::Owner;
    let submission = TurnSubmission { session, body, origin, key: None, hold: false };
    Ok(service.submit(submission).await?)
}

/// Returns the session that `-s` names, by its id or by a name given earlier; otherwise a new one.
async fn find_or_create_session(
    service: &dyn TurnService,
    args: &RunArgs,
    at_terminal: bool,
) -> Result<SessionId, CommandError> {
    let known = match &args.session {
        None => None,
        Some(session) => match session.parse() {
            Ok(id) => Some(service.session(id).await?),
            Err(_) => service.find_session(session).await?,
        },
    };
    if let Some(session) = known {
        check_session_options(args, &session)?;
        return Ok(session.id);
    }
    let new = NewSessionBody {
        profile: args.profile.as_deref().map(Into::into),
        cwd: args.cwd.as_deref().map(absolute).transpose()?,
        caller_cwd: std::env::current_dir().ok(),
        model: args.model.as_deref().map(Into::into),
        title: None,
        name: args.session.clone(),
    };
    Ok(service.create_session(new, at_terminal).await?.id)
}

/// Resolves a path from the command line against the current directory, as a shell would.
fn absolute(path: &Path) -> Result<PathBuf, CommandError> {
    std::path::absolute(path)
        .map_err(|error| CommandError::usage(format!("cannot work in {}: {error}", path.display())))
}

/// Fails if the options ask for another profile, model or directory than the session has. A session
/// keeps what it was started with, so a different option must not be ignored.
fn check_session_options(args: &RunArgs, session: &SessionResource) -> Result<(), CommandError> {
    let differs =
        |wanted: &Option<String>, has: &str| wanted.as_deref().is_some_and(|wanted| wanted != has);
    let model = session.model.as_deref();
    let what = if differs(&args.profile, &session.profile) {
        format!("the profile `{}`", session.profile)
    } else if let Some(model) = model.filter(|model| differs(&args.model, model)) {
        format!("the model `{model}`")
    } else if args.cwd.is_some() {
        "a directory of its own".to_owned()
    } else {
        return Ok(());
    };
    Err(CommandError::usage(format!("the session was begun with {what} and keeps it"))
        .with_hint("leave the option out, or begin another session"))
}
