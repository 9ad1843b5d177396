//! An MCP server of a session. A server that has ended is restarted when it is called, but not if
//! it ends again before it has answered a call: something is wrong with it then.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use angelia_core::model::{Notice, NoticeLevel};
use rmcp::{
    ServiceError,
    model::{CallToolRequestParams, CallToolResponse, CallToolResult, JsonObject, Tool},
    service::{Peer, RoleClient},
};
use serde::Serialize;
use serde_json::value::to_raw_value;
use tokio::{sync::Mutex, time::timeout};

use super::{
    connection::{Connection, ServerListener, StartError, call_error},
    definition::ServerAddress,
    servers::ServerPlace,
};
use crate::native::notice_queue::NoticeQueue;

/// The time that a server has to start and to list its tools.
const START_LIMIT: Duration = Duration::from_secs(10);

/// The grace period for processes that a server left running when it ended.
const LEFTOVER_GRACE: Duration = Duration::from_millis(200);

#[derive(Debug)]
pub(super) struct McpServer {
    /// The name in the configuration.
    pub(super) name: Arc<str>,
    address: ServerAddress,
    place: Arc<ServerPlace>,
    listener: ServerListener,
    notices: NoticeQueue,
    link: Mutex<ServerLink>,
}

#[derive(Debug)]
struct ServerLink {
    /// `None` if the server could not be restarted, or the session is closed.
    connection: Option<Connection>,
    may_restart: bool,
}

impl McpServer {
    /// Starts a server and returns it with its tools.
    pub(super) async fn start(
        name: Arc<str>,
        address: ServerAddress,
        place: Arc<ServerPlace>,
        notices: NoticeQueue,
    ) -> Result<(Self, Vec<Tool>), StartError> {
        let listener = ServerListener::default();
        let started = within_limit(async {
            let connection = Connection::open(&address, &place, listener.clone()).await?;
            // The list requested next already includes every change so far.
            listener.tools_changed.store(false, Ordering::Relaxed);
            let tools = connection.list_tools().await?;
            Ok((connection, tools))
        });
        let (connection, tools) = started.await?;
        let link = Mutex::new(ServerLink { connection: Some(connection), may_restart: true });
        Ok((Self { name, address, place, listener, notices, link }, tools))
    }

    /// Calls a tool. Dropping the future tells the server that the call was cancelled.
    pub(super) async fn call(
        &self,
        tool: &str,
        arguments: JsonObject,
    ) -> Result<CallToolResult, String> {
        let name = &self.name;
        let peer = self.live_peer().await?;
        let call = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
        let answer = peer.call_tool_once(call).await;
        if matches!(answer, Ok(_) | Err(ServiceError::McpError(_))) {
            // The server works, so it may be restarted when it ends the next time.
            self.link.lock().await.may_restart = true;
        }
        match answer {
            Ok(CallToolResponse::Complete(result)) => Ok(result),
            Ok(_) => Err(format!(
                "the MCP server `{name}` wants to ask back, which is not possible here; give it \
                 everything in the arguments"
            )),
            Err(ServiceError::McpError(error)) => {
                Err(format!("the MCP server `{name}` refused the call: {}", error.message))
            }
            Err(error) => Err(format!(
                "the MCP server `{name}` did not finish the call ({}); a part of it may have been \
                 done, so look before you call it again",
                self.address.hide_secrets(&call_error(&error))
            )),
        }
    }

    /// Returns the connection; restarts the server if it has ended.
    async fn live_peer(&self) -> Result<Peer<RoleClient>, String> {
        let name = &self.name;
        let mut link = self.link.lock().await;
        if let Some(peer) = link.connection.as_mut().and_then(Connection::peer) {
            return Ok(peer);
        }
        if let Some(ended) = link.connection.take() {
            ended.close(LEFTOVER_GRACE).await;
        }
        if !std::mem::take(&mut link.may_restart) {
            return Err(format!(
                "the MCP server `{name}` has ended, also after it was started again; go on without it"
            ));
        }
        // The session keeps the tools that it began with, so they are not listed again.
        let opening = Connection::open(&self.address, &self.place, self.listener.clone());
        let mut connection = within_limit(opening).await.map_err(|error| {
            format!("the MCP server `{name}` has ended and cannot be started again: {error}")
        })?;
        let peer = connection.peer();
        link.connection = Some(connection);
        let text = format!("the MCP server `{name}` had ended and was started again");
        self.notices.push(server_notice(NoticeLevel::Warning, "mcp_restarted", text, name));
        peer.ok_or_else(|| format!("the MCP server `{name}` has ended again"))
    }

    /// Queues a notice if the server has changed its tools since the last check.
    pub(super) fn note_changed_tools(&self) {
        if self.listener.tools_changed.swap(false, Ordering::Relaxed) {
            let name = &self.name;
            let text = format!(
                "the MCP server `{name}` has changed its tools; this session keeps those that it \
                 began with"
            );
            self.notices.push(server_notice(NoticeLevel::Info, "mcp_tools_changed", text, name));
        }
    }

    /// Ends the server.
    pub(super) async fn close(&self, grace: Duration) {
        let mut link = self.link.lock().await;
        link.may_restart = false;
        if let Some(connection) = link.connection.take() {
            connection.close(grace).await;
        }
    }
}

/// Waits for a server to start, but not longer than the limit.
async fn within_limit<T>(
    start: impl Future<Output = Result<T, StartError>>,
) -> Result<T, StartError> {
    let limit = START_LIMIT.as_secs();
    let started = timeout(START_LIMIT, start).await;
    started.unwrap_or_else(|_late| Err(format!("it did not answer within {limit} seconds").into()))
}

/// The fields of a notice about a server.
#[derive(Serialize)]
struct ServerDetail<'a> {
    server: &'a str,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    needs_login: bool,
}

/// Returns the notice that a server did not start.
pub(super) fn start_notice(error: &StartError, server: &str) -> Notice {
    let text = format!("the MCP server `{server}` did not start: {error}");
    let notice = Notice::new(NoticeLevel::Warning, "mcp_failed", text);
    with_server(notice, &ServerDetail { server, needs_login: error.needs_login })
}

/// Returns a notice with the server's name in its detail.
pub(super) fn server_notice(
    level: NoticeLevel,
    code: &'static str,
    text: String,
    server: &str,
) -> Notice {
    let notice = Notice::new(level, code, text);
    with_server(notice, &ServerDetail { server, needs_login: false })
}

fn with_server(notice: Notice, detail: &ServerDetail<'_>) -> Notice {
    match to_raw_value(detail) {
        Ok(detail) => notice.with_detail(detail.into()),
        Err(_) => notice,
    }
}
