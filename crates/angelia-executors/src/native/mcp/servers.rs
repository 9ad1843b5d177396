//! All MCP servers of a session, and their tools. The list of tools is built once, when the session
//! is opened, because every request begins with it and providers cache that beginning.

use std::{collections::BTreeMap, ffi::OsString, path::PathBuf, sync::Arc, time::Duration};

use angelia_core::model::{
    CallerTool, Failure, Mode, Notice, NoticeLevel, RawJson, SessionId, SessionSpec,
};
use futures_util::{StreamExt as _, future::join_all, stream};
use serde_json::{Value, json, value::to_raw_value};

use super::{
    call::McpCall,
    connection::{MAX_LISTED_TOOLS, StartError},
    definition::{ServerAddress, read_definition},
    names::{ServerPart, ToolNames},
    project_file::read_project_servers,
    search::{CALL_TOOL, FoundTools, SEARCH_TOOL, search_definitions},
    server::{McpServer, server_notice, start_notice},
};
use crate::{
    host::ExecutorHost,
    native::{
        notice_queue::NoticeQueue,
        tools::{CallError, OutputFolder, PreparedCall, PreparedTool},
    },
    truncation::truncate_chars,
};

/// The maximum number of servers that start at the same time.
const MAX_STARTING: usize = 8;

/// With more tools than this, requests would consist mostly of tools, so the model searches for
/// them instead.
const MAX_DIRECT_TOOLS: usize = 40;

/// Longer descriptions are cut, because they cost tokens in every request.
const MAX_DESCRIPTION_CHARS: usize = 2000;

/// A tool with a larger schema is left out.
const MAX_SCHEMA_BYTES: usize = 64 * 1024;

/// The services and settings that the servers of a session share.
#[derive(Debug)]
pub(in crate::native) struct ServerPlace {
    pub(in crate::native) host: ExecutorHost,
    pub(in crate::native) session: SessionId,
    pub(in crate::native) spec: SessionSpec,
    /// The session's directory as a real path.
    pub(in crate::native) cwd: PathBuf,
    pub(in crate::native) output: Arc<OutputFolder>,
}

impl ServerPlace {
    pub(super) fn redact(&self, text: &str) -> String {
        self.host.redactor.redact(text).into_owned()
    }
}

/// A tool of a server.
#[derive(Debug)]
pub(super) struct McpTool {
    /// The name for the model and for the permissions.
    pub(super) name: Arc<str>,
    /// The server's own name for the tool.
    pub(super) remote_name: Arc<str>,
    pub(super) description: Arc<str>,
    pub(super) schema: RawJson,
    /// The server says that the tool changes nothing.
    pub(super) is_read_only: bool,
    pub(super) server: Arc<McpServer>,
}

/// The servers of a session.
#[derive(Debug)]
pub(in crate::native) struct McpServers {
    servers: Vec<Arc<McpServer>>,
    tools: BTreeMap<Arc<str>, Arc<McpTool>>,
    notices: NoticeQueue,
    place: Arc<ServerPlace>,
}

/// A configured server.
pub(super) struct ServerEntry {
    pub(super) name: Arc<str>,
    part: ServerPart,
    pub(super) address: Result<ServerAddress, String>,
}

