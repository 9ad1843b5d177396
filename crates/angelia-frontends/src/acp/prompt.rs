//! Runs a prompt from its submission to its answer: follows the turn, sends its events to the
//! editor, asks the editor to decide approvals, and interrupts the turn if the prompt is cancelled.

use std::{collections::HashMap, path::PathBuf, sync::Arc};

use agent_client_protocol_schema::v1::{
    ConfigOptionUpdate, PromptRequest, SessionInfoUpdate, SessionUpdate,
};
use angelia_core::{
    engine::{EngineError, Submission, SubmittedTurn},
    model::{
        AgentStart, Approval, ApprovalId, ApprovalKind, Content, Decision, EventKind, Outcome,
        SessionId, TurnEvent, TurnOptions,
    },
    ports::BoxFuture,
};
use angelia_wire::jsonrpc::RpcId;
use futures_util::{StreamExt as _, stream::FuturesUnordered};
use tokio_util::sync::CancellationToken;

use super::{
    client_requests::send_request,
    connection::EditorConnection,
    content::{PromptInput, decode_prompt},
    errors::{AcpError, INVALID_REQUEST},
    permission,
    prompt_response::{self, PromptResponse},
    question,
    update::UpdateEncoder,
    usage_update::SessionCost,
};

const MAX_TITLE_CHARS: usize = 80;

/// An accepted prompt. Its session accepts no other prompt until this one is answered.
pub(super) struct AcceptedPrompt {
    request: RpcId<'static>,
    session: SessionId,
    cwd: PathBuf,
    cost: SessionCost,
    input: PromptInput,
    cancel: CancellationToken,
}

/// The editor's decision on an approval, or `None` if it was decided elsewhere.
type ApprovalAnswer = (ApprovalId, Option<Decision>);

/// Follows a turn and sends its events to the editor.
struct TurnFollower {
    connection: Arc<EditorConnection>,
    session: SessionId,
    /// The session id as the editor spells it.
    session_id: String,
    updates: UpdateEncoder,
    approval_requests: FuturesUnordered<BoxFuture<'static, ApprovalAnswer>>,
    /// Undecided approvals. The token withdraws the request to the editor.
    open_approvals: HashMap<ApprovalId, CancellationToken>,
}

impl AcceptedPrompt {
    /// Checks a prompt and marks its session as busy, because a session has one prompt at a time.
    pub(super) fn accept(
        connection: &EditorConnection,
        request: RpcId<'static>,
        prompt: PromptRequest,
    ) -> Result<Self, AcpError> {
        let session = connection.parse_open_session(&prompt.session_id.0)?;
        let mut sessions = connection.sessions();
        let open = sessions.get_mut(&session);
        let open = open.ok_or_else(|| AcpError::session_not_found(&prompt.session_id.0))?;
        if open.running_prompt.is_some() {
            let message = "a prompt is already running in this session; wait for it, or cancel it";
            return Err(AcpError::new(INVALID_REQUEST, message));
        }
        let said = decode_prompt(prompt.prompt, open.images)?;
        let cancel = CancellationToken::new();
        open.running_prompt = Some(cancel.clone());
        Ok(Self { request, session, cwd: open.cwd.clone(), cost: open.cost, input: said, cancel })
    }

    pub(super) async fn run(self, connection: Arc<EditorConnection>) {
        let Self { request, session, cwd, cost: spent, input: said, cancel } = self;
        let title = derive_title(&said.input);
        let updates = UpdateEncoder::new(session, &cwd, connection.capabilities().features);
        let following = TurnFollower {
            session_id: session.to_string(),
            updates: updates.with_cost(spent),
            connection: Arc::clone(&connection),
            session,
            approval_requests: FuturesUnordered::new(),
            open_approvals: HashMap::new(),
        };
        let ended = match submit(&connection, session, said, &cancel).await {
            Ok(submitted) => following.follow(submitted, &cancel).await,
            Err(error) => Err(error.into()),
        };
        connection.set_title(session, title).await;
        // Free the session before answering: an editor may send the next prompt as soon as it has
        // the answer.
        if let Some(open) = connection.sessions().get_mut(&session) {
            open.running_prompt = None;
            open.cost = match &ended {
                Ok(outcome) => spent.add_turn(&outcome.usage),
                Err(_) => SessionCost::UNKNOWN,
            };
        }
        let answered = match &ended {
            Ok(outcome) => prompt_response::build_response(outcome, cancel.is_cancelled()),
            Err(_) if cancel.is_cancelled() => Ok(PromptResponse::cancelled()),
            Err(refusal) => return connection.send_error(&request, refusal).await,
        };
        match answered {
            Ok(answer) => connection.send_result(&request, &answer).await,
            Err(refusal) => connection.send_error(&request, &refusal).await,
        }
    }
}

async fn submit(
    connection: &EditorConnection,
    session: SessionId,
    said: PromptInput,
    cancel: &CancellationToken,
) -> Result<SubmittedTurn, EngineError> {
    let options = TurnOptions { can_ask: true, ..TurnOptions::new(said.origin) };
    let new = Submission::new(session, said.input, options);
    connection.engine.submit_when_free(new, cancel).await
}

