//! The command line: one module per command, and the parts they share.
//!
//! - [`agent_use`]: decides which commands an agent's process may use.
//! - [`args`]: the commands and flags that clap parses.
//! - [`error`]: command errors and exit codes.
//! - [`print`]: writes to stdout and stderr; [`pager`]: shows a long text; [`view`],
//!   [`text_width`]: the width and the colours of a report.
//! - [`run`]: runs one turn, rendered for a person or printed as events; [`chat`]: turn after turn.
//! - [`markdown`]: lays out an answer for a terminal.
//! - [`sessions`], [`turns`]: recorded conversations, and turns that are running or finished.
//! - [`approvals`]: pending approvals, and the owner's decisions.
//! - [`status`]: the daemon, its agents and turns; [`usage`]: the usage of turns.
//! - [`dashboard`]: opens the web page, signed in.
//! - [`schedule`]: turns that start on their own.
//! - [`audit`]: who decided, changed, deleted or exposed something.
//! - [`channels`]: chat platforms; [`access`]: who may talk there.
//! - [`acp`]: an ACP agent over stdio, for editors.
//! - [`bridge`]: JSONL over stdio, for host applications.
//! - [`lifecycle`]: starts, stops and restarts the daemon, and prints its log; [`service`]: lets the
//!   system start it.
//! - [`bus`]: the message bus.
//! - [`notify`]: sends one message to an endpoint, or types text into a tmux session.
//! - [`codex`]: manages Angelia's entries in Codex's own configuration.
//! - [`mcp`]: serves our tools to an MCP client.
//! - [`keys`]: API keys that let others use the model APIs.
//! - [`env`](mod@env): variables for clients; [`setup`]: connects other programs to Angelia by editing
//!   their files ([`user_file`]).
//! - [`package_files`]: writes the man pages, completions and links that packages contain.
//! - [`doctor`]: reports the installed agents, with advice on missing ones.
//! - [`agents`]: the agents on this machine, and the versions of them installed by npm.
//! - [`providers`]: the model providers for the built-in loop.
//! - [`memory`]: what agents remember from session to session.
//! - [`selftest`]: checks the installed agents against a scripted model.
//! - [`config`]: the configuration file.
//! - [`table`], [`local_time`]: lists for people.

mod access;
mod acp;
pub(crate) mod agent_use;
mod agents;
mod approvals;
pub(crate) mod args;
mod audit;
mod bridge;
mod bus;
mod channels;
mod chat;
mod codex;
mod config;
mod dashboard;
mod doctor;
mod env;
pub(crate) mod error;
mod keys;
pub(crate) mod lifecycle;
mod local_time;
mod login;
mod markdown;
mod mcp;
mod memory;
pub(crate) mod notify;
mod package_files;
mod pager;
pub(crate) mod print;
mod providers;
pub(crate) mod run;
mod schedule;
mod selftest;
mod service;
mod sessions;
mod setup;
mod status;
mod table;
mod text_width;
mod turns;
mod usage;
mod user_file;
pub(crate) mod view;

use std::{ffi::OsString, process::ExitCode, sync::Arc};

use angelia_core::task::run_as_task;
use angelia_executors::{parrot, process::hidden_subcommand};
use clap::{CommandFactory, Parser};

use self::{
    args::{Cli, Command},
    bus::BusCommand,
    error::{CommandError, Exit},
};
use crate::{
    assemble::App,
    config::{Environment, Home},
    home_turns::running_daemon,
};

/// Runs the command given on the command line, prints its error, if any, and returns its exit code.
pub(crate) fn main() -> ExitCode {
    // Angelia starts the demo agent and its own helpers as child processes. These skip the rest of `main`, so
    // that they start fast and stay small.
    let mut args = std::env::args_os().skip(1);
    match args.next().as_ref().and_then(|name| name.to_str()) {
        Some(parrot::SUBCOMMAND) => {
            let args = args.map(|argument| argument.to_string_lossy().into_owned());
            return parrot::main(args).into();
        }
        Some(hidden_subcommand::NAME) => return hidden_subcommand::main(args),
        _ => {}
    }
    if let Some(ended) =
        notify::run_by_name(program_name().as_deref(), std::env::args_os().skip(1).collect())
    {
        return ended;
    }
    let cli = match Cli::try_parse_from(expand_alias()) {
        Ok(cli) => cli,
        Err(error) => return conclude(print_clap(&error)),
    };
    conclude(dispatch(cli))
}

