//! The MCP server, on top of the official library.

use std::{fmt, sync::Arc};

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
    Answer, Desk, Progress, Refused, SERVER,
    arguments::{self, Nothing, Task},
    ending::Ending,
    tools,
};

const INSTRUCTIONS: &str = "Angelia drives coding agents on this machine. `delegate` hands a task \
     to another of them; the rest shows what they did and sends messages on their bus.";

/// How many progress reports of a running turn may wait for the client.
const UNTOLD: usize = 16;

/// Serves one client until it disconnects or `ended` is cancelled. When the client disconnects,
/// `ended` is cancelled at once, and its open requests are abandoned.
pub async fn serve(
    desk: Arc<dyn Desk>,
    version: &str,
    input: impl AsyncRead + Send + Unpin + 'static,
    output: impl AsyncWrite + Send + Unpin + 'static,
    ended: CancellationToken,
) -> Result<(), Refused> {
    let server = Server { desk, version: version.into(), ended: ended.clone() };
    let input = Ending { input, ended: ended.clone() };
    let begun = server.serve_with_ct((input, output), ended.clone()).await;
    let running = match begun {
        Ok(running) => running,
        // The client disconnected, or we are shutting down, before the handshake was complete.
        Err(_) if ended.is_cancelled() => return Ok(()),
        Err(error) => {
            let what = format!("the MCP handshake with the client failed: {error}");
            return Err(Refused::new(what));
        }
    };
    let quit = running.waiting().await;
    ended.cancel();
    match quit {
        Ok(_reason) => Ok(()),
        Err(error) => Err(Refused::new(format!("the MCP server failed: {error}"))),
    }
}

struct Server {
    desk: Arc<dyn Desk>,
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
        info.server_info = Implementation::new(SERVER, &*self.version);
        info
    }

    async fn list_tools(
        &self,
        _one_page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let tools = tools::all(&self.desk.delegates());
        Ok(ListToolsResult::with_all_items(tools))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let said = request.arguments;
        if let Err(refused) = self.desk.permitted(&request.name).await {
            return Ok(refusal(&refused).into());
        }
        let answered = match &*request.name {
            tools::DELEGATE => match arguments::read(said) {
                Ok(task) => self.delegate(task, context).await,
                Err(refused) => Err(refused),
            },
            tools::SESSIONS_LIST => self.sessions_list(said).await,
            tools::SESSIONS_SHOW => self.sessions_show(said).await,
            tools::APPROVALS_PENDING => self.approvals_pending(said).await,
            tools::BUS_SEND => match arguments::read(said) {
                Ok(message) => self.desk.send(message).await.map(text),
                Err(refused) => Err(refused),
            },
            tools::BUS_STATUS => match arguments::read::<Nothing>(said) {
                Ok(Nothing {}) => self.desk.bus_status().await.map(text),
                Err(refused) => Err(refused),
            },
            tools::BUS_INFO => match arguments::read::<Nothing>(said) {
                Ok(Nothing {}) => self.desk.bus_info().await.map(text),
                Err(refused) => Err(refused),
            },
            other => {
                let what = format!("there is no tool `{other}`");
                return Err(ErrorData::invalid_params(what, None));
            }
        };
        Ok(answered.unwrap_or_else(|refused| refusal(&refused)).into())
    }
}

fn refusal(refused: &Refused) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(refused.to_string())])
}

type Said = Option<serde_json::Map<String, Value>>;

impl Server {
    async fn sessions_list(&self, said: Said) -> Result<CallToolResult, Refused> {
        let list = arguments::read(said)?;
        let records = self.desk.records().await?;
        Ok(json(&records.sessions(&list).await?))
    }

    async fn sessions_show(&self, said: Said) -> Result<CallToolResult, Refused> {
        let show = arguments::read(said)?;
        let records = self.desk.records().await?;
        Ok(json(&records.session(&show).await?))
    }

    async fn approvals_pending(&self, said: Said) -> Result<CallToolResult, Refused> {
        let list = arguments::read(said)?;
        let records = self.desk.records().await?;
        Ok(json(&records.approvals(&list).await?))
    }

    async fn delegate(
        &self,
        task: Task,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResult, Refused> {
        let (sender, mut said) = mpsc::channel(UNTOLD);
        let stop = self.ended.child_token();
        let mut teller = Teller::new(&context);
        let mut work = self.desk.delegate(task, Progress::new(sender), stop.clone());
        let answer = loop {
            tokio::select! {
                // A finished answer comes first: a late cancellation must not affect it.
                biased;
                answer = &mut work => break answer,
                () = context.ct.cancelled(), if !stop.is_cancelled() => stop.cancel(),
                Some(what) = said.recv() => teller.tell(what).await,
            }
        };
        // Progress that is still queued is sent before the answer.
        while let Ok(what) = said.try_recv() {
            teller.tell(what).await;
        }
        Ok(answered(answer?))
    }
}

/// Sends progress notifications to a client that has asked for them.
struct Teller {
    peer: Peer<RoleServer>,
    token: Option<ProgressToken>,
    told: f64,
}

impl Teller {
    fn new(context: &RequestContext<RoleServer>) -> Self {
        Self { peer: context.peer.clone(), token: context.meta.get_progress_token(), told: 0.0 }
    }

    async fn tell(&mut self, what: String) {
        let Some(token) = &self.token else { return };
        self.told += 1.0;
        let progress = ProgressNotificationParam::new(token.clone(), self.told).with_message(what);
        let _gone = self.peer.notify_progress(progress).await;
    }
}

fn text(text: String) -> CallToolResult {
    CallToolResult::success(vec![ContentBlock::text(text)])
}

fn json(value: &Value) -> CallToolResult {
    text(tools::as_text(value))
}

/// Returns the answer, and a note with the session and turn, with which the caller can continue.
fn answered(answer: Answer) -> CallToolResult {
    let note = format!("[session {}, turn {}: {}]", answer.session, answer.turn, answer.status);
    match answer.failed {
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
