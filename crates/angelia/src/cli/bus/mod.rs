//! `angelia bus …`, also as `hermes-busd` and `hermes-bus-server`.
//!
//! - `service`: starts, stops and restarts the bus; `status`: reports its state.
//! - `listen`: receives messages under a name and applies the rules to them.
//! - `dead_letters`: lists, resends and discards messages that could not be delivered.

mod dead_letters;
mod listen;
mod service;
mod status;

use std::{path::PathBuf, sync::Arc};

use clap::{Args, Subcommand};

use super::{
    error::{CommandError, Exit},
    notify::NotifyArgs,
};
use crate::{assemble::App, bus::standalone};

#[derive(Debug, Subcommand)]
pub(crate) enum BusCommand {
    /// Start the bus in the background, and wait until it is ready.
    Start,
    /// Stop a bus that runs on its own.
    Stop,
    /// Stop the bus, then start it.
    Restart,
    /// Show whether the bus runs, who listens and what waits; exit 1 when it does not run.
    Status {
        #[arg(long)]
        json: bool,
    },
    /// Run the bus in the foreground.
    Run {
        /// Detach from the terminal, and report readiness on standard output.
        #[arg(long, hide = true)]
        detached: bool,
    },
    /// Receive messages under a name, and follow the rules for them.
    Listen(ListenArgs),
    /// Send one message; the same as `angelia notify`.
    Send(NotifyArgs),
    /// Manage messages that were not received in time, or that were refused.
    #[command(subcommand)]
    Dead(DeadCommand),
}

#[derive(Debug, Args)]
pub(crate) struct ListenArgs {
    /// The name to receive under.
    pub(super) endpoint: String,
    /// Print the messages as they are, one JSON object per line, and follow no rules.
    #[arg(long)]
    pub(super) json: bool,
    /// If the name is taken, use `NAME-2`, `NAME-3` … instead of displacing its holder.
    #[arg(long)]
    pub(super) suffix: bool,
    /// A file with a token that protects the name, or proves the right to a protected one.
    #[arg(long, value_name = "FILE")]
    pub(super) token_file: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum DeadCommand {
    /// List the newest dead letters.
    List {
        #[arg(short = 'n', long, default_value_t = 20)]
        limit: usize,
        /// Print JSON, one object per line.
        #[arg(long)]
        json: bool,
    },
    /// Send dead letters again.
    Resend {
        #[arg(required = true)]
        numbers: Vec<u64>,
    },
    /// Discard dead letters.
    Discard {
        #[arg(required = true)]
        numbers: Vec<u64>,
    },
}

pub(crate) async fn run(
    app: &Arc<App>,
    config: Option<&std::path::Path>,
    command: BusCommand,
) -> Result<Exit, CommandError> {
    match command {
        BusCommand::Start => service::start(app, config).await,
        BusCommand::Stop => service::stop(app).await,
        BusCommand::Restart => {
            service::stop(app).await?;
            service::start(app, config).await
        }
        BusCommand::Status { json } => status::run(app, json).await,
        BusCommand::Run { detached } => standalone::run(app, detached).await,
        BusCommand::Listen(args) => listen::run(app, args).await,
        BusCommand::Dead(command) => dead_letters::run(app, command).await,
        // `cli::dispatch` handles `send` before it reads the configuration, which a sender does not
        // need.
        BusCommand::Send(_) => Ok(Exit::Done),
    }
}
