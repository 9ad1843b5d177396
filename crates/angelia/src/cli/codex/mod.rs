//! `angelia codex`: adds our MCP servers, our tools and a working permission profile to the owner's
//! own Codex configuration, for owners who also use Codex without Angelia.
//!
//! - `desired_config`: derives the entries that Codex's configuration should contain from ours.
//! - `change`: `enable` and `disable`.
//! - `status`: reports the current entries and the changes that `enable` would make.
//! - `diff`: compares two texts line by line.

mod change;
mod desired_config;
mod diff;
mod status;
#[cfg(test)]
mod tests;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use angelia_core::{
    model::TurnState,
    ports::{Page, Store},
};
use angelia_executors::codex::{REGISTRATION, user_config::ConfigSyntaxError};
use clap::{Args, Subcommand};

use super::error::{CommandError, Exit};
use crate::{assemble::App, config::Environment, records::PAGE_SIZE};

#[derive(Debug, Subcommand)]
pub(crate) enum CodexCommand {
    /// Show the installed Codex, its login, and which of our entries its configuration has.
    Status {
        /// Print the findings as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Add our MCP servers and tools to Codex's own configuration, marked as ours, and nothing
    /// else.
    #[command(visible_alias = "on")]
    Enable(EnableArgs),
    /// Remove what `enable` added, which restores the file as it was before.
    #[command(visible_alias = "off")]
    Disable {
        /// Show what would change, without changing it.
        #[arg(long)]
        dry_run: bool,
    },
}

#[derive(Debug, Args)]
pub(crate) struct EnableArgs {
    /// Show what would change, without changing it.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Leave the default permissions as they are.
    #[arg(long)]
    pub(crate) no_permissions: bool,
    /// Leave installed plugins as they are.
    #[arg(long)]
    pub(crate) no_plugins: bool,
    /// Do not add our own tools (`angelia mcp`).
    #[arg(long)]
    pub(crate) no_tools: bool,
}

/// Runs the command. `file` is the configuration file named on the command line.
pub(crate) async fn run(
    app: &Arc<App>,
    file: Option<&Path>,
    command: &CodexCommand,
) -> Result<Exit, CommandError> {
    let home = find_codex_home(&app.environment)?;
    match command {
        CodexCommand::Status { json } => status::status(app, file, &home, *json).await,
        CodexCommand::Enable(args) => change::enable(app, file, &home, args).await,
        CodexCommand::Disable { dry_run } => change::disable(app, &home, *dry_run).await,
    }
}

/// Codex's own folder. If `CODEX_HOME` names it, it must already exist.
pub(super) struct CodexHome {
    pub(super) dir: PathBuf,
    pub(super) is_explicit: bool,
}

impl CodexHome {
    pub(super) fn config_path(&self) -> PathBuf {
        self.dir.join("config.toml")
    }
}

pub(super) fn find_codex_home(environment: &Environment) -> Result<CodexHome, CommandError> {
    if let Some(named) = environment.non_empty("CODEX_HOME") {
        return Ok(CodexHome { dir: named.into(), is_explicit: true });
    }
    let home = environment.home().ok_or_else(|| {
        let message = "cannot find Codex's folder: neither CODEX_HOME nor HOME is set";
        CommandError::new(Exit::Config, message).with_hint("set one of them")
    })?;
    Ok(CodexHome { dir: home.join(".codex"), is_explicit: false })
}

fn broken_config_error(home: &CodexHome, broken: &ConfigSyntaxError) -> CommandError {
    let message = format!("{}: {broken}", home.config_path().display());
    CommandError::new(Exit::Config, message).with_hint("correct it; nothing was changed")
}

/// Fails while Codex works on a turn, because that turn has already read the configuration and must
/// not see a different one halfway through.
async fn ensure_no_running_turn(store: &dyn Store) -> Result<(), CommandError> {
    let mut page = Page::first(PAGE_SIZE);
    loop {
        let turns = store.turns(None, page).await?;
        let Some(oldest) = turns.last() else { return Ok(()) };
        page.before = Some(oldest.id.as_uuid());
        for turn in turns {
            if matches!(turn.state, TurnState::Finished { .. } | TurnState::Parked { .. }) {
                continue;
            }
            let session = store.session(turn.session).await?;
            if session.is_some_and(|session| &*session.spec.executor == REGISTRATION.name) {
                let message = format!("Codex is working on turn {}; nothing was changed", turn.id);
                return Err(CommandError::new(Exit::TryLater, message)
                    .with_hint("wait for it to end, or `angelia turns interrupt` it"));
            }
        }
    }
}
