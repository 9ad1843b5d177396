//! One answer in progress. Projects the events of its turn onto chunks, lets the model repair an
//! answer that violates a constraint, and records the resulting conversation before the end of the
//! answer is sent.

use std::{sync::Arc, time::Duration};

use angelia_core::{
    engine::{EngineError, EventBatch, RequestKey, Submission},
    model::{
        Content, EventKind, Failure, FailureKind, Mode, Seq, SessionId, TurnEvent, TurnId, Usage,
    },
    ports::{HistoryEntry, StoreError},
};
use jiff::Timestamp;

use super::{
    AnswerChunk, AnswerConstraint, AnswerEnd, AnswerHeader, AnswerProgress, AnswerProjector,
    AnswerStart, CompleteAnswer, ProjectorOptions, StopReason, collector::AnswerCollector,
    viewer::Viewer,
};
use crate::http::{
    ErrorKind, HttpError,
    dialect::{
        matching::{self, AttachedTurn},
        request::ResolvedRequest,
    },
};

/// How long to wait for the final usage of an interrupted turn, which ends soon.
const CUT_USAGE_TIMEOUT: Duration = Duration::from_secs(2);

/// How often the model may repair an answer that violates its constraint.
const MAX_REPAIRS: u8 = 1;

/// The answer to one request, while it is produced.
#[derive(Debug)]
pub(in crate::http) struct LiveAnswer {
    pub(in crate::http) request: Arc<ResolvedRequest>,
    turn: AttachedTurn,
    projector: AnswerProjector,
    collector: AnswerCollector,
    /// The `End` chunk, held back until the conversation is recorded.
    end: Option<AnswerChunk>,
    cut: CutState,
    /// The number and time of the answer's last event.
    last: Option<(Seq, Timestamp)>,
    /// Whether a later request may continue the conversation after this answer.
    records_history: bool,
    /// Whether a new process may replace one that died while it waited for tool results.
    may_relaunch: bool,
    repairs: u8,
    over: bool,
    /// The final status, once known.
    pub(in crate::http) status: Option<&'static str>,
    viewer: Option<Viewer>,
}

/// Whether the answer was cut short, and its final usage.
#[derive(Debug, Default)]
enum CutState {
    #[default]
    NotCut,
    /// The turn was interrupted but has not ended yet.
    TurnRunning,
    /// The turn had already ended, with this usage.
    TurnEnded(Usage),
}

#[derive(Debug)]
pub(in crate::http) enum NextChunks {
    Chunks(Vec<AnswerChunk>),
    /// Nothing happened for the given time.
    Idle,
    Over,
}

impl LiveAnswer {
    pub(in crate::http) fn new(request: Arc<ResolvedRequest>, turn: AttachedTurn) -> Self {
        let gives_results = matches!(turn.start, AnswerStart::AfterEvent(_));
        Self {
            projector: projector(&request, turn.start),
            collector: AnswerCollector::default(),
            end: None,
            cut: CutState::NotCut,
            last: None,
            // A request that names the answer it continues does not repeat the conversation, so its
            // history has no hash.
            records_history: request.body.previous_turn.is_none(),
            // A model-mode agent has no side effects, so running it again is safe.
            may_relaunch: gives_results && request.spec.mode == Mode::Model,
            repairs: MAX_REPAIRS,
            over: false,
            status: None,
            viewer: Some(Viewer::attach(&request.state, turn.id, request.body.stream)),
            request,
            turn,
        }
    }

    pub(in crate::http) const fn turn(&self) -> TurnId {
        self.turn.id
    }

    pub(in crate::http) const fn session(&self) -> SessionId {
        self.turn.session
    }

    /// Returns the next chunks, or `Idle` after `idle_timeout`. The `End` chunk is always returned
    /// alone.
    pub(in crate::http) async fn next_chunks(
        &mut self,
        idle_timeout: Duration,
    ) -> Result<NextChunks, HttpError> {
        if self.end.is_some() {
            self.await_cut_usage().await;
            self.record_history().await?;
            self.finish();
            return Ok(NextChunks::Chunks(self.end.take().into_iter().collect()));
        }
        if self.over {
            return Ok(NextChunks::Over);
        }
        loop {
            let Ok(batch) = tokio::time::timeout(idle_timeout, self.turn.watch.next()).await else {
                return Ok(NextChunks::Idle);
            };
            let Some(batch) = batch.map_err(|error| watch_error(&error))? else {
                let message = "the record of the turn ends without its outcome";
                return Err(HttpError::internal(message));
            };
            // Happens at most once. The caller must not see an answer to a request that a crash
            // would erase.
            if let Some(commit) = self.turn.pending_commit.take() {
                commit.await.map_err(|error| record_error(&error))?;
            }
            let mut chunks = Vec::new();
            let progress = self.project(&batch, &mut chunks);
            if let Some(chunks) = self.advance(progress, chunks).await? {
                return Ok(NextChunks::Chunks(chunks));
            }
        }
    }

