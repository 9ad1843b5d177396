//! Checks the MCP servers of a profile without a session: `angelia doctor` reports the results, and
//! `angelia mcp login` finds the logins.

use std::{path::PathBuf, sync::Arc, time::Duration};

use angelia_core::model::{SessionId, SessionSpec};
use futures_util::future::join_all;

use super::{
    connection::StartError,
    definition::{ServerAddress, read_definition},
    names::ToolNames,
    server::McpServer,
    servers::{ServerEntry, ServerPlace, configured_servers, definition_variables},
};
use crate::{
    ExecutorHost,
    native::{notice_queue::NoticeQueue, providers::OAuthSettings, tools::OutputFolder},
};

/// The time that a server gets to end after the check.
const END_GRACE: Duration = Duration::from_secs(2);

/// A server, and whether it can be used.
#[derive(Debug)]
pub struct ServerCheck {
    pub name: Arc<str>,
    pub state: ServerState,
}

#[derive(Debug, PartialEq, Eq)]
pub enum ServerState {
    /// The server answers, and has this many tools.
    Answers {
        tools: usize,
    },
    /// The server's program exists; it was not started.
    Found(PathBuf),
    /// The server wants a login; the text says why the current one is not enough.
    NeedsLogin(String),
    Fails(String),
}

/// Checks all servers of a specification concurrently. `start_programs`: also starts servers that
/// are programs on this machine.
pub async fn check_servers(
    spec: &SessionSpec,
    host: &ExecutorHost,
    start_programs: bool,
) -> Vec<ServerCheck> {
    let place = Arc::new(ServerPlace {
        host: host.clone(),
        session: SessionId::from_uuid(host.clock.fresh_uuid()),
        spec: spec.clone(),
        cwd: spec.cwd.clone(),
        output: Arc::new(OutputFolder::new(&host.work_dir)),
    });
    let entries = configured_servers(&place, &mut ToolNames::default(), &NoticeQueue::default());
    let checks = entries.into_iter().map(|ServerEntry { name, address, .. }| {
        let place = Arc::clone(&place);
        async move {
            let state = match address {
                Ok(ServerAddress::Program { command, .. }) if !start_programs => {
                    find_program(&command, &place)
                }
                Ok(address) => try_server(&name, address, place).await,
                Err(words) => ServerState::Fails(words),
            };
            ServerCheck { name, state }
        }
    });
    join_all(checks).await
}

/// Returns the login of the server with this name; `None` if there is no such server or it has no
/// login.
pub fn login_of(
    name: &str,
    spec: &SessionSpec,
    host: &ExecutorHost,
) -> Result<Option<OAuthSettings>, String> {
    let Some((name, definition)) = spec.mcp_servers.get_key_value(name) else { return Ok(None) };
    let variables = definition_variables(spec, host)?;
    let address = read_definition(name, definition, &variables);
    match address.map_err(|error| format!("the MCP server `{name}` cannot be used: {error}"))? {
        ServerAddress::Http { login, .. } => Ok(login),
        ServerAddress::Program { .. } => Ok(None),
    }
}

fn find_program(command: &str, place: &ServerPlace) -> ServerState {
    let found = if command.contains('/') {
        Some(place.cwd.join(command)).filter(|path| path.is_file())
    } else {
        let variables = definition_variables(&place.spec, &place.host).unwrap_or_default();
        place.host.find_program(command, &variables)
    };
    found.map_or_else(
        || ServerState::Fails(format!("there is no program `{command}` on PATH; install it")),
        ServerState::Found,
    )
}

async fn try_server(
    name: &Arc<str>,
    address: ServerAddress,
    place: Arc<ServerPlace>,
) -> ServerState {
    let started = McpServer::start(Arc::clone(name), address, place, NoticeQueue::default()).await;
    match started {
        Ok((server, tools)) => {
            server.close(END_GRACE).await;
            ServerState::Answers { tools: tools.len() }
        }
        Err(error @ StartError { needs_login: true, .. }) => {
            ServerState::NeedsLogin(error.to_string())
        }
        Err(error) => ServerState::Fails(error.to_string()),
    }
}
