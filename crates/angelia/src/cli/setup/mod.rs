//! `angelia setup`: connects another program with Angelia. Without a flag it only shows what it
//! would do; `--write` does it and `--undo` takes it back.
//!
//! - [`hermes`]: the names of Hermes' bus programs.

pub(crate) mod hermes;

use clap::{Args, Subcommand};

use super::error::{CommandError, Exit};
use crate::config::Environment;

#[derive(Debug, Subcommand)]
pub(crate) enum SetupCommand {
    /// Make the programs of hermes-bus available under their own names, as links to Angelia.
    Hermes(hermes::HermesArgs),
}

/// Whether to change something, and in which direction.
#[derive(Debug, Args)]
#[group(multiple = false)]
pub(crate) struct SetupChange {
    /// Set it up.
    #[arg(long)]
    pub(crate) write: bool,
    /// Remove what `--write` has added.
    #[arg(long)]
    pub(crate) undo: bool,
}

impl SetupCommand {
    /// Returns whether the command only shows what there is.
    pub(crate) fn is_read_only(&self) -> bool {
        let Self::Hermes(hermes::HermesArgs { change, .. }) = self;
        !change.write && !change.undo
    }
}

pub(crate) fn run(command: &SetupCommand, environment: &Environment) -> Result<Exit, CommandError> {
    match command {
        SetupCommand::Hermes(args) => hermes::run(args, environment),
    }
}