    fn project(&mut self, batch: &EventBatch, chunks: &mut Vec<AnswerChunk>) -> AnswerProgress {
        let mut events = batch.iter();
        while let Some(event) = events.next() {
            // Without streaming, only complete blocks matter.
            if !self.request.body.stream && matches!(event.kind, EventKind::Delta { .. }) {
                continue;
            }
            let progress = self.projector.project(event, chunks);
            if !matches!(progress, AnswerProgress::More) {
                self.last = Some((event.seq, event.at));
                if let AnswerProgress::Cut = progress {
                    self.cut = events
                        .find_map(final_usage)
                        .map_or(CutState::TurnRunning, CutState::TurnEnded);
                }
                return progress;
            }
        }
        AnswerProgress::More
    }

    /// Acts on the state of the answer. Returns `None` if there is nothing to send yet.
    async fn advance(
        &mut self,
        progress: AnswerProgress,
        mut chunks: Vec<AnswerChunk>,
    ) -> Result<Option<Vec<AnswerChunk>>, HttpError> {
        for chunk in &chunks {
            self.collector.push(chunk);
        }
        match progress {
            AnswerProgress::More => return Ok((!chunks.is_empty()).then_some(chunks)),
            AnswerProgress::Failed(failure) if self.can_relaunch(&failure) => {
                self.may_relaunch = false;
                let turn = matching::relaunch(&self.request, self.turn.session).await?;
                self.follow_turn(turn);
                return Ok(None);
            }
            AnswerProgress::Failed(failure) => {
                self.finish_early("failed");
                return Err(failure.into());
            }
            AnswerProgress::NotStarted(failure) => {
                self.finish_early("failed");
                return Err(HttpError::not_started(failure));
            }
            AnswerProgress::UnknownModel(failure) => {
                self.finish_early("failed");
                return Err(HttpError::unknown_model(failure));
            }
            AnswerProgress::Interrupted => {
                self.finish_early("interrupted");
                return Err(self.interrupted_error());
            }
            AnswerProgress::Cut => {
                // The rest of the turn is unwanted, and a later request must not match its history.
                self.records_history = false;
                self.request.state.interrupt(self.turn.id).await;
            }
            AnswerProgress::Over => {}
        }
        let Some(AnswerChunk::End(end)) = chunks.last() else {
            return Ok(Some(chunks));
        };
        let end = end.clone();
        self.status = Some(end.status);
        if let Err(complaint) = self.check(&end) {
            self.repair(&complaint, &end).await?;
            return Ok(None);
        }
        self.end = chunks.pop();
        Ok(Some(chunks))
    }

    /// Waits for the final usage of an answer that was cut short, and puts it into the `End` chunk.
    async fn await_cut_usage(&mut self) {
        let watch = &mut self.turn.watch;
        let ended = async {
            while let Ok(Some(batch)) = watch.next().await {
                if let Some(usage) = batch.iter().find_map(final_usage) {
                    return Some(usage);
                }
            }
            None
        };
        let usage = match std::mem::take(&mut self.cut) {
            CutState::NotCut => return,
            CutState::TurnEnded(usage) => Some(usage),
            CutState::TurnRunning => {
                tokio::time::timeout(CUT_USAGE_TIMEOUT, ended).await.ok().flatten()
            }
        };
        if let (Some(usage), Some(AnswerChunk::End(end))) = (usage, &mut self.end) {
            end.usage = self.projector.answer_usage(&usage);
            self.collector.push(&AnswerChunk::End(end.clone()));
        }
    }

    /// Returns whether the process that waited for the results has died, but a new one can be
    /// started with the conversation and the results.
    fn can_relaunch(&self, failure: &Failure) -> bool {
        failure.kind == FailureKind::Agent && self.may_relaunch
    }

    fn interrupted_error(&self) -> HttpError {
        if self.request.state.engine.is_draining() {
            return EngineError::ShuttingDown.into();
        }
        let message = "the turn was interrupted before it produced any output";
        HttpError::new(ErrorKind::Interrupted, message)
    }

    fn finish_early(&mut self, status: &'static str) {
        self.status = Some(status);
        self.finish();
    }

    /// Marks the answer as over, because the client has seen its end.
    fn finish(&mut self) {
        self.over = true;
        if let Some(viewer) = self.viewer.take() {
            viewer.finish();
        }
    }

    fn check(&self, end: &AnswerEnd) -> Result<(), String> {
        match end.stop {
            StopReason::EndTurn | StopReason::Calls => {
                self.request.constraint.check(self.collector.blocks(), &end.stop)
            }
            // An answer that ended in another way has no final form to check.
            _ => Ok(()),
        }
    }

