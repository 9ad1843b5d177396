//! `angelia codex`: our MCP servers, our tools and a working permission profile in the owner's own
//! configuration of Codex, for those who also use it without us.
//!
//! - `wish`: what shall be there, by our configuration.
//! - `change`: `enable` and `disable`.
//! - `status`: what is there, and what would change.
//! - `diff`: two texts, compared by lines.

mod change;
mod diff;
mod status;
mod wish;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use angelia_core::{model::TurnState, ports::Page};
use angelia_executors::codex::{
    REGISTRATION,
    settings::{Broken, file::FileError},
};
use clap::{Args, Subcommand};

use super::error::{CommandError, Exit};
use crate::{
    assemble::{App, Local},
    config::Environment,
};

#[derive(Debug, Subcommand)]
pub(crate) enum CodexCommand {
    /// Which Codex is installed, who is logged in, and what of ours its configuration holds.
    Status {
        /// Print the findings as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Add our MCP servers and tools to Codex's own configuration, marked, and nothing else.
    #[command(visible_alias = "on")]
    Enable(EnableArgs),
    /// Take away what `enable` has added: the file is as it was.
    #[command(visible_alias = "off")]
    Disable {
        /// Show what would change, and change nothing.
        #[arg(long)]
        dry_run: bool,
    },
}

#[derive(Debug, Args)]
pub(crate) struct EnableArgs {
    /// Show what would change, and change nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Leave the default permissions as they are.
    #[arg(long)]
    pub(crate) no_permissions: bool,
    /// Leave installed plugins as they are.
    #[arg(long)]
    pub(crate) no_plugins: bool,
    /// Without our own tools (`angelia mcp`).
    #[arg(long)]
    pub(crate) no_tools: bool,
}

/// `file`: the configuration that was named on the command line.
pub(crate) async fn run(
    app: &Arc<App>,
    file: Option<&Path>,
    command: &CodexCommand,
) -> Result<Exit, CommandError> {
    let home = codex_home(&app.environment)?;
    match command {
        CodexCommand::Status { json } => status::status(app, file, &home, *json).await,
        CodexCommand::Enable(args) => {
            super::keys::not_an_agent(&app.environment, "change what Codex may do")?;
            change::enable(app, file, &home, args).await
        }
        CodexCommand::Disable { dry_run } => {
            super::keys::not_an_agent(&app.environment, "change what Codex may do")?;
            change::disable(app, &home, *dry_run).await
        }
    }
}

/// The folder of Codex, and whether it must be there already.
struct CodexHome {
    dir: PathBuf,
    is_named: bool,
}

impl CodexHome {
    fn config(&self) -> PathBuf {
        self.dir.join("config.toml")
    }
}

fn codex_home(environment: &Environment) -> Result<CodexHome, CommandError> {
    if let Some(named) = environment.non_empty("CODEX_HOME") {
        return Ok(CodexHome { dir: named.into(), is_named: true });
    }
    let home = environment.home().ok_or_else(|| {
        let message = "there is no folder of Codex: neither CODEX_HOME nor HOME is set";
        CommandError::new(Exit::Config, message).with_hint("set one of them")
    })?;
    Ok(CodexHome { dir: home.join(".codex"), is_named: false })
}

fn broken(home: &CodexHome, broken: &Broken) -> CommandError {
    let message = format!("{}: {broken}", home.config().display());
    CommandError::new(Exit::Config, message).with_hint("correct it; nothing was changed")
}

impl From<FileError> for CommandError {
    fn from(error: FileError) -> Self {
        let (exit, hint) = match &error {
            FileError::NotText(_) => (Exit::Config, "correct it; nothing was changed"),
            FileError::Busy(_) | FileError::Changed(_) => {
                (Exit::TryLater, "nothing was changed; try again")
            }
            FileError::Io { .. } => (Exit::Failed, "nothing was changed"),
        };
        Self::new(exit, error.to_string()).with_hint(hint)
    }
}

/// A running turn has read the configuration already, and must not find another one half-way.
async fn no_turn_is_running(local: &Local) -> Result<(), CommandError> {
    let newest = local.store.turns(None, Page::first(200)).await?;
    for turn in newest {
        let is_over = matches!(turn.state, TurnState::Finished { .. } | TurnState::Parked { .. });
        if is_over {
            continue;
        }
        let session = local.store.session(turn.session).await?;
        if session.is_some_and(|session| &*session.spec.executor == REGISTRATION.name) {
            let message = format!("Codex is working on turn {}; nothing was changed", turn.id);
            return Err(CommandError::new(Exit::TryLater, message)
                .with_hint("wait for it to end, or `angelia turns interrupt` it"));
        }
    }
    Ok(())
}