/// Prints the error of a command, if any, and returns the exit code.
pub(crate) fn conclude(ended: Result<Exit, CommandError>) -> ExitCode {
    match ended {
        Ok(exit) => exit.into(),
        Err(error) => {
            print::error(&error);
            error.exit.into()
        }
    }
}

/// Prints clap's message. clap also returns `--help` and `--version` as errors, although they are not
/// failures.
pub(crate) fn print_clap(error: &clap::Error) -> Result<Exit, CommandError> {
    let printed = error.print();
    if error.use_stderr() { Ok(Exit::Usage) } else { print::exit_for_write(printed) }
}

/// Other names of this program, and the commands they stand for. The names of the send-only programs are in
/// [`notify`].
const PROGRAM_ALIASES: [(&str, &[&str]); 2] =
    [("hermes-busd", &["bus"]), ("hermes-bus-server", &["bus", "run"])];

/// Returns the arguments. If the program's name is an alias, replaces it with the command it stands for.
fn expand_alias() -> Vec<OsString> {
    let mut args: Vec<OsString> = std::env::args_os().collect();
    if let Some(command) = alias_command() {
        let after_name = args.len().min(1);
        args.splice(after_name..after_name, command.iter().map(OsString::from));
    }
    args
}

/// Returns whether this program was started under an alias for one of its commands.
pub(crate) fn is_started_by_alias() -> bool {
    alias_command().is_some()
}

/// Returns the command that this program's name stands for, if it is an alias.
fn alias_command() -> Option<&'static [&'static str]> {
    let name = program_name()?;
    PROGRAM_ALIASES.iter().find(|(other, _)| name == *other).map(|(_, command)| *command)
}

