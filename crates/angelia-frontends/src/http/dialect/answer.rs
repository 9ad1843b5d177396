//! One answer in progress. Projects the events of its turn onto chunks, lets the model repair an
//! answer that violates a constraint, and records the resulting conversation before the end of the
//! answer is sent.

use std::{sync::Arc, time::Duration};

use angelia_core::{
    engine::{EventBatch, RequestKey, Watch},
    model::{
        Content, EventKind, Failure, FailureKind, Mode, Seq, SessionId, TurnEvent, TurnId,
        TurnOptions, Usage,
    },
    ports::{Committed, HistoryNote, StoreError},
};
use jiff::Timestamp;

use super::{
    Ask, Begin, DialectError, End, ErrorKind, Piece, Shown, ShownFrom, Step, Stop, View, Whole,
    demands::Demand, gathered::Gathered, incoming::Incoming, serve::Lost, viewer::Viewer,
};
use crate::http::ApiState;

/// How long to wait for the final usage of a turn that was cut short; such a turn ends soon.
const CUT_ENDS: Duration = Duration::from_secs(2);

/// The number of times the model may repair an answer that violates its constraint.
const REPAIRS: u8 = 1;

/// The answer to one request, while it is produced.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) state: Arc<ApiState>,
    pub(super) ask: Arc<Ask>,
    /// The name of the caller; part of the idempotency keys of repairs.
    pub(super) caller: Arc<str>,
    /// The conversation of the request; `None` if the answer must not be recorded for matching.
    incoming: Option<Arc<Incoming>>,
    demand: Arc<Demand>,
    options: TurnOptions,
    view: View,
    pub(super) turn: TurnId,
    pub(super) session: SessionId,
    watch: Watch,
    /// A pending commit that must succeed before anything is sent.
    noted: Option<Committed>,
    shown: Shown,
    gathered: Gathered,
    /// The `End` chunk, held back until the conversation is recorded.
    end: Option<Piece>,
    cut: Cut,
    /// The number and time of the last event of the answer.
    last: Option<(Seq, Timestamp)>,
    repairs: u8,
    over: bool,
    /// The final status, once known.
    pub(super) status: Option<&'static str>,
    viewer: Option<Viewer>,
    /// Recovers the request if the process that waited for tool results has died.
    pub(super) lost: Option<Lost>,
}

/// Whether the answer was cut short, and its final usage.
#[derive(Debug, Default)]
enum Cut {
    #[default]
    No,
    /// The turn has been interrupted and has not ended yet.
    Ends,
    /// The turn had already ended, with this usage.
    Ended(Usage),
}

/// The turn that a request is attached to.
#[derive(Debug)]
pub(super) struct Taken {
    pub(super) turn: TurnId,
    pub(super) session: SessionId,
    pub(super) from: ShownFrom,
    pub(super) watch: Watch,
    /// A pending commit of the request's record.
    pub(super) noted: Option<Committed>,
    /// In agent mode the agent's own tools are reported.
    pub(super) mode: Mode,
    pub(super) options: TurnOptions,
}

#[derive(Debug)]
pub(super) enum Next {
    Pieces(Vec<Piece>),
    /// Nothing has happened for the given time.
    Idle,
    Over,
}

impl Answer {
    pub(super) fn new(
        state: &Arc<ApiState>,
        ask: &Arc<Ask>,
        caller: Arc<str>,
        incoming: Option<Arc<Incoming>>,
        demand: Arc<Demand>,
        taken: Taken,
    ) -> Self {
        let view = View {
            model: Arc::clone(&ask.model),
            from: taken.from,
            tools: ask.tools.iter().map(|tool| Arc::clone(&tool.name)).collect(),
            activity: taken.mode == Mode::Agent,
            hold: demand.is_one(),
            max_tokens: ask.max_tokens.filter(|_| !demand.is_one()),
        };
        Self {
            state: Arc::clone(state),
            ask: Arc::clone(ask),
            caller,
            incoming,
            demand,
            options: taken.options,
            shown: Shown::new(view.clone()).ending_at(&ask.stop),
            view,
            turn: taken.turn,
            session: taken.session,
            watch: taken.watch,
            noted: taken.noted,
            gathered: Gathered::default(),
            end: None,
            cut: Cut::No,
            last: None,
            repairs: REPAIRS,
            over: false,
            status: None,
            viewer: Some(Viewer::enter(state, taken.turn, ask.stream)),
            lost: None,
        }
    }

