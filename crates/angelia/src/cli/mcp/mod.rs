//! `angelia mcp`: serves our tools to one MCP client over stdin and stdout, and logs in to the configured MCP
//! servers.
//!
//! - `backend`: implements the tools on this home.
//! - `bus`: sends messages and reports the state of the bus.
//! - `login`: logs in to a server and out again.

mod backend;
mod bus;
mod login;

use std::sync::Arc;

use angelia_core::task::TaskGroup;
use angelia_frontends::mcp;
use clap::{Args, Subcommand};
use tokio_util::sync::CancellationToken;

use self::backend::HomeToolBackend;
use super::error::{CommandError, Exit};
use crate::{assemble::App, daemon::ShutdownSignals};

#[derive(Debug, Args)]
pub(crate) struct McpArgs {
    /// The profile whose `delegate_to` lists where work may be delegated; `default` when none is named. For
    /// an agent that Angelia drives, this is always the agent's own profile.
    #[arg(short, long)]
    pub(crate) profile: Option<String>,
    #[command(subcommand)]
    pub(crate) command: Option<McpCommand>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum McpCommand {
    /// Log in to a configured MCP server that has `oauth`: shows a code to confirm on another page.
    Login {
        /// The server.
        name: String,
    },
    /// Forget the login to an MCP server.
    Logout {
        /// The server.
        name: String,
    },
}

pub(crate) async fn run(app: &Arc<App>, args: McpArgs) -> Result<Exit, CommandError> {
    match &args.command {
        Some(McpCommand::Login { name }) => login::log_in(app, name).await,
        Some(McpCommand::Logout { name }) => login::log_out(app, name).await,
        None => serve(app, args).await,
    }
}

async fn serve(app: &Arc<App>, args: McpArgs) -> Result<Exit, CommandError> {
    let profile = args.profile.unwrap_or_else(|| app.config.default_profile().to_owned());
    if !app.config.profile_names().any(|name| name == profile) {
        let known: Vec<&str> = app.config.profile_names().collect();
        let what = format!("there is no profile `{profile}`");
        return Err(CommandError::usage(what).with_hint(format!("known: {}", known.join(", "))));
    }
    let mut signals = ShutdownSignals::listen().map_err(CommandError::internal)?;
    let ended = CancellationToken::new();
    let tasks = TaskGroup::new();
    let end = ended.clone();
    tasks.spawn_until_stopped(async move {
        signals.wait().await;
        end.cancel();
    });
    let backend = Arc::new(HomeToolBackend::new(app, profile));
    let served = mcp::serve(
        Arc::clone(&backend) as _,
        env!("CARGO_PKG_VERSION"),
        tokio::io::stdin(),
        tokio::io::stdout(),
        ended,
    )
    .await;
    backend.close().await;
    tasks.shutdown(std::time::Duration::from_secs(1)).await;
    match served {
        Ok(()) => Ok(Exit::Done),
        Err(refused) => Err(CommandError::new(Exit::Failed, refused.message)
            .with_hint("start `angelia mcp` from an MCP client; see docs/mcp.md")),
    }
}
