//! Numbers the events of a turn, passes them to the store, and shows them. Every event has its
//! number before it is shown, and events that people act on are also committed before they are
//! shown.

use std::sync::Arc;

use tokio::time::Instant;

use super::{
    approvals::TURN_ENDED,
    changes::{Announcer, TurnAnnouncer},
    event_writer::EventWriter,
    output_limit::OutputLimit,
    text_saver::TextSaver,
    transcript::TurnTranscript,
    turn_log::TurnLog,
    unwritten_end::UnwrittenEnd,
    watchdog::StateTimeout,
};
use crate::{
    model::{BlockId, EventKind, Outcome, Seq, SessionRecord, TurnEvent, TurnStatus, Usage},
    ports::{Clock, Lease, Store, StoreError},
    redact::Redactor,
};

/// Higher than the number of deltas that any model writes between two complete blocks.
const MAX_UNSTORED_DELTAS: Seq = 1 << 20;
/// Higher than any event number of a turn whose recorded events cannot be read.
const UNKNOWN_NUMBERS_END: Seq = 1 << 40;

pub(super) struct Recorder {
    writer: EventWriter,
    clock: Arc<dyn Clock>,
    log: Arc<TurnLog>,
    /// `None` if the turn is hidden from observers.
    announcer: Option<TurnAnnouncer>,
    /// The session whose secrets are masked in notices and failures.
    session: Option<Arc<SessionRecord>>,
    last_seq: Seq,
    /// Whether `Started` has been recorded. A turn has only one.
    is_started: bool,
    transcript: TurnTranscript,
    text_saver: TextSaver,
    output_limit: OutputLimit,
    /// Usage of the finished segments; `segment_usage` holds that of the running one.
    earlier_usage: Usage,
    segment_usage: Usage,
    /// Offset of the block numbers of the running segment.
    first_block: BlockId,
    last_block: BlockId,
    segment: u32,
}

impl Recorder {
    pub(super) fn new(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        lease: Lease,
        log: Arc<TurnLog>,
        output_limit: usize,
    ) -> Self {
        Self {
            writer: EventWriter::new(store, lease),
            clock,
            log,
            announcer: None,
            session: None,
            last_seq: 0,
            is_started: false,
            transcript: TurnTranscript::default(),
            text_saver: TextSaver::default(),
            output_limit: OutputLimit::new(output_limit),
            earlier_usage: Usage::default(),
            segment_usage: Usage::default(),
            first_block: 0,
            last_block: 0,
            segment: 0,
        }
    }

    /// Sets the session whose secrets are masked in the agent's reports.
    pub(super) fn for_session(self, session: Arc<SessionRecord>) -> Self {
        Self { session: Some(session), ..self }
    }

    /// Sets the announcer of the turn's progress; `None` hides the turn from observers.
    pub(super) fn announced_by(self, announcer: Option<Announcer>) -> Self {
        Self { announcer: announcer.map(TurnAnnouncer::new), ..self }
    }

    /// Shows which timeout of the turn expires next.
    pub(super) fn show_timeout(&self, at: Instant, timeout: &StateTimeout) {
        self.log.set_timeout(at, timeout);
    }

    /// Records the events of an agent in order.
    pub(super) async fn record(&mut self, mut kinds: Vec<EventKind>) -> Result<(), StoreError> {
        kinds.retain_mut(|kind| self.adapt_to_turn(kind) && self.output_limit.admit(kind));
        self.append(kinds).await
    }

    async fn append(&mut self, kinds: Vec<EventKind>) -> Result<(), StoreError> {
        if kinds.is_empty() {
            return Ok(());
        }
        let mut events = self.number(kinds);
        if events.iter().any(|event| event.kind.must_commit_first()) {
            self.writer.commit(&mut events).await?;
            self.publish(&events.into());
        } else {
            let events: Arc<[_]> = events.into();
            self.publish(&events);
            self.writer.queue(&events).await?;
            if self.text_saver.is_full() {
                self.save_open_text().await;
            }
        }
        Ok(())
    }

    fn number(&self, mut kinds: Vec<EventKind>) -> Vec<TurnEvent> {
        for kind in &mut kinds {
            self.redact(kind);
        }
        let at = self.clock.now();
        let (turn, session) = (self.log.turn, self.log.session);
        let numbered = (self.last_seq + 1..).zip(kinds);
        numbered.map(|(seq, kind)| TurnEvent { turn, session, seq, at, kind }).collect()
    }

    fn publish(&mut self, events: &Arc<[TurnEvent]>) {
        for event in &**events {
            self.last_seq = event.seq;
            self.transcript.apply(event.seq, &event.kind);
            self.text_saver.on_event(event, &self.transcript);
        }
        self.log.publish(Arc::clone(events));
        if let Some(announcer) = &mut self.announcer {
            announcer.on_events(self.log.turn, events);
        }
    }

    /// Returns when [`Recorder::save_open_text`] must be called next at the latest.
    pub(super) const fn save_text_at(&self) -> Option<Instant> {
        self.text_saver.due_at()
    }

    /// Saves the text of incomplete blocks, in case this process dies.
    pub(super) async fn save_open_text(&mut self) {
        let turn = self.log.turn;
        self.text_saver.save(&self.writer, turn, &mut self.transcript).await;
    }

    /// Returns whether the turn has reached its output limit.
    pub(super) const fn is_output_limit_reached(&self) -> bool {
        self.output_limit.is_reached()
    }