/// Returns the file name under which this program was started. The binary has several names, and the name
/// selects the command.
fn program_name() -> Option<String> {
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
        Command::PackageFiles { prefix } => return package_files::run(&prefix),
        Command::Bridge(args) if args.schema => return bridge::print_schema(),
        Command::Notify(args) | Command::Bus(BusCommand::Send(args)) => return notify::main(args),
        command => command,
    };
    let mut environment = Environment::capture();
    if alias_command().is_some() {
        environment = environment.with_hermes_bus();
    }
    crate::log::init(&environment, is_verbose(&command));
    let environment = agent_use::check(&command, cli.config.as_deref(), environment)?;
    // `config` and `keys` read or edit the file itself, so they run without a complete `App`.
    if let Command::Config(command) = command {
        return config::run(&command, &environment, cli.config.as_deref());
    }
    if let Command::Keys(command) = command {
        return keys::run(&command, &environment, cli.config.as_deref());
    }
    if let Command::Setup(command) = command {
        return setup::run(&command, &environment, cli.config.as_deref());
    }
    if let Command::Env(args) = command {
        return env::run(&args, &environment, cli.config.as_deref());
    }
    // A broken configuration must not prevent the owner from reading the log or stopping the daemon.
    if let Command::Logs(args) = command {
        return lifecycle::logs::run(&Home::from_environment(&environment)?, &args);
    }
    if let Command::Stop(args) = &command {
        let stopped = lifecycle::stop::run(environment, cli.config.as_deref(), args);
        return build_runtime(&command)?.block_on(stopped);
    }
    if let Command::Service(command) = command {
        return service::run(&environment, cli.config.as_deref(), command);
    }
    let (environment, flags) = take_settings(&command, environment)?;
    let flags: Vec<(&str, &str)> =
        flags.iter().map(|(path, value)| (path.as_str(), value.as_str())).collect();
    let app = if asks_daemon(&command) {
        App::load_for_daemon(environment, cli.config.as_deref(), &flags)?
    } else {
        App::load(environment, cli.config.as_deref(), &flags)?
    };
    let app = Arc::new(app);
    let runtime = build_runtime(&command)?;
    let exit = runtime.block_on(run_as_task(async move {
        let file = cli.config.as_deref();
        if app.config_error.is_some() && running_daemon(&app).await.is_none() {
            app.ensure_valid_config()?;
        }
        match command {
            Command::Run(args) => run::run(&app, file, args).await,
            Command::Chat(args) => chat::run(&app, args).await,
            Command::Serve(args) => crate::daemon::serve(&app, args.detached).await,
            Command::Start => lifecycle::start::run(&app, file).await,
            Command::Restart(args) => lifecycle::restart::run(&app, file, &args).await,
            Command::Acp(args) => acp::run(&app, args).await,
            Command::Bridge(args) => bridge::run(&app, args).await,
            Command::Sessions(command) => sessions::run(&app, command).await,
            Command::Turns(command) => turns::run(&app, command).await,
            Command::Approvals(command) => approvals::run(&app, command).await,
            Command::Schedule(command) => schedule::run(&app, command).await,
            Command::Status(args) => status::run(&app, args).await,
            Command::Channels(command) => channels::run(&app, file, command).await,
            Command::Access(command) => access::run(&app, command).await,
            Command::Usage(args) => usage::run(&app, args).await,
            Command::Dashboard(args) => dashboard::run(&app, file, args).await,
            Command::Audit(args) => audit::run(&app, args).await,
            Command::Bus(command) => bus::run(&app, file, command).await,
            Command::Codex(command) => codex::run(&app, file, &command).await,
            Command::Mcp(args) => mcp::run(&app, args).await,
            Command::Doctor(args) => doctor::run(&app, &args).await,
            Command::Selftest(args) => selftest::run(&app, &args).await,
            Command::Agents(command) => agents::run(&app, &command).await,
            Command::Providers(command) => providers::run(&app, &command).await,
            Command::Memory(command) => memory::run(&app, &command).await,
            Command::Config(_)
            | Command::Keys(_)
            | Command::Stop(_)
            | Command::Logs(_)
            | Command::Service(_)
            | Command::Completions { .. }
            | Command::PackageFiles { .. }
            | Command::Setup(_)
            | Command::Env(_)
            | Command::Notify(_) => Ok(Exit::Done),
        }
    }));
    crate::log::flush();
    // Do not join: a thread blocked reading the terminal or stdin would hang this process.
    runtime.shutdown_background();
    exit
}

/// Returns the settings that the command's flags represent, by path, and the environment with the keys that
/// they name.
fn take_settings(
    command: &Command,
    mut environment: Environment,
) -> Result<(Environment, Vec<(String, String)>), CommandError> {
    let settings = match command {
        Command::Serve(args) => {
            args.listen.iter().map(|address| ("listen".to_owned(), address.clone())).collect()
        }
        Command::Bridge(args) => args.own_settings(&mut environment)?,
        _ => Vec::new(),
    };
    Ok((environment, settings))
}

/// Returns whether a running daemon does the work of this command, so that this process does not need a valid
/// configuration file.
fn asks_daemon(command: &Command) -> bool {
    matches!(
        command,
        Command::Run(_)
            | Command::Chat(_)
            | Command::Sessions(_)
            | Command::Turns(_)
            | Command::Approvals(_)
            | Command::Audit(_)
            | Command::Dashboard(_)
            | Command::Schedule(_)
            | Command::Doctor(_)
            | Command::Status(_)
            | Command::Usage(_)
            | Command::Bus(BusCommand::Status { .. } | BusCommand::Dead(_))
    )
}

fn is_daemon(command: &Command) -> bool {
    matches!(command, Command::Serve(_) | Command::Bus(BusCommand::Run { .. }))
}

/// Returns whether this command logs to stderr at a daemon's level.
fn is_verbose(command: &Command) -> bool {
    is_daemon(command) || matches!(command, Command::Bridge(args) if args.verbose)
}

/// Builds the runtime: one thread for a command, up to four worker threads for a daemon, which serves many
/// clients at once.
fn build_runtime(command: &Command) -> Result<tokio::runtime::Runtime, CommandError> {
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
