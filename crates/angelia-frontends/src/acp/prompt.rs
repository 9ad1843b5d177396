//! Runs a prompt from its submission to its answer: follows the turn, sends its events to the
//! editor, asks the editor to decide on approvals, and interrupts the turn if the prompt is
//! cancelled.

use std::{collections::HashMap, path::PathBuf, sync::Arc, time::Duration};

use agent_client_protocol_schema::v1::{
    ConfigOptionUpdate, PromptRequest, SessionInfoUpdate, SessionUpdate,
};
use angelia_core::{
    engine::{EngineError, Submission, Submitted},
    model::{
        Approval, ApprovalId, ApprovalKind, Content, Decision, EventKind, Outcome, SessionId,
        Started, TurnEvent, TurnOptions,
    },
    ports::{BoxFuture, StoreError},
};
use angelia_wire::jsonrpc::Id;
use futures_util::{StreamExt as _, stream::FuturesUnordered};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{
    asking::ask,
    connection::Connection,
    content::{Said, said},
    ending::{self, Answered},
    errors::{INVALID_REQUEST, Refusal},
    meter::Spent,
    permission, question,
    update::Updates,
};

/// Limits the wait for a session that another process owns.
const PATIENCE: Duration = Duration::from_secs(5);
const RETRY: Duration = Duration::from_millis(100);

const TITLE: usize = 80;

/// An accepted prompt. Its session takes no other prompt until this one is answered.
pub(super) struct Prompt {
    request: Id<'static>,
    session: SessionId,
    cwd: PathBuf,
    spent: Spent,
    said: Said,
    cancel: CancellationToken,
}

/// The editor's decision on an approval. `None`: it was decided elsewhere.
type Asked = (ApprovalId, Option<Decision>);

/// Follows a turn and sends its events to the editor.
struct Following {
    connection: Arc<Connection>,
    session: SessionId,
    /// The session id as the editor spells it.
    name: String,
    updates: Updates,
    asking: FuturesUnordered<BoxFuture<'static, Asked>>,
    /// Approvals without a decision; the token withdraws the request to the editor.
    open: HashMap<ApprovalId, CancellationToken>,
}

impl Prompt {
    /// Checks a prompt and marks its session as busy, because a session has one prompt at a time.
    pub(super) fn accept(
        connection: &Connection,
        request: Id<'static>,
        prompt: PromptRequest,
    ) -> Result<Self, Refusal> {
        let session = connection.opened(&prompt.session_id.0)?;
        let mut sessions = connection.sessions();
        let open = sessions.get_mut(&session);
        let open = open.ok_or_else(|| Refusal::no_session(&prompt.session_id.0))?;
        if open.running.is_some() {
            let message = "a prompt runs in this session already; wait for it, or cancel it";
            return Err(Refusal::new(INVALID_REQUEST, message));
        }
        let said = said(prompt.prompt, open.images)?;
        let cancel = CancellationToken::new();
        open.running = Some(cancel.clone());
        Ok(Self { request, session, cwd: open.cwd.clone(), spent: open.spent, said, cancel })
    }

    pub(super) async fn run(self, connection: Arc<Connection>) {
        let Self { request, session, cwd, spent, said, cancel } = self;
        let title = title(&said.input);
        let updates = Updates::new(session, &cwd, connection.client().features);
        let following = Following {
            name: session.to_string(),
            updates: updates.having_spent(spent),
            connection: Arc::clone(&connection),
            session,
            asking: FuturesUnordered::new(),
            open: HashMap::new(),
        };
        let ended = match submit(&connection, session, said, &cancel).await {
            Ok(submitted) => following.follow(submitted, &cancel).await,
            Err(error) => Err(error.into()),
        };
        connection.entitle(session, title).await;
        // Free the session before the answer: an editor may send the next prompt as soon as it has
        // it.
        if let Some(open) = connection.sessions().get_mut(&session) {
            open.running = None;
            open.spent = match &ended {
                Ok(outcome) => spent.and(&outcome.usage),
                Err(_) => Spent::UNKNOWN,
            };
        }
        let answered = match &ended {
            Ok(outcome) => ending::answer(outcome, cancel.is_cancelled()),
            Err(_) if cancel.is_cancelled() => Ok(Answered::cancelled()),
            Err(refusal) => return connection.refuse(&request, refusal).await,
        };
        match answered {
            Ok(answer) => connection.answer(&request, &answer).await,
            Err(refusal) => connection.refuse(&request, &refusal).await,
        }
    }
}

