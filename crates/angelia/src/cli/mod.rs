//! The command line: one file per command, and what they share.
//!
//! - [`args`]: what can be typed.
//! - [`error`]: how commands fail, and their exit codes.
//! - [`run`]: one turn, shown to a person or printed as events.
//! - [`sessions`], [`turns`]: what has been recorded, and what goes on.
//! - [`approvals`]: what agents wait for, and the owner's decisions.
//! - [`doctor`]: what is installed and what is missing.
//! - [`config`]: the configuration file.

mod approvals;
pub(crate) mod args;
mod config;
mod doctor;
pub(crate) mod error;
mod print;
mod run;
mod sessions;
mod turns;

use std::{process::ExitCode, sync::Arc};

use clap::{CommandFactory, Parser};

use self::{
    args::{Cli, Command},
    error::{CommandError, Exit},
};
use crate::{assemble::App, config::Environment};

/// Runs the command that was typed and returns how it ended; errors are printed here.
pub(crate) fn main() -> ExitCode {
    // The demo agent is a child of ours: it starts at once, and small, without the rest.
    let mut args = std::env::args().skip(1);
    if args.next().as_deref() == Some(angelia_executors::parrot::SUBCOMMAND) {
        return angelia_executors::parrot::main(args).into();
    }
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // `--help` and `--version` come this way too, and are no failures.
            let exit = if error.use_stderr() {
                Exit::Usage
            } else {
                Exit::Done
            };
            let _closed = error.print();
            return exit.into();
        }
    };
    match dispatch(cli) {
        Ok(exit) => exit.into(),
        Err(error) => {
            print::error(&error);
            error.exit.into()
        }
    }
}

fn dispatch(cli: Cli) -> Result<Exit, CommandError> {
    let command = match cli.command {
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "angelia", &mut script);
            return print::bytes(&script);
        }
        command => command,
    };
    let environment = Environment::capture();
    crate::log::start(&environment, matches!(command, Command::Serve(_)));
    if let Command::Config(command) = command {
        return config::run(&command, &environment, cli.config.as_deref());
    }
    let listen = match &command {
        Command::Serve(args) => args.listen.clone(),
        _ => None,
    };
    let flags: Vec<(&str, &str)> = listen
        .iter()
        .map(|addr| ("listen", addr.as_str()))
        .collect();
    let app = Arc::new(App::load(environment, cli.config.as_deref(), &flags)?);
    let runtime = runtime(&command)?;
    let exit = runtime.block_on(async {
        match command {
            Command::Run(args) => run::run(&app, args).await,
            Command::Serve(_) => crate::daemon::serve(&app).await,
            Command::Sessions(command) => sessions::run(&app, command).await,
            Command::Turns(command) => turns::run(&app, command).await,
            Command::Approvals(command) => approvals::run(&app, command).await,
            Command::Doctor(args) => doctor::run(&app, &args).await,
            Command::Config(_) | Command::Completions { .. } => Ok(Exit::Done),
        }
    });
    // A thread that waits for the keyboard cannot be joined.
    runtime.shutdown_background();
    exit
}

/// One thread for a command; the daemon serves many at once.
fn runtime(command: &Command) -> Result<tokio::runtime::Runtime, CommandError> {
    let mut builder = match command {
        Command::Serve(_) => {
            let mut builder = tokio::runtime::Builder::new_multi_thread();
            let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
            builder.worker_threads(cores.min(4));
            builder
        }
        _ => tokio::runtime::Builder::new_current_thread(),
    };
    builder
        .enable_all()
        .build()
        .map_err(|error| CommandError::internal(format!("cannot start the runtime: {error}")))
}
