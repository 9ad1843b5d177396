//! `angelia notify`, also as `notify-hermes`: sends one message to an endpoint and prints whether
//! it was delivered. `notify-agent`: types text into a tmux session.
//!
//! - `body`: builds the message body from the arguments. Pure.
//! - `sender`: determines the sender's name; [`tmux`]: finds our tmux session and types into
//!   others.
//! - `bus_client`: sends the message over the bus's socket and reads the replies.
//! - [`notify_agent`]: `notify-agent`; `programs`: runs the programs that a sender needs.

mod body;
pub(crate) mod bus_client;
mod notify_agent;
mod programs;
mod sender;
mod tmux;

#[cfg(test)]
mod tests;

use std::{
    ffi::OsString,
    io::{self, Read},
    path::PathBuf,
    process::ExitCode,
};

use angelia_frontends::bus::MAX_FRAME_BYTES;
use clap::{Args, Parser};

pub(crate) use self::bus_client::start_bus;
use self::bus_client::{BusTarget, DeliveryStatus};
#[cfg(test)]
pub(crate) use self::programs::sender_commands;
use super::{
    conclude,
    error::{CommandError, Exit},
    print, print_clap,
};
use crate::{
    bus::{sockets::BusSockets, token_file},
    config::Environment,
};

/// The program names under which this binary only sends.
const NOTIFY_HERMES: &str = "notify-hermes";
const NOTIFY_AGENT: &str = "notify-agent";

/// The sender's name outside of tmux, unless `--from` gives one.
const DEFAULT_SENDER: &str = "notify";

#[derive(Clone, Debug, Args)]
pub(crate) struct NotifyArgs {
    /// The endpoint to send to.
    #[arg(long, value_name = "ENDPOINT")]
    to: String,

    /// The text; `-` reads it from standard input.
    #[arg(allow_hyphen_values = true)]
    message: Option<String>,

    /// The whole body, as JSON, instead of a text.
    #[arg(long, value_name = "JSON", conflicts_with = "message")]
    body: Option<String>,

    /// The type of the message; rules match on it.
    #[arg(long = "type", value_name = "TYPE")]
    kind: Option<String>,

    /// The destination of a reply: `platform` or `platform:chat_id`.
    #[arg(long)]
    channel: Option<String>,

    /// The sender: a key of `role_map`, or a name; the name of the tmux session by default.
    #[arg(long, value_name = "NAME")]
    from: Option<String>,

    /// A file with the token that proves the sender's name.
    #[arg(long, value_name = "FILE", requires = "from")]
    token_file: Option<PathBuf>,

    /// The bus's socket, if not the one of this home.
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,

    /// The file with `role_map`, if not `bus-rules.yaml`.
    #[arg(long, value_name = "PATH")]
    rules: Option<PathBuf>,
}

/// Send one message to an endpoint of the bus.
#[derive(Debug, Parser)]
#[command(name = NOTIFY_HERMES, version, max_term_width = 100)]
struct HermesCli {
    #[command(flatten)]
    args: NotifyArgs,

    /// The same as `--rules`.
    #[arg(long, value_name = "PATH")]
    config: Option<PathBuf>,
}

/// Runs the send-only program under whose name this binary was started. Returns `None` for other
/// names.
pub(crate) fn run_by_name(name: Option<&str>, args: Vec<OsString>) -> Option<ExitCode> {
    let ran = match name? {
        NOTIFY_HERMES => {
            let mut cli = match HermesCli::try_parse_from(prepend_name(NOTIFY_HERMES, args)) {
                Ok(cli) => cli,
                Err(error) => return Some(conclude(print_clap(&error))),
            };
            cli.args.rules = cli.args.rules.or(cli.config);
            run_standalone(|environment| async move {
                run(&environment.with_hermes_bus(), cli.args, NOTIFY_HERMES).await
            })
        }
        NOTIFY_AGENT => {
            let words = args.iter().map(|arg| arg.to_string_lossy().into_owned());
            let words: Vec<String> = words.collect();
            run_standalone(
                |environment| async move { notify_agent::run(&environment, &words).await },
            )
        }
        _ => return None,
    };
    Some(conclude(ran))
}

/// Runs `angelia notify`.
pub(crate) fn main(args: NotifyArgs) -> Result<Exit, CommandError> {
    run_standalone(|environment| async move { run(&environment, args, DEFAULT_SENDER).await })
}

fn prepend_name(name: &str, args: Vec<OsString>) -> impl Iterator<Item = OsString> {
    std::iter::once(name.into()).chain(args)
}

/// Runs a sender without configuration, home or log, so that it starts fast and works where nothing
/// is set up.
fn run_standalone<F>(work: impl FnOnce(Environment) -> F) -> Result<Exit, CommandError>
where
    F: Future<Output = Result<Exit, CommandError>>,
{
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(CommandError::internal)?;
    runtime.block_on(work(Environment::capture()))
}

/// Reads a text to its end, without the final newline.
fn read_text(input: impl Read) -> Result<String, CommandError> {
    let mut bytes = Vec::new();
    let failed = |what: String| CommandError::new(Exit::Failed, what);
    // Read one byte more than fits, so that a longer text is refused rather than cut.
    let limit = MAX_FRAME_BYTES as u64 + 1;
    let read = input.take(limit).read_to_end(&mut bytes);
    read.map_err(|error| failed(format!("standard input cannot be read: {error}")))?;
    let mut text = String::from_utf8(bytes)
        .map_err(|_| failed("standard input is not UTF-8 text; nothing was sent".to_owned()))?;
    if text.ends_with('\n') {
        text.pop();
    }
    Ok(text)
}

/// Sends the message, waits for the bus's reply, and prints it.
async fn run(
    environment: &Environment,
    mut args: NotifyArgs,
    default_sender: &str,
) -> Result<Exit, CommandError> {
    if args.message.as_deref() == Some("-") {
        args.message = Some(read_text(io::stdin().lock())?);
    }
    let body = body::build_body(&args)?;
    let roles = sender::load_roles(environment, args.rules.as_deref())?;
    let from = sender::resolve_name(environment, &roles, args.from.as_deref());
    let from = from.await.unwrap_or_else(|| default_sender.to_owned());
    let mut message = bus_client::NotifyMessage::new(&args.to, &from, body);
    if let Some(path) = &args.token_file {
        message.token = Some(token_file::read(path)?);
    }
    let target = match args.socket {
        Some(socket) => BusTarget::Socket(socket),
        None => BusTarget::StartIfAbsent(BusSockets::of_sender(environment)?),
    };
    let status = bus_client::send(environment, &target, &message).await?;
    let status = match status {
        DeliveryStatus::Delivered => "delivered",
        DeliveryStatus::Queued => "queued",
        DeliveryStatus::UnknownEndpoint => "queued: never seen",
        DeliveryStatus::Unconfirmed => "sent (this bus does not report deliveries)",
    };
    print::line(&format!("OK: notified {}: {status}", args.to))
}