    /// Returns the next chunks, or `Idle` after `idle_timeout`. The `End` chunk comes alone.
    pub(super) async fn next(&mut self, patience: Duration) -> Result<Next, DialectError> {
        if self.end.is_some() {
            self.count_what_was_cut().await;
            self.remember().await?;
            self.over = true;
            if let Some(viewer) = self.viewer.take() {
                viewer.leave_for_good();
            }
            return Ok(Next::Pieces(self.end.take().into_iter().collect()));
        }
        if self.over {
            return Ok(Next::Over);
        }
        loop {
            let Ok(batch) = tokio::time::timeout(patience, self.watch.next()).await else {
                return Ok(Next::Idle);
            };
            let Some(batch) = batch.map_err(|error| lost(&error))? else {
                let message = "the record of the turn ends without its outcome";
                return Err(internal(message));
            };
            let mut pieces = Vec::new();
            // At most once: the caller must not see an answer whose request would be forgotten by a
            // crash.
            if let Some(noted) = self.noted.take() {
                noted.await.map_err(|error| not_written(&error))?;
            }
            let step = self.show(&batch, &mut pieces);
            if let Some(pieces) = self.step(step, pieces).await? {
                return Ok(Next::Pieces(pieces));
            }
        }
    }

    fn show(&mut self, batch: &EventBatch, pieces: &mut Vec<Piece>) -> Step {
        let mut events = batch.iter();
        while let Some(event) = events.next() {
            // Without streaming, only complete blocks matter.
            if !self.ask.stream && matches!(event.kind, EventKind::Delta { .. }) {
                continue;
            }
            let step = self.shown.event(event, pieces);
            if !matches!(step, Step::More) {
                self.last = Some((event.seq, event.at));
                if let Step::Cut = step {
                    self.cut = events.find_map(whole_usage).map_or(Cut::Ends, Cut::Ended);
                }
                return step;
            }
        }
        Step::More
    }

