//! Decides which commands an agent's process may use. Agents run as the owner's user, so file
//! permissions do not protect the owner's data from them (`docs/design/0014-local-identities.md`).

use std::path::Path;

use angelia_frontends::socket::LocalCaller;

use super::{
    agents::AgentsCommand,
    args::{ApprovalsCommand, Command, SessionsCommand},
    bus::{BusCommand, DeadCommand},
    codex::CodexCommand,
    error::{CommandError, Exit},
    mcp::McpCommand,
    providers::ProvidersCommand,
};
use crate::config::Environment;

/// Whether an agent's process may use a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AgentUse {
    /// The command changes none of the owner's data, or checks the caller itself.
    Free,
    /// Only through the daemon, which decides for each request what the agent's session may access.
    ThroughDaemon,
    /// Allowed only if this process is itself the agent named by a profile, rather than one started
    /// by an agent. Its client then decides what it may do.
    AsAgent,
    /// Only with the home's own configuration and no flags.
    StartsDaemon,
    Refused,
}

/// Classifies a command. There is no default case, so every new command must be classified.
pub(crate) fn agent_use(command: &Command) -> AgentUse {
    match command {
        Command::Bridge(args) if args.schema => AgentUse::Free,
        Command::Approvals(ApprovalsCommand::Rules(_))
        | Command::Keys(_)
        | Command::Config(_)
        | Command::Status(_)
        | Command::Usage(_)
        | Command::Dashboard(_)
        | Command::Audit(_)
        | Command::Schedule(_)
        | Command::Channels(_)
        | Command::Access(_)
        // It starts agents, and writes a file to any given path.
        | Command::Selftest(_)
        | Command::Stop(_)
        | Command::Restart(_)
        | Command::Logs(_)
        // An agent changes its notes with its own tool, within that tool's limits.
        | Command::Memory(_)
        | Command::Service(_) => AgentUse::Refused,
        Command::Run(_)
        | Command::Chat(_)
        | Command::Turns(_)
        | Command::Approvals(_)
        | Command::Bridge(_) => AgentUse::ThroughDaemon,
        Command::Sessions(command) => match command {
            SessionsCommand::List(_)
            | SessionsCommand::Show { .. }
            | SessionsCommand::Resume { .. }
            | SessionsCommand::Fork { .. }
            | SessionsCommand::Delete { .. } => AgentUse::ThroughDaemon,
            // These commands read the record or the agents' own files directly, and a search covers
            // every session.
            SessionsCommand::Export { .. }
            | SessionsCommand::Adopt(_)
            | SessionsCommand::Search(_) => AgentUse::Refused,
        },
        Command::Serve(_) | Command::Start => AgentUse::StartsDaemon,
        Command::Acp(_) => AgentUse::AsAgent,
        Command::Bus(command) => match command {
            BusCommand::Start | BusCommand::Run { .. } => AgentUse::StartsDaemon,
            // The bus decides which names an agent may register.
            BusCommand::Status { .. } | BusCommand::Listen(_) | BusCommand::Send(_) => {
                AgentUse::Free
            }
            BusCommand::Stop
            | BusCommand::Restart
            | BusCommand::Dead(
                DeadCommand::List { .. } | DeadCommand::Resend { .. } | DeadCommand::Discard { .. },
            ) => AgentUse::Refused,
        },
        Command::Codex(command) => match command {
            CodexCommand::Status { .. } => AgentUse::Free,
            CodexCommand::Enable(_) | CodexCommand::Disable { .. } => AgentUse::Refused,
        },
        Command::Agents(command) => match command {
            AgentsCommand::List { .. } => AgentUse::Free,
            AgentsCommand::Install { .. } | AgentsCommand::Remove { .. } => AgentUse::Refused,
        },
        Command::Providers(command) => match command {
            ProvidersCommand::List { .. } => AgentUse::Free,
            // They use the owner's keys and logins, and may run commands that print keys.
            ProvidersCommand::Check { .. }
            | ProvidersCommand::Login { .. }
            | ProvidersCommand::Logout { .. } => AgentUse::Refused,
        },
        Command::Setup(command) if command.is_read_only() => AgentUse::Free,
        Command::Setup(_) => AgentUse::Refused,
        Command::Mcp(args) => match &args.command {
            // It acts for the session of the agent that started it.
            None => AgentUse::Free,
            Some(McpCommand::Login { .. } | McpCommand::Logout { .. }) => AgentUse::Refused,
        },
        Command::Notify(_)
        | Command::Doctor(_)
        | Command::Env(_)
        | Command::Completions { .. }
        | Command::PackageFiles { .. } => AgentUse::Free,
    }
}

/// Checks that this process may use the command. Returns the environment that the command may see:
/// a daemon started by an agent must not be configured by the agent's variables.
pub(crate) fn check(
    command: &Command,
    config: Option<&Path>,
    environment: Environment,
) -> Result<Environment, CommandError> {
    let agent_use = agent_use(command);
    if matches!(agent_use, AgentUse::Free | AgentUse::ThroughDaemon) {
        return Ok(environment);
    }
    let marks = match LocalCaller::this_process(environment.own_mark()) {
        LocalCaller::Owner => return Ok(environment),
        LocalCaller::Agent(marks) => Some(marks),
        LocalCaller::Unidentified | LocalCaller::Remote => None,
    };
    match agent_use {
        AgentUse::StartsDaemon => {
            let has_flags = config.is_some()
                || matches!(command, Command::Serve(args) if args.listen.is_some());
            if has_flags {
                let to = "start a daemon with flags or another configuration";
                return Err(refusal(to, marks.is_some()));
            }
            Ok(environment.without_settings())
        }
        AgentUse::AsAgent => {
            // Only an agent's own process has exactly one mark, its own, because its parent is
            // Angelia.
            match (marks.as_deref(), environment.own_mark()) {
                (Some([only]), Some(own)) if only == own => Ok(environment),
                _ => Err(refusal("act as an agent of its own", marks.is_some())),
            }
        }
        AgentUse::Free | AgentUse::ThroughDaemon | AgentUse::Refused => {
            Err(refusal("use this command", marks.is_some()))
        }
    }
}

/// Fails in an agent's process, which must not work without the daemon.
pub(crate) fn ensure_owner_works_alone(environment: &Environment) -> Result<(), CommandError> {
    match LocalCaller::this_process(environment.own_mark()) {
        LocalCaller::Owner => Ok(()),
        caller => {
            let to = "work without the running daemon of this home and its configuration";
            Err(refusal(to, matches!(caller, LocalCaller::Agent(_))))
        }
    }
}

/// Returns the error for an agent's process, or for one that cannot be distinguished from an
/// agent's.
fn refusal(to: &str, is_agent: bool) -> CommandError {
    if is_agent {
        CommandError::new(Exit::Failed, format!("an agent's process cannot {to}"))
            .with_hint("do it yourself, in a terminal that no agent has started")
    } else {
        let what =
            format!("cannot tell whether an agent has started this process, so it cannot {to}");
        CommandError::new(Exit::Failed, what).with_hint(
            "/proc does not show this process, for example because it belongs to another container; use a \
             container with its own /proc",
        )
    }
}

#[cfg(test)]
#[path = "agent_use_tests.rs"]
mod tests;
