//! `angelia run --detach`: passes the turn to the daemon and exits.

use std::{path::Path, sync::Arc};

use angelia_core::model::Content;

use super::{continued_session, submit};
use crate::{
    assemble::App,
    cli::{
        agent_use::ensure_owner_works_alone,
        args::RunArgs,
        error::{CommandError, Exit},
        lifecycle::start,
        print,
    },
    home_turns::{find_daemon, running_daemon},
};

/// Submits the turn to the daemon, starting one if necessary, and prints the turn's id.
pub(super) async fn run(
    app: &Arc<App>,
    config: Option<&Path>,
    args: &RunArgs,
    input: Vec<Content>,
    at_terminal: bool,
) -> Result<Exit, CommandError> {
    if running_daemon(app).await.is_none() {
        ensure_owner_works_alone(&app.environment)?;
        start::ensure_running(app, config).await?;
    }
    let Some(daemon) = find_daemon(app).await else {
        let message = "--detach needs a daemon with the settings of this command";
        return Err(CommandError::new(Exit::Unavailable, message)
            .with_hint("leave out --config and the variables, or stop the daemon first"));
    };
    let continued = continued_session::find(app, args).await?.map(|session| session.id);
    let session = submit::open_session(app, &daemon, args, continued, at_terminal).await?;
    let turn = submit::NewTurn {
        session: session.id,
        input,
        // Any client that may decide can answer, so nobody has to wait at this terminal.
        can_ask: true,
        one_off: false,
    };
    let accepted = submit::submit(&daemon, turn).await?;
    print::line(&accepted.turn.to_string())
}
