//! `angelia mcp`: serves our tools to one MCP client, over stdin and stdout.
//!
//! - `backend`: implements the tools on this home.
//! - `delegate`: runs a turn on another profile; `follow`: follows it to its end.
//! - `bus`: sends messages and reports the state of the bus.

mod backend;
mod bus;
mod delegate;
mod follow;

use std::sync::Arc;

use angelia_core::task::TaskGroup;
use angelia_frontends::mcp;
use clap::Args;
use tokio_util::sync::CancellationToken;

use self::backend::HomeToolBackend;
use super::error::{CommandError, Exit};
use crate::{assemble::App, daemon::ShutdownSignals};

#[derive(Debug, Args)]
pub(crate) struct McpArgs {
    /// The profile whose `delegate_to` lists where work may be delegated; `default` when none is
    /// named. For an agent that Angelia drives it is always its own profile's.
    #[arg(short, long)]
    pub(crate) profile: Option<String>,
}

pub(crate) async fn run(app: &Arc<App>, args: McpArgs) -> Result<Exit, CommandError> {
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
