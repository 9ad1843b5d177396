//! The session that `angelia run` continues with `-s` or `-c`.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use angelia_core::{engine::EngineError, model::SessionId, ports::Page};
use angelia_frontends::http::resources::SessionResource;

use crate::{
    assemble::App,
    cli::{
        args::RunArgs,
        error::CommandError,
        print,
        sessions::{adopt, list::tilde},
    },
    records::Records,
    resolve,
};

/// Returns the session to continue, or `None` if the options ask for a new one. Prints a note if
/// the session works in a different directory than the current one.
pub(in crate::cli) async fn find(
    app: &Arc<App>,
    args: &RunArgs,
) -> Result<Option<SessionResource>, CommandError> {
    let found = match &args.session {
        None if args.continue_last => Some(find_last_here(app, args).await?),
        None => None,
        Some(session) => {
            let records = Records::open(app).await?;
            let found = resolve::find_session(&records, session).await?;
            if found.is_none() {
                check_new_name(app, session).await?;
            }
            found
        }
    };
    if let Some(session) = &found {
        check_options(args, session)?;
        note_directory(app, session);
    }
    Ok(found)
}

/// Fails if the session does not exist and cannot be created under this name either.
async fn check_new_name(app: &Arc<App>, name: &str) -> Result<(), CommandError> {
    if name.parse::<SessionId>().is_err() {
        return resolve::check_new_name(name);
    }
    if let Some(agent) = adopt::find_owner(app, name).await? {
        let message = format!("`{name}` is a conversation of {agent} and not a session yet");
        return Err(CommandError::usage(message).with_hint(format!(
            "`angelia sessions adopt {agent} {name}` adopts it; the original stays as it is"
        )));
    }
    Err(EngineError::NotFound("session").into())
}

async fn find_last_here(app: &App, args: &RunArgs) -> Result<SessionResource, CommandError> {
    let cwd = match &args.cwd {
        Some(cwd) => absolute(cwd)?,
        None => std::env::current_dir().map_err(CommandError::internal)?,
    };
    let records = Records::open(app).await?;
    let mut found = records.sessions_by_use(Some(&cwd), Page::first(1)).await?;
    found.pop().ok_or_else(|| {
        CommandError::usage(format!("no session works in {}", cwd.display()))
            .with_hint("`angelia run` without -c starts one; `angelia sessions list` shows all")
    })
}

/// Resolves a path from the command line against the current directory, as a shell would.
pub(super) fn absolute(path: &Path) -> Result<PathBuf, CommandError> {
    std::path::absolute(path)
        .map_err(|error| CommandError::usage(format!("cannot work in {}: {error}", path.display())))
}

fn note_directory(app: &App, session: &SessionResource) {
    let is_elsewhere = std::env::current_dir().is_ok_and(|here| here != session.cwd);
    // In model mode, the directory is an empty one of ours.
    if is_elsewhere && session.mode == "agent" {
        let home = app.environment.home();
        print::note(&format!(
            "angelia: the session continues in its own directory, {}",
            tilde(&session.cwd, home.as_deref())
        ));
    }
}

/// Fails if the options ask for a different profile or directory than the session has. A session
/// keeps its settings, except for its model, and a conflicting option must not be silently ignored.
fn check_options(args: &RunArgs, session: &SessionResource) -> Result<(), CommandError> {
    let differs =
        |wanted: &Option<String>, has: &str| wanted.as_deref().is_some_and(|wanted| wanted != has);
    let is_elsewhere = match &args.cwd {
        Some(cwd) => absolute(cwd)? != session.cwd,
        None => false,
    };
    let what = if differs(&args.profile, &session.profile) {
        format!("the profile `{}`", session.profile)
    } else if is_elsewhere {
        format!("the directory {}", session.cwd.display())
    } else {
        return Ok(());
    };
    Err(CommandError::usage(format!("the session was started with {what} and keeps it"))
        .with_hint("leave out the option, or start another session"))
}
