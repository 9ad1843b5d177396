//! `angelia status`: the daemon, its agents, turns, approvals, the bus, quotas, and today's cost.

mod render;
mod watch;

use std::io::IsTerminal as _;

use angelia_frontends::http::resources::StatusResource;
use jiff::Timestamp;

pub(crate) use self::render::format_quota;
use super::{
    args::StatusArgs,
    error::{CommandError, Exit},
    print,
    view::{View, is_dumb},
};
use crate::{assemble::App, records::Records};

pub(crate) async fn run(app: &App, args: StatusArgs) -> Result<Exit, CommandError> {
    if args.watch {
        let is_live = std::io::stdout().is_terminal() && !is_dumb(&app.environment);
        return watch::run(app, args.json, is_live).await;
    }
    let status = read(app).await?;
    let shown = format(app, &status, args.json)?;
    print::styled(&shown)?;
    Ok(exit_code(&status))
}

async fn read(app: &App) -> Result<StatusResource, CommandError> {
    Records::open(app).await?.status().await
}

fn format(app: &App, status: &StatusResource, json: bool) -> Result<String, CommandError> {
    if json {
        let mut line = Vec::new();
        print::json_line(status, &mut line)?;
        return String::from_utf8(line).map_err(CommandError::internal);
    }
    Ok(render::render(status, &View::of_stdout(&app.environment), Timestamp::now()))
}

/// Returns the exit code, which tells scripts whether a daemon runs.
fn exit_code(status: &StatusResource) -> Exit {
    if status.daemon.running { Exit::Done } else { Exit::Unavailable }
}
