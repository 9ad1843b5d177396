//! Derives the entries that Codex's configuration should contain from our configuration.

use std::path::Path;

use angelia_executors::codex::user_config::{DesiredConfig, OwnServerLaunch, plugins};

use super::{CodexHome, EnableArgs};
use crate::{assemble::App, cli::error::CommandError, program::ProgramCall};

/// The desired configuration, and the problems found while collecting it.
pub(super) struct DesiredEntries {
    pub(super) config: DesiredConfig,
    pub(super) problems: Vec<String>,
}

pub(super) fn collect_desired(
    app: &App,
    file: Option<&Path>,
    home: &CodexHome,
    args: &EnableArgs,
) -> Result<DesiredEntries, CommandError> {
    let mut problems = Vec::new();
    let plugins = if args.no_plugins {
        Vec::new()
    } else {
        plugins::list_curated(&home.dir).unwrap_or_else(|error| {
            problems.push(format!("plugins: cannot be listed: {error}"));
            Vec::new()
        })
    };
    let own = if args.no_tools { None } else { Some(own_tools_command(app, file)?) };
    let servers = app.config.mcp_servers().iter();
    let servers =
        servers.filter_map(|(name, server)| Some((name.0.as_ref().into(), server.to_raw_json()?)));
    Ok(DesiredEntries {
        config: DesiredConfig {
            servers: servers.collect(),
            own_server: own,
            workspace_writes: !args.no_permissions,
            plugins,
        },
        problems,
    })
}

/// Returns the command line of `angelia mcp`. Codex passes hardly any environment to its servers,
/// so our `--config` and `ANGELIA_HOME` must be repeated there.
fn own_tools_command(app: &App, file: Option<&Path>) -> Result<OwnServerLaunch, CommandError> {
    let ProgramCall { program, arguments, env } =
        ProgramCall::find(&app.environment, &app.home, file, "mcp")?;
    Ok(OwnServerLaunch { program, arguments, env })
}
