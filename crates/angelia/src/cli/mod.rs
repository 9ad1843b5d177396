//! The command line: one file per command, and what they share.
//!
//! - [`args`]: what can be typed.
//! - [`error`]: how commands fail, and their exit codes.
//! - [`run`]: one turn, shown to a person or printed as events.
//! - [`sessions`], [`turns`]: what has been recorded, and what goes on.
//! - [`approvals`]: what agents wait for, and the owner's decisions.
//! - [`acp`]: an ACP agent over stdio, for editors.
//! - [`bridge`]: JSONL over stdio, for host applications.
//! - [`bus`]: the message bus.
//! - [`notify`]: one message to an endpoint, or into a tmux session.
//! - [`codex`]: what of ours is in Codex's own configuration.
//! - [`mcp`]: our tools for an MCP client.
//! - [`keys`]: who else may use the model APIs.
//! - [`doctor`]: what is installed and what is missing.
//! - [`config`]: the configuration file.

mod acp;
mod approvals;
pub(crate) mod args;
mod bridge;
mod bus;
mod codex;
mod config;
mod doctor;
pub(crate) mod error;
mod keys;
mod mcp;
pub(crate) mod notify;
mod print;
mod run;
mod sessions;
mod turns;

use std::{ffi::OsString, process::ExitCode, sync::Arc};

use angelia_core::task::as_task;
use clap::{CommandFactory, Parser};

use self::{
    args::{Cli, Command},
    bus::BusCommand,
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
    if let Some(ended) =
        notify::by_name(called_as().as_deref(), std::env::args_os().skip(1).collect())
    {
        return ended;
    }
    let cli = match Cli::try_parse_from(as_typed()) {
        Ok(cli) => cli,
        Err(error) => {
            // `--help` and `--version` come this way too, and are no failures.
            let exit = if error.use_stderr() { Exit::Usage } else { Exit::Done };
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

/// Other names of this program, and the commands they stand for. Names that only send are with
/// [`notify`].
const NAMES: [(&str, &[&str]); 2] =
    [("hermes-busd", &["bus"]), ("hermes-bus-server", &["bus", "run"])];

/// What was typed, as if it had been typed after `angelia`.
fn as_typed() -> Vec<OsString> {
    let mut args: Vec<OsString> = std::env::args_os().collect();
    let name = called_as();
    let stands_for = NAMES.iter().find(|(other, _)| name.as_deref() == Some(*other));
    if let Some((_, command)) = stands_for {
        let after_name = args.len().min(1);
        args.splice(after_name..after_name, command.iter().map(OsString::from));
    }
    args
}

/// The name that the program was called by: one binary, the name decides.
fn called_as() -> Option<String> {
    let path = std::env::args_os().next()?;
    let name = std::path::Path::new(&path).file_name()?;
    name.to_str().map(str::to_owned)
}

fn dispatch(cli: Cli) -> Result<Exit, CommandError> {
    let command = match cli.command {
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "angelia", &mut script);
            return print::bytes(&script);
        }
        Command::Bridge(args) if args.schema => return bridge::print_schema(),
        Command::Notify(args) | Command::Bus(BusCommand::Send(args)) => return notify::main(args),
        command => command,
    };
    let environment = Environment::capture();
    crate::log::start(&environment, is_talkative(&command));
    if let Command::Config(command) = command {
        return config::run(&command, &environment, cli.config.as_deref());
    }
    if let Command::Keys(command) = command {
        return keys::run(&command, &environment, cli.config.as_deref());
    }
    let listen = match &command {
        Command::Serve(args) => args.listen.clone(),
        _ => None,
    };
    let flags: Vec<(&str, &str)> = listen.iter().map(|addr| ("listen", addr.as_str())).collect();
    let app = Arc::new(App::load(environment, cli.config.as_deref(), &flags)?);
    let runtime = runtime(&command)?;
    let exit = runtime.block_on(as_task(async move {
        match command {
            Command::Run(args) => run::run(&app, args).await,
            Command::Serve(_) => crate::daemon::serve(&app).await,
            Command::Acp(args) => acp::run(&app, args).await,
            Command::Bridge(args) => bridge::run(&app, args).await,
            Command::Sessions(command) => sessions::run(&app, command).await,
            Command::Turns(command) => turns::run(&app, command).await,
            Command::Approvals(command) => approvals::run(&app, command).await,
            Command::Bus(command) => bus::run(&app, cli.config.as_deref(), command).await,
            Command::Codex(command) => codex::run(&app, cli.config.as_deref(), &command).await,
            Command::Mcp(args) => mcp::run(&app, args).await,
            Command::Doctor(args) => doctor::run(&app, &args).await,
            Command::Config(_)
            | Command::Keys(_)
            | Command::Completions { .. }
            | Command::Notify(_) => Ok(Exit::Done),
        }
    }));
    // A thread that waits for the keyboard cannot be joined.
    runtime.shutdown_background();
    exit
}

fn is_daemon(command: &Command) -> bool {
    matches!(command, Command::Serve(_) | Command::Bus(BusCommand::Run { .. }))
}

/// Tells on stderr what happens.
fn is_talkative(command: &Command) -> bool {
    is_daemon(command) || matches!(command, Command::Bridge(args) if args.verbose)
}

/// One thread for a command; the daemon serves many at once.
fn runtime(command: &Command) -> Result<tokio::runtime::Runtime, CommandError> {
    let mut builder = match command {
        daemon if is_daemon(daemon) => {
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
