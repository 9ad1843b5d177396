//! The MCP server, on top of the official library.

use std::{fmt, sync::Arc};

use angelia_core::ports::DelegateResult;
use rmcp::{
    ErrorData, Peer, RoleServer, ServerHandler, ServiceExt as _,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Implementation,
        InitializeResult, ListToolsResult, PaginatedRequestParams, ProgressNotificationParam,
        ProgressToken, ServerCapabilities,
    },
    service::RequestContext,
};
use serde_json::Value;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::mpsc,
};
use tokio_util::sync::CancellationToken;

use super::{
    ProgressReporter, SERVER_NAME, ToolBackend, ToolCallError,
    arguments::{self, DelegateArgs, NoArgs},
    eof::EofReader,
    tools,
};

const INSTRUCTIONS: &str = "Angelia drives coding agents on this machine. `delegate` hands a task \
     to another of them; the rest shows what they did and sends messages on their bus.";

/// How many progress reports of a running turn may wait for the client.
const MAX_QUEUED_PROGRESS: usize = 16;

/// Serves one client until it disconnects or `ended` is cancelled. When the client disconnects,
/// `ended` is cancelled immediately, and its open requests are abandoned.
pub async fn serve(
    desk: Arc<dyn ToolBackend>,
    version: &str,
    input: impl AsyncRead + Send + Unpin + 'static,
    output: impl AsyncWrite + Send + Unpin + 'static,
    ended: CancellationToken,
) -> Result<(), ToolCallError> {
    let server = Server { backend: desk, version: version.into(), ended: ended.clone() };
    let input = EofReader { input, ended: ended.clone() };
    let begun = server.serve_with_ct((input, output), ended.clone()).await;
    let running = match begun {
        Ok(running) => running,
        // The client disconnected, or we are shutting down, before the handshake was complete.
        Err(_) if ended.is_cancelled() => return Ok(()),
        Err(error) => {
            let what = format!("the MCP handshake with the client failed: {error}");
            return Err(ToolCallError::new(what));
        }
    };
    let quit = running.waiting().await;
    ended.cancel();
    match quit {
        Ok(_reason) => Ok(()),
        Err(error) => Err(ToolCallError::new(format!("the MCP server failed: {error}"))),
    }
}

struct Server {
    backend: Arc<dyn ToolBackend>,
    version: Box<str>,
    ended: CancellationToken,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").finish_non_exhaustive()
    }
}

impl ServerHandler for Server {
    fn get_info(&self) -> InitializeResult {
        let capabilities = ServerCapabilities::builder().enable_tools().build();
        let mut info = InitializeResult::new(capabilities).with_instructions(INSTRUCTIONS);
        info.server_info = Implementation::new(SERVER_NAME, &*self.version);
        info
    }

    async fn list_tools(
        &self,
        _one_page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let tools = tools::all_tools(&self.backend.delegates());
        Ok(ListToolsResult::with_all_items(tools))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let said = request.arguments;
        if let Err(refused) = self.backend.check_permission(&request.name).await {
            return Ok(error_result(&refused).into());
        }
        let answered = match &*request.name {
            tools::DELEGATE => match arguments::parse_arguments(said) {
                Ok(task) => self.delegate(task, context).await,
                Err(refused) => Err(refused),
            },
            tools::SESSIONS_LIST => self.sessions_list(said).await,
            tools::SESSIONS_SHOW => self.sessions_show(said).await,
            tools::APPROVALS_PENDING => self.approvals_pending(said).await,
            tools::BUS_SEND => match arguments::parse_arguments(said) {
                Ok(message) => self.backend.bus_send(message).await.map(text_result),
                Err(refused) => Err(refused),
            },
            tools::BUS_STATUS => match arguments::parse_arguments::<NoArgs>(said) {
                Ok(NoArgs {}) => self.backend.bus_status().await.map(text_result),
                Err(refused) => Err(refused),
            },
            tools::BUS_INFO => match arguments::parse_arguments::<NoArgs>(said) {
                Ok(NoArgs {}) => self.backend.bus_info().await.map(text_result),
                Err(refused) => Err(refused),
            },
            other => {
                let what = format!("there is no tool `{other}`");
                return Err(ErrorData::invalid_params(what, None));
            }
        };
        Ok(answered.unwrap_or_else(|refused| error_result(&refused)).into())
    }
}

