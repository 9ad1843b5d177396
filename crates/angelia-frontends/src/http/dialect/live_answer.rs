//! One answer in progress. Projects the events of its turn onto chunks, lets the model repair an
//! answer that violates a constraint, and records the resulting conversation before the end of the
//! answer is sent.

use std::{sync::Arc, time::Duration};

use angelia_core::{
    engine::{EventBatch, RequestKey, Submission, TurnWatch},
    model::{
        Content, EventKind, Failure, FailureKind, Mode, Seq, SessionId, TurnEvent, TurnId,
        TurnOptions, Usage,
    },
    ports::{HistoryEntry, PendingCommit, StoreError},
};
use jiff::Timestamp;

use super::{
    AnswerChunk, AnswerEnd, AnswerHeader, AnswerProgress, AnswerProjector, CompleteAnswer,
    DialectError, ErrorKind, ModelRequest, ProjectorOptions, ShownFrom, StopReason,
    collector::AnswerCollector, constraint::AnswerConstraint, conversation::RequestConversation,
    serve::LostAgentRecovery, viewer::Viewer,
};
use crate::http::ApiState;

/// How long to wait for the final usage of a turn that was cut short; such a turn ends soon.
const CUT_USAGE_TIMEOUT: Duration = Duration::from_secs(2);

/// The number of times the model may repair an answer that violates its constraint.
const MAX_REPAIRS: u8 = 1;

/// The answer to one request, while it is produced.
#[derive(Debug)]
pub(super) struct LiveAnswer {
    pub(super) state: Arc<ApiState>,
    pub(super) request: Arc<ModelRequest>,
    /// The name of the caller; part of the idempotency keys of repairs.
    pub(super) caller: Arc<str>,
    /// The conversation of the request; `None` if the answer must not be recorded for matching.
    conversation: Option<Arc<RequestConversation>>,
    constraint: Arc<AnswerConstraint>,
    options: TurnOptions,
    view: ProjectorOptions,
    pub(super) turn: TurnId,
    pub(super) session: SessionId,
    watch: TurnWatch,
    /// A pending commit that must succeed before anything is sent.
    pending_commit: Option<PendingCommit>,
    projector: AnswerProjector,
    collector: AnswerCollector,
    /// The `End` chunk, held back until the conversation is recorded.
    end: Option<AnswerChunk>,
    cut: CutState,
    /// The number and time of the last event of the answer.
    last: Option<(Seq, Timestamp)>,
    repairs: u8,
    over: bool,
    /// The final status, once known.
    pub(super) status: Option<&'static str>,
    viewer: Option<Viewer>,
    /// Recovers the request if the process that waited for tool results has died.
    pub(super) recovery: Option<LostAgentRecovery>,
}

/// Whether the answer was cut short, and its final usage.
#[derive(Debug, Default)]
enum CutState {
    #[default]
    NotCut,
    /// The turn has been interrupted and has not ended yet.
    TurnRunning,
    /// The turn had already ended, with this usage.
    TurnEnded(Usage),
}

/// The turn that a request is attached to.
#[derive(Debug)]
pub(super) struct AttachedTurn {
    pub(super) turn: TurnId,
    pub(super) session: SessionId,
    pub(super) start: ShownFrom,
    pub(super) watch: TurnWatch,
    /// A pending commit of the request's record.
    pub(super) pending_commit: Option<PendingCommit>,
    /// In agent mode the agent's own tools are reported.
    pub(super) mode: Mode,
    pub(super) options: TurnOptions,
}

#[derive(Debug)]
pub(super) enum NextChunks {
    Chunks(Vec<AnswerChunk>),
    /// Nothing has happened for the given time.
    Idle,
    Over,
}

impl LiveAnswer {
    pub(super) fn new(
        state: &Arc<ApiState>,
        ask: &Arc<ModelRequest>,
        caller: Arc<str>,
        incoming: Option<Arc<RequestConversation>>,
        demand: Arc<AnswerConstraint>,
        taken: AttachedTurn,
    ) -> Self {
        let view = ProjectorOptions {
            model: Arc::clone(&ask.model),
            start: taken.start,
            tools: ask.tools.iter().map(|tool| Arc::clone(&tool.name)).collect(),
            report_activity: taken.mode == Mode::Agent,
            hold_until_end: demand.is_constrained(),
            max_tokens: ask.max_tokens.filter(|_| !demand.is_constrained()),
        };
        Self {
            state: Arc::clone(state),
            request: Arc::clone(ask),
            caller,
            conversation: incoming,
            constraint: demand,
            options: taken.options,
            projector: AnswerProjector::new(view.clone()).with_stop_words(&ask.stop_words),
            view,
            turn: taken.turn,
            session: taken.session,
            watch: taken.watch,
            pending_commit: taken.pending_commit,
            collector: AnswerCollector::default(),
            end: None,
            cut: CutState::NotCut,
            last: None,
            repairs: MAX_REPAIRS,
            over: false,
            status: None,
            viewer: Some(Viewer::attach(state, taken.turn, ask.stream)),
            recovery: None,
        }
    }