    /// Acts on the state of the answer. Returns `None` if there is nothing to send yet.
    async fn step(
        &mut self,
        step: Step,
        mut pieces: Vec<Piece>,
    ) -> Result<Option<Vec<Piece>>, DialectError> {
        for piece in &pieces {
            self.gathered.piece(piece);
        }
        match step {
            Step::More => return Ok((!pieces.is_empty()).then_some(pieces)),
            Step::Failed(failure) if self.is_lost(&failure) => {
                if let Some(lost) = self.lost.take() {
                    let taken = lost.carry(&self.state).await?;
                    self.follow(taken.turn, taken.session, taken.watch);
                }
                return Ok(None);
            }
            Step::Failed(failure) => {
                self.gone("failed");
                return Err(failure.into());
            }
            Step::Interrupted => {
                self.gone("interrupted");
                let message = "the turn was interrupted before it produced any output";
                return Err(DialectError::new(ErrorKind::Interrupted, message));
            }
            Step::Cut => {
                // The rest of the turn is unwanted, and a later request must not match its history.
                self.incoming = None;
                self.interrupt().await;
            }
            Step::Over => {}
        }
        let Some(Piece::End(end)) = pieces.last() else {
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
    async fn count_what_was_cut(&mut self) {
        let watch = &mut self.watch;
        let ended = async {
            while let Ok(Some(batch)) = watch.next().await {
                if let Some(usage) = batch.iter().find_map(whole_usage) {
                    return Some(usage);
                }
            }
            None
        };
        let whole = match std::mem::take(&mut self.cut) {
            Cut::No => return,
            Cut::Ended(usage) => Some(usage),
            Cut::Ends => tokio::time::timeout(CUT_ENDS, ended).await.ok().flatten(),
        };
        if let (Some(whole), Some(Piece::End(end))) = (whole, &mut self.end) {
            end.usage = self.shown.used(&whole);
            self.gathered.piece(&Piece::End(end.clone()));
        }
    }

    /// Returns whether the process that waited for the results has died and a new one can be given
    /// everything.
    fn is_lost(&self, failure: &Failure) -> bool {
        failure.kind == FailureKind::Agent && self.lost.is_some()
    }

    fn gone(&mut self, status: &'static str) {
        self.over = true;
        self.status = Some(status);
        if let Some(viewer) = self.viewer.take() {
            viewer.leave_for_good();
        }
    }

    fn check(&self, end: &End) -> Result<(), String> {
        match end.stop {
            Stop::EndTurn | Stop::Calls => self.demand.check(self.gathered.blocks(), &end.stop),
            // An answer that ended otherwise has no final form to check.
            _ => Ok(()),
        }
    }

    /// Tells the model what is wrong with its answer and follows the next one instead. Several
    /// viewers of one turn share the same repair.
    async fn repair(&mut self, complaint: &str, end: &End) -> Result<(), DialectError> {
        if self.repairs == 0 {
            self.gone("failed");
            return Err(Demand::unmet(complaint));
        }
        self.repairs -= 1;
        if matches!(end.stop, Stop::Calls) {
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
        let submitted = engine.submit_once(self.session, input, options, Some(key)).await?;
        self.follow(submitted.turn, self.session, submitted.watch);
        Ok(())
    }

    /// Switches to another turn, which answers instead.
    fn follow(&mut self, turn: TurnId, session: SessionId, watch: Watch) {
        if let Some(viewer) = self.viewer.take() {
            viewer.leave_for_good();
        }
        self.viewer = Some(Viewer::enter(&self.state, turn, self.ask.stream));
        (self.turn, self.session, self.watch) = (turn, session, watch);
        self.view.from = ShownFrom::Part(0);
        self.shown = Shown::new(self.view.clone()).ending_at(&self.ask.stop);
        self.gathered = Gathered::default();
        self.status = None;
    }

    async fn interrupt(&self) {
        if let Err(error) = self.state.engine.interrupt(self.turn, false).await {
            tracing::debug!(turn = %self.turn, %error, "the turn had already ended");
        }
    }

    /// Records the hash of the conversation including this answer, so that the next request finds
    /// its session.
    async fn remember(&mut self) -> Result<(), DialectError> {
        let Some(Piece::End(end)) = &self.end else {
            return Ok(());
        };
        let Some((seq, at)) = self.last else {
            return Ok(());
        };
        if matches!(end.stop, Stop::Calls) {
            self.state.recent.waits(self.turn, seq);
        }
        // The agent's own conversation does not contain a failed answer as it was sent.
        let stands = !matches!(end.stop, Stop::Failed(_) | Stop::Interrupted);
        let Some(incoming) = self.incoming.as_ref().filter(|_| stands) else {
            return Ok(());
        };
        let messages = self.gathered.messages();
        if messages.iter().any(|message| message.parts.is_empty()) {
            return Ok(());
        }
        let hashes = messages.iter().flat_map(|message| incoming.found_by(message));
        let mut written = Vec::new();
        for hash in hashes {
            let note = HistoryNote { hash, session: self.session, turn: self.turn, seq, at };
            written.push(self.state.engine.note_history(&note).await?);
        }
        for note in written {
            note.await.map_err(|error| not_written(&error))?;
        }
        Ok(())
    }

    /// Takes the complete answer; `None` before it has ended.
    pub(super) fn whole(&mut self) -> Option<Whole> {
        std::mem::take(&mut self.gathered).whole()
    }

    /// Returns the header of an answer of which nothing was emitted.
    pub(super) fn begin(&self) -> Begin {
        Begin {
            turn: self.turn,
            session: self.session,
            part: 0,
            model: Arc::clone(&self.ask.model),
            at: Timestamp::now(),
        }
    }
}

fn whole_usage(event: &TurnEvent) -> Option<Usage> {
    match &event.kind {
        EventKind::Finished(outcome) => Some(outcome.usage.clone()),
        _ => None,
    }
}

fn lost(error: &StoreError) -> DialectError {
    internal(&format!("the turn can no longer be followed: {error}"))
}

fn not_written(error: &StoreError) -> DialectError {
    internal(&format!("the request could not be recorded: {error}"))
}

fn internal(message: &str) -> DialectError {
    DialectError::new(ErrorKind::Failed(FailureKind::Internal), message)
}