fn error_result(refused: &ToolCallError) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(refused.to_string())])
}

type RawArguments = Option<serde_json::Map<String, Value>>;

impl Server {
    async fn sessions_list(&self, said: RawArguments) -> Result<CallToolResult, ToolCallError> {
        let list = arguments::parse_arguments(said)?;
        let records = self.backend.records().await?;
        Ok(json_result(&records.list_sessions(&list).await?))
    }

    async fn sessions_show(&self, said: RawArguments) -> Result<CallToolResult, ToolCallError> {
        let show = arguments::parse_arguments(said)?;
        let records = self.backend.records().await?;
        Ok(json_result(&records.show_session(&show).await?))
    }

    async fn approvals_pending(&self, said: RawArguments) -> Result<CallToolResult, ToolCallError> {
        let list = arguments::parse_arguments(said)?;
        let records = self.backend.records().await?;
        Ok(json_result(&records.pending_approvals(&list).await?))
    }

    async fn delegate(
        &self,
        task: DelegateArgs,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResult, ToolCallError> {
        let (sender, mut said) = mpsc::channel(MAX_QUEUED_PROGRESS);
        let stop = self.ended.child_token();
        let mut teller = ProgressNotifier::new(&context);
        let mut work = self.backend.delegate(task, ProgressReporter::new(sender), stop.clone());
        let answer = loop {
            tokio::select! {
                // A finished answer comes first: a late cancellation must not affect it.
                biased;
                answer = &mut work => break answer,
                () = context.ct.cancelled(), if !stop.is_cancelled() => stop.cancel(),
                Some(what) = said.recv() => teller.notify(what).await,
            }
        };
        // Send queued progress before the answer.
        while let Ok(what) = said.try_recv() {
            teller.notify(what).await;
        }
        Ok(delegate_result(answer?))
    }
}

/// Sends progress notifications to a client that has asked for them.
struct ProgressNotifier {
    peer: Peer<RoleServer>,
    token: Option<ProgressToken>,
    sent: f64,
}

impl ProgressNotifier {
    fn new(context: &RequestContext<RoleServer>) -> Self {
        Self { peer: context.peer.clone(), token: context.meta.get_progress_token(), sent: 0.0 }
    }

    async fn notify(&mut self, what: String) {
        let Some(token) = &self.token else { return };
        self.sent += 1.0;
        let progress = ProgressNotificationParam::new(token.clone(), self.sent).with_message(what);
        let _gone = self.peer.notify_progress(progress).await;
    }
}

fn text_result(text: String) -> CallToolResult {
    CallToolResult::success(vec![ContentBlock::text(text)])
}

fn json_result(value: &Value) -> CallToolResult {
    text_result(tools::json_text(value))
}

/// Returns the answer, and a note with the session and turn that the caller can continue with.
fn delegate_result(answer: DelegateResult) -> CallToolResult {
    let note = format!("[session {}, turn {}: {}]", answer.session, answer.turn, answer.status);
    match answer.failure {
        None => {
            CallToolResult::success(vec![ContentBlock::text(answer.text), ContentBlock::text(note)])
        }
        Some(why) => {
            let mut content = vec![ContentBlock::text(format!("the turn failed: {why}"))];
            if !answer.text.is_empty() {
                content.push(ContentBlock::text(format!("its partial answer:\n{}", answer.text)));
            }
            content.push(ContentBlock::text(note));
            CallToolResult::error(content)
        }
    }
}