    /// Returns the next chunks, or `Idle` after `idle_timeout`. The `End` chunk comes alone.
    pub(super) async fn next_chunks(
        &mut self,
        patience: Duration,
    ) -> Result<NextChunks, DialectError> {
        if self.end.is_some() {
            self.await_cut_usage().await;
            self.record_history().await?;
            self.over = true;
            if let Some(viewer) = self.viewer.take() {
                viewer.finish();
            }
            return Ok(NextChunks::Chunks(self.end.take().into_iter().collect()));
        }
        if self.over {
            return Ok(NextChunks::Over);
        }
        loop {
            let Ok(batch) = tokio::time::timeout(patience, self.watch.next()).await else {
                return Ok(NextChunks::Idle);
            };
            let Some(batch) = batch.map_err(|error| watch_error(&error))? else {
                let message = "the record of the turn ends without its outcome";
                return Err(internal(message));
            };
            let mut pieces = Vec::new();
            // At most once: the caller must not see an answer whose request would be forgotten by a
            // crash.
            if let Some(noted) = self.pending_commit.take() {
                noted.await.map_err(|error| record_error(&error))?;
            }
            let step = self.project(&batch, &mut pieces);
            if let Some(pieces) = self.step(step, pieces).await? {
                return Ok(NextChunks::Chunks(pieces));
            }
        }
    }

    fn project(&mut self, batch: &EventBatch, pieces: &mut Vec<AnswerChunk>) -> AnswerProgress {
        let mut events = batch.iter();
        while let Some(event) = events.next() {
            // Without streaming, only complete blocks matter.
            if !self.request.stream && matches!(event.kind, EventKind::Delta { .. }) {
                continue;
            }
            let step = self.projector.project(event, pieces);
            if !matches!(step, AnswerProgress::More) {
                self.last = Some((event.seq, event.at));
                if let AnswerProgress::Cut = step {
                    self.cut = events
                        .find_map(final_usage)
                        .map_or(CutState::TurnRunning, CutState::TurnEnded);
                }
                return step;
            }
        }
        AnswerProgress::More
    }

    /// Acts on the state of the answer. Returns `None` if there is nothing to send yet.
    async fn step(
        &mut self,
        step: AnswerProgress,
        mut pieces: Vec<AnswerChunk>,
    ) -> Result<Option<Vec<AnswerChunk>>, DialectError> {
        for piece in &pieces {
            self.collector.push(piece);
        }
        match step {
            AnswerProgress::More => return Ok((!pieces.is_empty()).then_some(pieces)),
            AnswerProgress::Failed(failure) if self.can_recover(&failure) => {
                if let Some(lost) = self.recovery.take() {
                    let taken = lost.relaunch(&self.state).await?;
                    self.follow_turn(taken.turn, taken.session, taken.watch);
                }
                return Ok(None);
            }
            AnswerProgress::Failed(failure) => {
                self.finish_early("failed");
                return Err(failure.into());
            }
            AnswerProgress::Interrupted => {
                self.finish_early("interrupted");
                let message = "the turn was interrupted before it produced any output";
                return Err(DialectError::new(ErrorKind::Interrupted, message));
            }
            AnswerProgress::Cut => {
                // The rest of the turn is unwanted, and a later request must not match its history.
                self.conversation = None;
                self.interrupt().await;
            }
            AnswerProgress::Over => {}
        }
        let Some(AnswerChunk::End(end)) = pieces.last() else {
            return Ok(Some(pieces));
        };
        let end = end.clone();
        self.status = Some(end.status);
        if let Err(complaint) = self.check(&end) {
            self.repair(&complaint, &end).await?;
            return Ok(None);
        }
        self.end = pieces.pop();
        Ok(Some(pieces))
    }

    /// Waits for the final usage of an answer that was cut short, and puts it into the `End` chunk.
    async fn await_cut_usage(&mut self) {
        let watch = &mut self.watch;
        let ended = async {
            while let Ok(Some(batch)) = watch.next().await {
                if let Some(usage) = batch.iter().find_map(final_usage) {
                    return Some(usage);
                }
            }
            None
        };
        let whole = match std::mem::take(&mut self.cut) {
            CutState::NotCut => return,
            CutState::TurnEnded(usage) => Some(usage),
            CutState::TurnRunning => {
                tokio::time::timeout(CUT_USAGE_TIMEOUT, ended).await.ok().flatten()
            }
        };
        if let (Some(whole), Some(AnswerChunk::End(end))) = (whole, &mut self.end) {
            end.usage = self.projector.answer_usage(&whole);
            self.collector.push(&AnswerChunk::End(end.clone()));
        }
    }

