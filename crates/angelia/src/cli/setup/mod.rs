//! `angelia setup`: connects another program to Angelia. Without a flag, it only shows the changes;
//! `--write` makes them and `--undo` reverts them (`docs/design/0026-connecting-clients.md`).
//!
//! - [`client`]: the description of a client, with one file per client next to it.
//! - [`apply`]: shows, writes and undoes changes; [`key_pickup`], [`git_tracking`]: its checks.
//! - [`local_server`]: model servers, for which we add a profile; one file per server.
//! - [`marked_block`], [`config_entries`], [`json_entry`] (using [`json_text`]), [`own_file`]: how
//!   files are edited. Pure.
//! - [`hermes`]: the names of Hermes' bus programs.

mod aider;
mod apply;
mod claude;
mod client;
mod codex;
mod config_entries;
mod git_tracking;
pub(crate) mod hermes;
mod jetbrains;
mod json_entry;
mod json_text;
mod key_pickup;
mod llamacpp;
mod llm;
mod local_server;
mod marked_block;
mod neovim;
mod ollama;
mod open_webui;
mod own_file;
#[cfg(test)]
mod tests;
mod zed;

use std::path::Path;

use clap::{Args, Subcommand};

use self::apply::ClientSetup;
use super::error::{CommandError, Exit};
use crate::config::Environment;

#[derive(Debug, Subcommand)]
pub(crate) enum SetupCommand {
    /// Claude Code: settings for `claude --settings`.
    Claude(ClientArgs),
    /// Codex: a model provider and a profile; no default changes.
    Codex(ModelClientArgs),
    /// Aider: its address, key and model.
    Aider(ModelClientArgs),
    /// The `llm` program: a model called `angelia`.
    Llm(ModelClientArgs),
    #[command(about = "Open WebUI: a file with its variables")]
    OpenWebui(ClientArgs),
    /// Zed: Angelia as an agent.
    Zed(ClientArgs),
    /// Neovim: a module for plugins that use ACP agents.
    Neovim(ClientArgs),
    #[command(about = "JetBrains' IDEs: Angelia as an agent")]
    Jetbrains(ClientArgs),
    /// Ollama: a profile for one of its models.
    Ollama(local_server::ServerArgs),
    #[command(about = "llama.cpp: a profile for its model")]
    Llamacpp(local_server::ServerArgs),
    /// Make the hermes-bus programs available under their own names, as links to Angelia.
    Hermes(hermes::HermesArgs),
}

#[derive(Debug, Args)]
pub(crate) struct ClientArgs {
    #[command(flatten)]
    pub(crate) change: SetupChange,
}

#[derive(Debug, Args)]
pub(crate) struct ModelClientArgs {
    #[command(flatten)]
    pub(crate) change: SetupChange,

    /// The model for the client to use, such as `codex/default`.
    #[arg(long, short, value_name = "MODEL")]
    pub(crate) model: Option<String>,
}

/// Whether to change something, and in which direction.
#[derive(Debug, Args)]
#[group(multiple = false)]
pub(crate) struct SetupChange {
    /// Set it up.
    #[arg(long)]
    pub(crate) write: bool,
    /// Remove what `--write` added.
    #[arg(long)]
    pub(crate) undo: bool,
}

impl SetupCommand {
    /// Returns whether the command only shows the current state.
    pub(crate) fn is_read_only(&self) -> bool {
        let change = self.change();
        !change.write && !change.undo
    }

    fn change(&self) -> &SetupChange {
        match self {
            Self::Hermes(hermes::HermesArgs { change, .. }) => change,
            Self::Claude(args)
            | Self::OpenWebui(args)
            | Self::Zed(args)
            | Self::Neovim(args)
            | Self::Jetbrains(args) => &args.change,
            Self::Codex(args) | Self::Aider(args) | Self::Llm(args) => &args.change,
            Self::Ollama(args) | Self::Llamacpp(args) => &args.change,
        }
    }
}

/// Runs the command. `file` is the configuration file named on the command line.
pub(crate) fn run(
    command: &SetupCommand,
    environment: &Environment,
    file: Option<&Path>,
) -> Result<Exit, CommandError> {
    let (client, model) = match command {
        SetupCommand::Hermes(args) => return hermes::run(args, environment),
        SetupCommand::Ollama(args) => {
            return local_server::run(&ollama::SERVER, args, environment, file);
        }
        SetupCommand::Llamacpp(args) => {
            return local_server::run(&llamacpp::SERVER, args, environment, file);
        }
        SetupCommand::Claude(_) => (&claude::CLIENT, None),
        SetupCommand::Codex(args) => (&codex::CLIENT, args.model.as_deref()),
        SetupCommand::Aider(args) => (&aider::CLIENT, args.model.as_deref()),
        SetupCommand::Llm(args) => (&llm::CLIENT, args.model.as_deref()),
        SetupCommand::OpenWebui(_) => (&open_webui::CLIENT, None),
        SetupCommand::Zed(_) => (&zed::CLIENT, None),
        SetupCommand::Neovim(_) => (&neovim::CLIENT, None),
        SetupCommand::Jetbrains(_) => (&jetbrains::CLIENT, None),
    };
    let change = command.change();
    let setup = ClientSetup::new(client, environment, file, model)?;
    if change.undo {
        setup.undo()
    } else if change.write {
        setup.write()
    } else {
        setup.show()
    }
}