    /// Describes the violation to the model, and follows its next answer instead. Several viewers
    /// of one turn share the same repair.
    async fn repair(&mut self, complaint: &str, end: &AnswerEnd) -> Result<(), HttpError> {
        if self.repairs == 0 {
            self.finish_early("failed");
            return Err(AnswerConstraint::violation_error(complaint));
        }
        self.repairs -= 1;
        let state = &self.request.state;
        if matches!(end.stop, StopReason::Calls) {
            state.interrupt(self.turn.id).await;
        }
        let key = RequestKey {
            caller: Arc::clone(&self.request.principal.name),
            key: format!("v1:repair:{}", self.turn.id).into(),
            input: Some([0; 32]),
            window: state.models.current().idempotency_window,
        };
        let input = vec![Content::text(complaint)];
        let (session, options) = (self.turn.session, self.request.options.clone());
        let new = Submission { key: Some(key), ..Submission::new(session, input, options) };
        let submitted = state.engine.submit_with(new).await?;
        self.follow_turn(AttachedTurn {
            id: submitted.turn,
            session,
            start: AnswerStart::Part(0),
            watch: submitted.watch,
            pending_commit: None,
        });
        Ok(())
    }

    /// Switches to another turn, which answers instead.
    fn follow_turn(&mut self, turn: AttachedTurn) {
        if let Some(viewer) = self.viewer.take() {
            viewer.finish();
        }
        let request = &self.request;
        self.viewer = Some(Viewer::attach(&request.state, turn.id, request.body.stream));
        self.projector = projector(request, turn.start);
        self.turn = turn;
        self.collector = AnswerCollector::default();
        self.status = None;
    }

    /// Records the hash of the conversation including this answer, so that the next request finds
    /// its session.
    async fn record_history(&mut self) -> Result<(), HttpError> {
        let Some(AnswerChunk::End(end)) = &self.end else {
            return Ok(());
        };
        let Some((seq, at)) = self.last else {
            return Ok(());
        };
        if matches!(end.stop, StopReason::Calls) {
            self.request.state.recent_requests.mark_waiting(self.turn.id, seq);
        }
        // The agent's own conversation does not contain a failed answer in the form in which it was
        // sent.
        let stands = !matches!(end.stop, StopReason::Failed(_) | StopReason::Interrupted);
        if !stands || !self.records_history {
            return Ok(());
        }
        let messages = self.collector.message_forms();
        if messages.iter().any(|message| message.parts.is_empty()) {
            return Ok(());
        }
        let conversation = &self.request.conversation;
        let hashes = messages.iter().flat_map(|message| conversation.hashes_with_answer(message));
        let (turn, session) = (self.turn.id, self.turn.session);
        let mut commits = Vec::new();
        for hash in hashes {
            let entry = HistoryEntry { hash, session, turn, seq, at };
            commits.push(self.request.state.engine.index_history(&entry).await?);
        }
        for commit in commits {
            commit.await.map_err(|error| record_error(&error))?;
        }
        Ok(())
    }

    /// Takes the complete answer, or returns `None` before it has ended.
    pub(in crate::http) fn take_complete(&mut self) -> Option<CompleteAnswer> {
        std::mem::take(&mut self.collector).into_complete()
    }

    /// Returns the header for an answer that has emitted nothing.
    pub(in crate::http) fn header(&self) -> AnswerHeader {
        AnswerHeader {
            turn: self.turn.id,
            session: self.turn.session,
            part: 0,
            model: Arc::clone(&self.request.body.model),
            at: Timestamp::now(),
        }
    }
}

/// Returns the projector for the answer to a request, which begins at `start` in its turn.
fn projector(request: &ResolvedRequest, start: AnswerStart) -> AnswerProjector {
    let body = &request.body;
    let is_constrained = request.constraint.is_constrained();
    AnswerProjector::new(ProjectorOptions {
        model: Arc::clone(&body.model),
        start,
        tools: body.tools.iter().map(|tool| Arc::clone(&tool.name)).collect(),
        report_activity: request.spec.mode == Mode::Agent,
        hold_until_end: is_constrained,
        max_tokens: body.max_tokens.filter(|_| !is_constrained),
    })
    .with_stop_words(&body.stop_words)
}

fn final_usage(event: &TurnEvent) -> Option<Usage> {
    match &event.kind {
        EventKind::Finished(outcome) => Some(outcome.usage.clone()),
        _ => None,
    }
}

fn watch_error(error: &StoreError) -> HttpError {
    HttpError::internal(format!("the turn can no longer be followed: {error}"))
}

fn record_error(error: &StoreError) -> HttpError {
    HttpError::internal(format!("the request could not be recorded: {error}"))
}