    /// Continues a turn that another process started: reads the recorded events and continues the
    /// numbering after the last one. Skips enough numbers to cover deltas that were shown but not
    /// stored, so that every viewer's position is before the new events.
    pub(super) async fn catch_up(&mut self) -> Result<(), StoreError> {
        const PAGE: usize = 512;
        loop {
            let replay = self.writer.store().replay(self.log.turn, self.last_seq, PAGE).await;
            if replay.is_err() {
                // The end of the turn still needs an unused number.
                self.last_seq = UNKNOWN_NUMBERS_END;
            }
            let page = replay?;
            let Some(newest) = page.last() else { break };
            self.last_seq = newest.seq;
            for event in &page {
                self.transcript.apply(event.seq, &event.kind);
                match &event.kind {
                    EventKind::Started(_) => self.is_started = true,
                    EventKind::Block { block, .. } => {
                        self.last_block = self.last_block.max(*block + 1);
                    }
                    EventKind::Usage(newer) => self.segment_usage = newer.clone(),
                    _ => {}
                }
            }
        }
        self.log.set_stored_until(self.last_seq);
        for piece in self.writer.store().open_text(self.log.turn).await? {
            self.transcript.restore(&piece);
            self.last_block = self.last_block.max(piece.block + 1);
            self.last_seq = self.last_seq.max(piece.seq);
        }
        self.last_seq += MAX_UNSTORED_DELTAS;
        self.next_segment();
        Ok(())
    }

    /// Starts another segment of the same turn. Viewers still see a single turn: block numbers
    /// continue, usage adds up, and there is only one `Started`.
    pub(super) fn next_segment(&mut self) {
        self.earlier_usage = self.usage();
        self.segment_usage = Usage::default();
        self.first_block = self.last_block;
        self.segment += 1;
    }

    /// Converts an event of a segment to one of the whole turn. Returns `false` if the turn already
    /// has the event, which must then be dropped.
    fn adapt_to_turn(&mut self, kind: &mut EventKind) -> bool {
        match kind {
            EventKind::Started(_) => return !std::mem::replace(&mut self.is_started, true),
            EventKind::Delta { block, .. } | EventKind::Block { block, .. } => {
                *block += self.first_block;
                self.last_block = self.last_block.max(*block + 1);
            }
            EventKind::Usage(usage) => {
                self.segment_usage = usage.clone();
                *usage = self.usage();
            }
            _ => {}
        }
        true
    }

    /// Masks the session's secrets in notices and in the reason why a turn ended. Such events are
    /// rare, so the secrets are collected only here.
    fn redact(&self, kind: &mut EventKind) {
        let Some(session) = &self.session else { return };
        let redactor = || Redactor::of_spec(&session.spec);
        match kind {
            EventKind::Notice(notice) => notice.text = redactor().redact(&notice.text).into(),
            EventKind::Finished(outcome) => {
                if let TurnStatus::Failed(failure) = &outcome.status {
                    let redactor = redactor();
                    outcome.status = TurnStatus::Failed(redactor.redact_failure(failure.clone()));
                    outcome.reason = redactor.redact(&outcome.reason).into();
                }
            }
            _ => {}
        }
    }

    /// Completes the open blocks and calls, denies pending approvals in the name of `by`, commits
    /// the `Finished` event and shows it. If the store cannot be written at the moment, shows
    /// nothing and returns the end. The caller then keeps the end and shows it with
    /// [`Recorder::show_end`].
    pub(super) async fn finish(&mut self, outcome: Outcome, by: &str) -> Result<(), EndError> {
        let mut kinds = self.transcript.closing_events(by);
        kinds.push(EventKind::Finished(outcome));
        let mut events = self.number(kinds);
        let mut written = self.writer.commit(&mut events).await;
        if matches!(written, Err(StoreError::DuplicateEvent { .. })) {
            for event in &mut events {
                event.seq += UNKNOWN_NUMBERS_END;
            }
            written = self.writer.commit(&mut events).await;
        }
        match written {
            Ok(()) => {
                self.publish(&events.into());
                Ok(())
            }
            Err(error) if error.is_temporary() => {
                let before = self.writer.take_unwritten();
                Err(EndError::Unwritten(
                    UnwrittenEnd { turn: self.log.turn, before, events },
                    error,
                ))
            }
            Err(error) => Err(EndError::Refused(error)),
        }
    }

    /// Shows the end of a turn that is kept until the store can be written.
    pub(super) fn show_end(&mut self, end: &UnwrittenEnd) {
        self.publish(&end.events.as_slice().into());
    }

    /// Shows an end that this process must not record, because it no longer owns the turn.
    pub(super) fn publish_unstored(&mut self, kind: EventKind) {
        let events = self.number(vec![kind]);
        self.publish(&events.into());
    }

    /// Completes the text blocks and tool calls that the agent left unfinished.
    pub(super) async fn close_unfinished(&mut self) -> Result<(), StoreError> {
        let open = self.transcript.closing_events(TURN_ENDED);
        self.append(open).await
    }

    /// Returns the answer recorded so far.
    pub(super) fn answer(&self) -> Arc<str> {
        self.transcript.answer()
    }

    pub(super) fn usage(&self) -> Usage {
        self.earlier_usage.plus(&self.segment_usage)
    }

    pub(super) const fn has_called_tool(&self) -> bool {
        self.transcript.has_called_tool()
    }

    /// Returns whether the turn has any text or tool call that another segment can continue.
    pub(super) fn has_output(&self) -> bool {
        self.transcript.has_output()
    }

    pub(super) const fn is_first_segment(&self) -> bool {
        self.segment == 0
    }
}

/// Why the end of a turn was not recorded.
pub(super) enum EndError {
    /// The store cannot be written at the moment.
    Unwritten(UnwrittenEnd, StoreError),
    /// The turn or its session belongs to another process or no longer exists.
    Refused(StoreError),
}
