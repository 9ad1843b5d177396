//! `angelia agents`: the agents on this machine, and versions of them in separate folders
//! (`docs/design/0027-selftest.md`).
//!
//! - [`list`]: the installed agents, and the profiles that use them.
//! - [`install`]: installs a version with npm, completely or not at all; `npm`: calls npm.
//! - [`remove`]: removes a version.

mod install;
mod list;
mod npm;
mod remove;

use clap::Subcommand;

use super::error::{CommandError, Exit};
use crate::{
    assemble::App,
    config::{AgentVersion, installable},
};

#[derive(Debug, Subcommand)]
pub(crate) enum AgentsCommand {
    /// List the agents on this machine: version, login, and the profiles that use them.
    List {
        /// Print JSON, one object per line.
        #[arg(long)]
        json: bool,
    },
    /// Install a version of an agent with npm, alongside the one on `PATH`.
    Install {
        /// `claude` or `codex`, with `@VERSION` for a version other than the newest.
        #[arg(value_name = "NAME[@VERSION]")]
        agent: String,
    },
    /// Remove a version that `install` has installed.
    Remove {
        #[arg(value_name = "NAME@VERSION")]
        agent: String,
    },
}

pub(crate) async fn run(app: &App, command: &AgentsCommand) -> Result<Exit, CommandError> {
    match command {
        AgentsCommand::List { json } => list::run(app, *json).await,
        AgentsCommand::Install { agent } => install::run(app, agent).await,
        AgentsCommand::Remove { agent } => remove::run(app, agent),
    }
}

/// Returns the error for a name that cannot be installed.
fn unknown_agent(text: &str) -> CommandError {
    let names: Vec<&str> = installable().map(|(kind, _)| kind.name).collect();
    CommandError::usage(format!("`{text}` is not an agent that Angelia can install"))
        .with_hint(format!("NAME or NAME@VERSION, with one of: {}", names.join(", ")))
}

/// Returns the profiles that pin this version.
fn pinned_by(app: &App, version: &AgentVersion) -> Vec<String> {
    let launcher = version.launcher(&app.home);
    let programs = super::doctor::programs_of(app, version.registration.name).into_iter();
    let pinning = programs.filter(|(spec, _)| spec.binary.as_ref() == Some(&launcher));
    pinning.flat_map(|(_, profiles)| profiles).collect()
}