impl McpServers {
    /// Starts the servers of a session; `None` if it has none. A server that fails is only
    /// reported.
    pub(in crate::native) async fn start(place: ServerPlace) -> Option<Self> {
        if place.spec.mode == Mode::Model {
            return None;
        }
        let place = Arc::new(place);
        let notices = NoticeQueue::default();
        let mut names = ToolNames::default();
        let entries = configured_servers(&place, &mut names, &notices);
        let starting = entries.into_iter().map(|entry| start_server(entry, &place, &notices));
        // The results keep the order of the configuration, so that the list does not depend on
        // which server is faster.
        let started: Vec<_> = stream::iter(starting).buffered(MAX_STARTING).collect().await;
        let mut servers = Vec::new();
        let mut tools = BTreeMap::new();
        for (part, server, listed) in started.into_iter().flatten() {
            let server = Arc::new(server);
            for tool in listed {
                let name = names.tool(&part, &tool.name);
                if place.spec.permissions.denial_reason(&name).is_some() {
                    continue;
                }
                match usable_tool(name, &tool, &server) {
                    Ok(tool) => drop(tools.insert(Arc::clone(&tool.name), Arc::new(tool))),
                    Err(text) => {
                        let notice =
                            server_notice(NoticeLevel::Warning, "mcp_failed", text, &server.name);
                        notices.push(notice);
                    }
                }
            }
            servers.push(server);
        }
        let this = Self { servers, tools, notices, place };
        (!this.servers.is_empty() || !this.notices.is_empty()).then_some(this)
    }

    fn is_searched(&self) -> bool {
        self.tools.len() > MAX_DIRECT_TOOLS
    }

    /// Returns the tools as every request of the session describes them, always in the same order.
    pub(in crate::native) fn definitions(&self) -> Vec<CallerTool> {
        if self.is_searched() {
            let servers = self.servers.iter().map(|server| {
                let of_server = |tool: &&Arc<McpTool>| Arc::ptr_eq(&tool.server, server);
                (&*server.name, self.tools.values().filter(of_server).count())
            });
            return search_definitions(&servers.collect::<Vec<_>>());
        }
        self.tools.values().map(|tool| tool.definition()).collect()
    }

    /// Returns the schemas of all callable tools, by name.
    pub(in crate::native) fn schemas(&self) -> Vec<(Arc<str>, RawJson)> {
        let tools = self.tools.values().map(|tool| tool.definition());
        let definitions = if self.is_searched() { self.definitions() } else { Vec::new() };
        tools.chain(definitions).map(|tool| (tool.name, tool.input_schema)).collect()
    }

    /// Prepares a call; `None` if no server has this tool.
    pub(in crate::native) fn prepare(
        &self,
        name: &str,
        arguments: &RawJson,
    ) -> Option<Result<PreparedTool, CallError>> {
        let call: Box<dyn PreparedCall> = if name == SEARCH_TOOL && self.is_searched() {
            match FoundTools::search(arguments, self.tools.values()) {
                Ok(found) => Box::new(found),
                Err(error) => return Some(Err(error)),
            }
        } else {
            let tool = self.tools.get(name)?;
            match McpCall::new(tool, arguments, &self.place) {
                Ok(call) => Box::new(call),
                Err(error) => return Some(Err(error)),
            }
        };
        Some(Ok(PreparedTool::Call(call)))
    }

    /// Returns the tool that a call of [`CALL_TOOL`] names, and its arguments; `None` for any other
    /// call.
    pub(in crate::native) fn meant_tool(
        &self,
        name: &str,
        arguments: &RawJson,
    ) -> Option<Result<(Arc<str>, RawJson), String>> {
        (name == CALL_TOOL && self.is_searched())
            .then(|| super::search::meant_tool(arguments, self.tools.keys()))
    }

    /// Takes the pending notices about the servers.
    pub(in crate::native) fn take_notices(&self) -> Vec<Notice> {
        for server in &self.servers {
            server.note_changed_tools();
        }
        self.notices.take()
    }

    /// Ends all servers.
    pub(in crate::native) async fn close(&self, grace: Duration) {
        join_all(self.servers.iter().map(|server| server.close(grace))).await;
    }
}

impl McpTool {
    fn definition(&self) -> CallerTool {
        CallerTool {
            name: Arc::clone(&self.name),
            description: Arc::clone(&self.description),
            input_schema: self.schema.clone(),
        }
    }
}