async fn submit(
    connection: &Connection,
    session: SessionId,
    said: Said,
    cancel: &CancellationToken,
) -> Result<Submitted, EngineError> {
    let options = TurnOptions { can_ask: true, ..TurnOptions::new(said.origin) };
    let new = Submission { follows: true, ..Submission::new(session, said.input, options) };
    let patience = Instant::now() + PATIENCE;
    loop {
        match connection.engine.submit_as(new.clone()).await {
            // Another process owns the session. Most turns are short, so wait for it.
            Err(EngineError::Store(StoreError::Held(_)))
                if Instant::now() < patience && !cancel.is_cancelled() =>
            {
                cancel.run_until_cancelled(tokio::time::sleep(RETRY)).await;
            }
            submitted => return submitted,
        }
    }
}

impl Following {
    async fn follow(
        mut self,
        submitted: Submitted,
        cancel: &CancellationToken,
    ) -> Result<Outcome, Refusal> {
        let Submitted { turn, mut watch, .. } = submitted;
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
                Some((id, decision)) = self.asking.next() => {
                    self.open.remove(&id);
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
                        return Err(Refusal::new(angelia_wire::jsonrpc::INTERNAL_ERROR, message));
                    };
                    if let Some(outcome) = self.show(&batch).await {
                        return Ok(outcome);
                    }
                }
            }
        }
    }

    async fn show(&mut self, batch: &[TurnEvent]) -> Option<Outcome> {
        let mut out = Vec::with_capacity(batch.len() * 256);
        let mut end = None;
        for event in batch {
            self.updates.event(event, &mut out);
            match &event.kind {
                EventKind::Approval(approval) => self.ask(approval),
                EventKind::Resolved(resolution) => {
                    if let Some(unwanted) = self.open.remove(&resolution.id) {
                        unwanted.cancel();
                    }
                }
                EventKind::Started(started) => self.settled(started, &mut out),
                EventKind::Finished(outcome) => end = Some(outcome.clone()),
                _ => {}
            }
        }
        self.connection.say(out).await;
        if end.is_some() {
            // Wait for the open requests, which tell the editor that they are withdrawn.
            for (_, unwanted) in self.open.drain() {
                unwanted.cancel();
            }
            while self.asking.next().await.is_some() {}
        }
        end
    }

    fn ask(&mut self, approval: &Approval) {
        let unwanted = CancellationToken::new();
        self.open.insert(approval.id, unwanted.clone());
        let connection = Arc::clone(&self.connection);
        let id = approval.id;
        let asking: BoxFuture<'static, Asked> = match &approval.kind {
            ApprovalKind::Tool => {
                let tool = self.updates.asked_about(approval);
                let params = permission::params(&self.name, tool);
                // Encoded now: it borrows from the encoder, which changes while the editor is
                // asked.
                let request = connection.request(permission::METHOD, &params);
                Box::pin(async move {
                    let answer = ask(&connection, request, &unwanted).await;
                    (id, answer.map(permission::decision))
                })
            }
            ApprovalKind::Question(questions) => {
                let (name, approval) = (self.name.clone(), approval.clone());
                let questions = Arc::clone(questions);
                Box::pin(async move {
                    let decided =
                        question::answered(&connection, &name, &approval, &questions, &unwanted);
                    (id, decided.await)
                })
            }
        };
        self.asking.push(asking);
    }

    /// Tells the editor which model the agent uses, if none was chosen.
    fn settled(&self, started: &Started, out: &mut Vec<u8>) {
        let Some(model) = &started.model else { return };
        let mut news = None;
        let chosen = self.connection.rechoose(self.session, |chosen| {
            if chosen.model.is_none() {
                chosen.model = Some(Arc::clone(model));
                news = Some(());
            }
        });
        if let (Ok(chosen), Some(())) = (chosen, news) {
            let update = ConfigOptionUpdate::new(chosen.options());
            self.updates.put(&SessionUpdate::ConfigOptionUpdate(update), out);
        }
    }
}

impl Connection {
    /// Names a session after its first prompt.
    async fn entitle(&self, session: SessionId, title: Option<Arc<str>>) {
        let Some(title) = title else { return };
        match self.sessions().get_mut(&session) {
            Some(open) if !open.titled => open.titled = true,
            _ => return,
        }
        let named = self.engine.rename_session(session, Some(Arc::clone(&title)));
        if let Err(error) = named.await {
            tracing::debug!(%error, "the session could not be named");
            return;
        }
        let update = SessionInfoUpdate::new().title(title.to_string());
        self.tell(session, &SessionUpdate::SessionInfoUpdate(update)).await;
    }
}

/// Returns the first line with text, shortened.
fn title(input: &[Content]) -> Option<Arc<str>> {
    let line = input.iter().find_map(|content| match content {
        Content::Text(text) => text.lines().map(str::trim).find(|line| !line.is_empty()),
        Content::Image { .. } => None,
    })?;
    match line.char_indices().nth(TITLE) {
        Some((at, _)) => Some(format!("{}…", &line[..at]).into()),
        None => Some(line.into()),
    }
}