    /// Returns whether the process that waited for the results has died and a new one can be given
    /// everything.
    fn can_recover(&self, failure: &Failure) -> bool {
        failure.kind == FailureKind::Agent && self.recovery.is_some()
    }

    fn finish_early(&mut self, status: &'static str) {
        self.over = true;
        self.status = Some(status);
        if let Some(viewer) = self.viewer.take() {
            viewer.finish();
        }
    }

    fn check(&self, end: &AnswerEnd) -> Result<(), String> {
        match end.stop {
            StopReason::EndTurn | StopReason::Calls => {
                self.constraint.check(self.collector.blocks(), &end.stop)
            }
            // An answer that ended otherwise has no final form to check.
            _ => Ok(()),
        }
    }

    /// Tells the model what is wrong with its answer and follows the next one instead. Several
    /// viewers of one turn share the same repair.
    async fn repair(&mut self, complaint: &str, end: &AnswerEnd) -> Result<(), DialectError> {
        if self.repairs == 0 {
            self.finish_early("failed");
            return Err(AnswerConstraint::violation_error(complaint));
        }
        self.repairs -= 1;
        if matches!(end.stop, StopReason::Calls) {
            self.interrupt().await;
        }
        let key = RequestKey {
            caller: Arc::clone(&self.caller),
            key: format!("v1:repair:{}", self.turn).into(),
            input: Some([0; 32]),
            window: self.state.models.idempotency_window,
        };
        let input = vec![Content::text(complaint)];
        let options = self.options.clone();
        let engine = &self.state.engine;
        let new = Submission { key: Some(key), ..Submission::new(self.session, input, options) };
        let submitted = engine.submit_with(new).await?;
        self.follow_turn(submitted.turn, self.session, submitted.watch);
        Ok(())
    }

    /// Switches to another turn, which answers instead.
    fn follow_turn(&mut self, turn: TurnId, session: SessionId, watch: TurnWatch) {
        if let Some(viewer) = self.viewer.take() {
            viewer.finish();
        }
        self.viewer = Some(Viewer::attach(&self.state, turn, self.request.stream));
        (self.turn, self.session, self.watch) = (turn, session, watch);
        self.view.start = ShownFrom::Part(0);
        self.projector =
            AnswerProjector::new(self.view.clone()).with_stop_words(&self.request.stop_words);
        self.collector = AnswerCollector::default();
        self.status = None;
    }

    async fn interrupt(&self) {
        if let Err(error) = self.state.engine.interrupt(self.turn, false).await {
            tracing::debug!(turn = %self.turn, %error, "the turn had already ended");
        }
    }

    /// Records the hash of the conversation including this answer, so that the next request finds
    /// its session.
    async fn record_history(&mut self) -> Result<(), DialectError> {
        let Some(AnswerChunk::End(end)) = &self.end else {
            return Ok(());
        };
        let Some((seq, at)) = self.last else {
            return Ok(());
        };
        if matches!(end.stop, StopReason::Calls) {
            self.state.recent_requests.mark_waiting(self.turn, seq);
        }
        // The agent's own conversation does not contain a failed answer as it was sent.
        let stands = !matches!(end.stop, StopReason::Failed(_) | StopReason::Interrupted);
        let Some(incoming) = self.conversation.as_ref().filter(|_| stands) else {
            return Ok(());
        };
        let messages = self.collector.message_forms();
        if messages.iter().any(|message| message.parts.is_empty()) {
            return Ok(());
        }
        let hashes = messages.iter().flat_map(|message| incoming.hashes_with_answer(message));
        let mut written = Vec::new();
        for hash in hashes {
            let note = HistoryEntry { hash, session: self.session, turn: self.turn, seq, at };
            written.push(self.state.engine.index_history(&note).await?);
        }
        for note in written {
            note.await.map_err(|error| record_error(&error))?;
        }
        Ok(())
    }

    /// Takes the complete answer; `None` before it has ended.
    pub(super) fn take_complete(&mut self) -> Option<CompleteAnswer> {
        std::mem::take(&mut self.collector).into_complete()
    }

    /// Returns the header of an answer of which nothing was emitted.
    pub(super) fn header(&self) -> AnswerHeader {
        AnswerHeader {
            turn: self.turn,
            session: self.session,
            part: 0,
            model: Arc::clone(&self.request.model),
            at: Timestamp::now(),
        }
    }
}

fn final_usage(event: &TurnEvent) -> Option<Usage> {
    match &event.kind {
        EventKind::Finished(outcome) => Some(outcome.usage.clone()),
        _ => None,
    }
}

fn watch_error(error: &StoreError) -> DialectError {
    internal(&format!("the turn can no longer be followed: {error}"))
}

fn record_error(error: &StoreError) -> DialectError {
    internal(&format!("the request could not be recorded: {error}"))
}

fn internal(message: &str) -> DialectError {
    DialectError::new(ErrorKind::Failed(FailureKind::Internal), message)
}