/// Lists the servers of the profile, and those of a trusted project whose names are not taken.
pub(super) fn configured_servers(
    place: &ServerPlace,
    names: &mut ToolNames,
    notices: &NoticeQueue,
) -> Vec<ServerEntry> {
    let spec = &place.spec;
    let project = if spec.trust { read_project_servers(&place.cwd) } else { Ok(BTreeMap::new()) };
    let project = project.unwrap_or_else(|error| {
        notices.push(Notice::new(NoticeLevel::Warning, "mcp_failed", error.to_string()));
        BTreeMap::new()
    });
    if spec.mcp_servers.is_empty() && project.is_empty() {
        return Vec::new();
    }
    let variables = definition_variables(spec, &place.host);
    let address = |name: &Arc<str>, definition: &RawJson| match &variables {
        Ok(variables) => {
            read_definition(name, definition, variables).map_err(|error| error.to_string())
        }
        Err(error) => Err(error.clone()),
    };
    let owners = spec.mcp_servers.iter().map(|(name, definition)| ServerEntry {
        name: Arc::clone(name),
        part: names.owners_server(name),
        address: address(name, definition),
    });
    let mut entries: Vec<ServerEntry> = owners.collect();
    let free = project.iter().filter(|(name, _)| !spec.mcp_servers.contains_key(*name));
    entries.extend(free.map(|(name, definition)| ServerEntry {
        name: Arc::clone(name),
        part: names.projects_server(name),
        address: address(name, definition).map(ServerAddress::without_login),
    }));
    entries
}

/// Returns the variables that definitions can use: the environment that the session's programs get.
pub(super) fn definition_variables(
    spec: &SessionSpec,
    host: &ExecutorHost,
) -> Result<BTreeMap<OsString, OsString>, String> {
    let variables = host.fresh_mark().and_then(|mark| host.child_environment(spec, &[], &mark));
    variables.map_err(|failure: Failure| failure.to_string())
}

async fn start_server(
    entry: ServerEntry,
    place: &Arc<ServerPlace>,
    notices: &NoticeQueue,
) -> Option<(ServerPart, McpServer, Vec<rmcp::model::Tool>)> {
    let ServerEntry { name, part, address } = entry;
    let started = match address {
        Ok(address) => {
            let (name, place) = (Arc::clone(&name), Arc::clone(place));
            McpServer::start(name, address, place, notices.clone()).await
        }
        Err(error) => Err(StartError::from(error)),
    };
    match started {
        Ok((server, tools)) => {
            let count = tools.len();
            let more = if count == MAX_LISTED_TOOLS { " (more are left out)" } else { "" };
            let text = format!("the MCP server `{name}` offers {count} tools{more}");
            notices.push(server_notice(NoticeLevel::Info, "mcp_started", text, &name));
            Some((part, server, tools))
        }
        Err(error) => {
            notices.push(start_notice(&error, &name));
            None
        }
    }
}

/// Converts a tool as the server describes it, or returns why it is left out.
fn usable_tool(
    name: Arc<str>,
    tool: &rmcp::model::Tool,
    server: &Arc<McpServer>,
) -> Result<McpTool, String> {
    let mut schema = (*tool.input_schema).clone();
    // Model APIs want an object with properties, even if the server omits them.
    schema.entry("type").or_insert_with(|| json!("object"));
    schema.entry("properties").or_insert_with(|| json!({}));
    let schema = to_raw_value(&Value::Object(schema)).map_err(|error| error.to_string())?;
    if schema.get().len() > MAX_SCHEMA_BYTES {
        return Err(format!(
            "the tool `{}` of the MCP server `{}` is left out: its schema has {} bytes",
            tool.name,
            server.name,
            schema.get().len()
        ));
    }
    let description = tool.description.as_deref().unwrap_or_default();
    Ok(McpTool {
        name,
        remote_name: (*tool.name).into(),
        description: truncate_chars(description, MAX_DESCRIPTION_CHARS).into(),
        schema: schema.into(),
        is_read_only: tool.annotations.as_ref().and_then(|it| it.read_only_hint) == Some(true),
        server: Arc::clone(server),
    })
}