impl TurnFollower {
    async fn follow(
        mut self,
        submitted: SubmittedTurn,
        cancel: &CancellationToken,
    ) -> Result<Outcome, AcpError> {
        let SubmittedTurn { turn, mut watch, .. } = submitted;
        let engine = self.connection.engine.clone();
        let mut stopping = false;
        loop {
            tokio::select! {
                biased;
                () = cancel.cancelled(), if !stopping => {
                    stopping = true;
                    if let Err(error) = engine.interrupt(turn, false).await {
                        tracing::debug!(%error, "the turn could not be stopped");
                    }
                }
                Some((id, decision)) = self.approval_requests.next() => {
                    self.open_approvals.remove(&id);
                    if let Some(decision) = decision
                        && let Err(error) = engine.decide(id, decision).await
                    {
                        tracing::debug!(%error, "the decision came too late");
                    }
                }
                batch = watch.next() => {
                    let batch = batch.map_err(EngineError::from)?;
                    let Some(batch) = batch else {
                        let message = "the turn's events ended without an outcome";
                        return Err(AcpError::new(angelia_wire::jsonrpc::INTERNAL_ERROR, message));
                    };
                    if let Some(outcome) = self.send_events(&batch).await {
                        return Ok(outcome);
                    }
                }
            }
        }
    }

    async fn send_events(&mut self, batch: &[TurnEvent]) -> Option<Outcome> {
        let mut out = Vec::with_capacity(batch.len() * 256);
        let mut end = None;
        for event in batch {
            self.updates.encode_event(event, &mut out);
            match &event.kind {
                EventKind::Approval(approval) => self.request_approval(approval),
                EventKind::Resolved(resolution) => {
                    if let Some(unwanted) = self.open_approvals.remove(&resolution.id) {
                        unwanted.cancel();
                    }
                }
                EventKind::Started(started) => self.report_model(started, &mut out),
                EventKind::Finished(outcome) => end = Some(outcome.clone()),
                _ => {}
            }
        }
        self.connection.send_lines(out).await;
        if end.is_some() {
            // Wait for the open requests, which tell the editor that they are withdrawn.
            for (_, unwanted) in self.open_approvals.drain() {
                unwanted.cancel();
            }
            while self.approval_requests.next().await.is_some() {}
        }
        end
    }

    fn request_approval(&mut self, approval: &Approval) {
        let unwanted = CancellationToken::new();
        self.open_approvals.insert(approval.id, unwanted.clone());
        let connection = Arc::clone(&self.connection);
        let id = approval.id;
        let asking: BoxFuture<'static, ApprovalAnswer> = match &approval.kind {
            ApprovalKind::Tool => {
                let tool = self.updates.permission_tool_call(approval);
                let params = permission::params(&self.session_id, tool, &approval.rules);
                // Encode now: this borrows from the encoder, which changes while the editor is
                // asked.
                let request = connection.prepare_request(permission::METHOD, &params);
                let rules = approval.rules.clone();
                Box::pin(async move {
                    let answer = send_request(&connection, request, &unwanted).await;
                    (id, answer.map(|answer| permission::parse_decision(answer, &rules)))
                })
            }
            ApprovalKind::Question(questions) => {
                let (name, approval) = (self.session_id.clone(), approval.clone());
                let questions = Arc::clone(questions);
                Box::pin(async move {
                    let decided = question::ask_questions(
                        &connection,
                        &name,
                        &approval,
                        &questions,
                        &unwanted,
                    );
                    (id, decided.await)
                })
            }
        };
        self.approval_requests.push(asking);
    }

    /// Tells the editor which model the agent uses, if none was chosen.
    fn report_model(&self, started: &AgentStart, out: &mut Vec<u8>) {
        let Some(model) = &started.model else { return };
        let mut news = None;
        let chosen = self.connection.update_settings(self.session, |chosen| {
            if chosen.model.is_none() {
                chosen.model = Some(Arc::clone(model));
                news = Some(());
            }
        });
        if let (Ok(chosen), Some(())) = (chosen, news) {
            let update = ConfigOptionUpdate::new(chosen.config_options());
            self.updates.write_update(&SessionUpdate::ConfigOptionUpdate(update), out);
        }
    }
}

impl EditorConnection {
    /// Names a session after its first prompt.
    async fn set_title(&self, session: SessionId, title: Option<Arc<str>>) {
        let Some(title) = title else { return };
        match self.sessions().get_mut(&session) {
            Some(open) if !open.has_title => open.has_title = true,
            _ => return,
        }
        let named = self.engine.rename_session(session, Some(Arc::clone(&title)));
        if let Err(error) = named.await {
            tracing::debug!(%error, "the session could not be named");
            return;
        }
        let update = SessionInfoUpdate::new().title(title.to_string());
        self.send_update(session, &SessionUpdate::SessionInfoUpdate(update)).await;
    }
}

/// Returns the first non-empty line, shortened.
fn derive_title(input: &[Content]) -> Option<Arc<str>> {
    let line = input.iter().find_map(|content| match content {
        Content::Text(text) => text.lines().map(str::trim).find(|line| !line.is_empty()),
        Content::Image { .. } => None,
    })?;
    match line.char_indices().nth(MAX_TITLE_CHARS) {
        Some((at, _)) => Some(format!("{}…", &line[..at]).into()),
        None => Some(line.into()),
    }
}
