//! A running MCP server: its process or HTTP connection, and the protocol over it. `process/`
//! starts and ends the processes, so a server ends with its session like every other program.

use std::{
    collections::HashMap,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use reqwest::header::{HeaderName, HeaderValue};
use rmcp::{
    ClientHandler, ServiceError, ServiceExt as _,
    model::{
        ClientCapabilities, ClientConfig, Implementation, PaginatedRequestParams, ProtocolVersion,
        Tool,
    },
    service::{ClientInitializeError, NotificationContext, Peer, RoleClient, RunningService},
    transport::{
        DynamicTransportError, StreamableHttpClientTransport, async_rw::AsyncRwTransport,
        streamable_http_client::StreamableHttpClientTransportConfig,
    },
};

use super::{
    definition::ServerAddress,
    login_client::{LoginClient, login_problem},
    servers::ServerPlace,
};
use crate::{
    ExecutorHost,
    native::{
        client::client_builder,
        providers::{OAuthSettings, is_local_address},
    },
    process::{
        Child, ProcessLaunch, StopTimeouts, session_binding::SessionBinding, spawn, terminate,
    },
    process_link::describe_exit,
    truncation::truncate_chars,
};

/// The time that a server has to accept an HTTP connection.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);

/// The time that closing a connection may take; the process is ended in any case.
const GOODBYE_LIMIT: Duration = Duration::from_secs(2);

/// Further tools of a server are left out.
pub(super) const MAX_LISTED_TOOLS: usize = 1000;

/// The maximum length of an error message, in characters.
const MAX_ERROR_CHARS: usize = 400;

/// Why a server did not start.
#[derive(Debug, thiserror::Error)]
#[error("{words}")]
pub(super) struct StartError {
    words: String,
    /// The owner can fix this by logging in.
    pub(super) needs_login: bool,
}

impl From<String> for StartError {
    fn from(words: String) -> Self {
        Self { words, needs_login: false }
    }
}

/// A connection to a server that has answered.
#[derive(Debug)]
pub(super) struct Connection {
    service: RunningService<RoleClient, ServerListener>,
    process: Option<ServerProcess>,
}

#[derive(Debug)]
struct ServerProcess {
    child: Child,
    /// Tells our own programs that the server starts which session they work for.
    _binding: SessionBinding,
}

/// Handles notifications from the server.
#[derive(Clone, Debug, Default)]
pub(super) struct ServerListener {
    pub(super) tools_changed: Arc<AtomicBool>,
}

impl ClientHandler for ServerListener {
    /// Offers servers no capabilities: no sampling, no elicitation, no roots.
    fn get_info(&self) -> ClientConfig {
        let own = Implementation::new("angelia", env!("CARGO_PKG_VERSION"));
        ClientConfig::new(ClientCapabilities::default(), own)
            .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }

    async fn on_tool_list_changed(&self, _context: NotificationContext<RoleClient>) {
        self.tools_changed.store(true, Ordering::Relaxed);
    }
}

impl Connection {
    /// Starts a server and initialises the protocol. Dropping the future ends everything it has
    /// started.
    pub(super) async fn open(
        address: &ServerAddress,
        place: &ServerPlace,
        listener: ServerListener,
    ) -> Result<Self, StartError> {
        match address {
            ServerAddress::Program { .. } => {
                Ok(Self::open_program(address, place, listener).await?)
            }
            ServerAddress::Http { url, headers, login } => {
                let transport = http_transport(url, headers, login.as_ref(), &place.host)?;
                let service = listener.serve(transport).await.map_err(|error| StartError {
                    words: place.redact(&address.hide_secrets(&start_error(&error))),
                    needs_login: error.is_authorization_required(),
                })?;
                Ok(Self { service, process: None })
            }
        }
    }

    async fn open_program(
        address: &ServerAddress,
        place: &ServerPlace,
        listener: ServerListener,
    ) -> Result<Self, String> {
        let launch = launch(address, place)?;
        let binding = place.host.bind_session(&launch.mark, place.session);
        let mut child = spawn(&launch).await.map_err(|error| error.to_string())?;
        let (Some(stdout), Some(stdin)) = (child.stdout.take(), child.stdin.take()) else {
            return Err("it has no pipes".to_owned());
        };
        let transport = AsyncRwTransport::new_client(stdout, stdin);
        match listener.serve(transport).await {
            Ok(service) => {
                let process = Some(ServerProcess { child, _binding: binding });
                Ok(Self { service, process })
            }
            // Initialisation may break off while our request is written or while the answer is
            // awaited.
            Err(
                ClientInitializeError::ConnectionClosed(_)
                | ClientInitializeError::TransportError { .. },
            ) => {
                let exit = describe_exit(&mut child, &place.host.redactor).await;
                Err(format!("it ended before it answered: {exit}"))
            }
            Err(error) => Err(place.redact(&start_error(&error))),
        }
    }

    /// Returns the server's tools, sorted by name so that the order of the server's list does not
    /// matter.
    pub(super) async fn list_tools(&self) -> Result<Vec<Tool>, String> {
        let has_tools =
            self.service.peer_info().is_none_or(|info| info.capabilities.tools.is_some());
        if !has_tools {
            return Ok(Vec::new());
        }
        let mut tools = Vec::new();
        let mut cursor = None;
        loop {
            let page = PaginatedRequestParams::default().with_cursor(cursor);
            let page =
                self.service.list_tools(Some(page)).await.map_err(|error| {
                    format!("it does not list its tools: {}", call_error(&error))
                })?;
            tools.extend(page.tools);
            cursor = page.next_cursor;
            if cursor.is_none() || tools.len() >= MAX_LISTED_TOOLS {
                break;
            }
        }
        tools.truncate(MAX_LISTED_TOOLS);
        tools.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(tools)
    }

    /// Returns the peer to call, unless the server has ended.
    pub(super) fn peer(&mut self) -> Option<Peer<RoleClient>> {
        let exited =
            self.process.as_mut().is_some_and(|process| process.child.try_exit_status().is_some());
        // The transport may stay open after the server has exited, because a process that the
        // server started can keep the output open.
        (!exited && !self.service.peer().is_transport_closed()).then(|| self.service.peer().clone())
    }

    /// Closes the connection, and ends the server with everything that it has started.
    pub(super) async fn close(mut self, grace: Duration) {
        let _late = self.service.close_with_timeout(GOODBYE_LIMIT.min(grace)).await;
        if let Some(process) = self.process {
            terminate(process.child, &StopTimeouts::with_grace(grace), |_| {}).await;
        }
    }
}

fn launch(address: &ServerAddress, place: &ServerPlace) -> Result<ProcessLaunch, String> {
    let ServerAddress::Program { command, args, env: added } = address else {
        return Err("it is not a program".to_owned());
    };
    let host = &place.host;
    let failure = |error: angelia_core::model::Failure| error.to_string();
    let mark = host.fresh_mark().map_err(failure)?;
    let mut env = host.child_environment(&place.spec, &[], &mark).map_err(failure)?;
    env.extend(added.iter().map(|(name, value)| (name.into(), value.into())));
    let program = if command.contains('/') {
        place.cwd.join(command)
    } else {
        host.find_program(command, &env).unwrap_or_else(|| PathBuf::from(command))
    };
    Ok(ProcessLaunch {
        program,
        args: args.iter().map(Into::into).collect(),
        cwd: place.cwd.clone(),
        env,
        mark,
        ledger: host.ledger.clone(),
    })
}

fn http_transport(
    url: &str,
    headers: &[(String, String)],
    login: Option<&OAuthSettings>,
    host: &ExecutorHost,
) -> Result<StreamableHttpClientTransport<LoginClient>, String> {
    let client = client_builder(is_local_address(url)).connect_timeout(CONNECT_LIMIT);
    let client = client.build().map_err(|error| format!("no HTTP client: {error}"))?;
    let mut all = HashMap::new();
    for (name, value) in headers {
        let unusable = || format!("its header `{name}` cannot be used");
        let key = HeaderName::try_from(name).map_err(|_| unusable())?;
        let mut value = HeaderValue::try_from(value).map_err(|_| unusable())?;
        value.set_sensitive(true);
        all.insert(key, value);
    }
    let config = StreamableHttpClientTransportConfig::with_uri(url).custom_headers(all);
    let client = LoginClient::new(client, login, host);
    Ok(StreamableHttpClientTransport::with_client(client, config))
}

fn start_error(error: &ClientInitializeError) -> String {
    let words = match error {
        ClientInitializeError::TransportError { error, .. } => transport_error(error),
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => start_error(fallback),
        ClientInitializeError::JsonRpcError(error) => error.message.to_string(),
        other => other.to_string(),
    };
    truncate_chars(&words, MAX_ERROR_CHARS).into_owned()
}

/// Describes why a request to a server failed, for the model and for people.
pub(super) fn call_error(error: &ServiceError) -> String {
    let words = match error {
        ServiceError::McpError(error) => error.message.to_string(),
        ServiceError::TransportSend(error) => transport_error(error),
        other => other.to_string(),
    };
    truncate_chars(&words, MAX_ERROR_CHARS).into_owned()
}

fn transport_error(error: &DynamicTransportError) -> String {
    let error = &*error.error;
    login_problem(error).unwrap_or_else(|| error.to_string())
}
