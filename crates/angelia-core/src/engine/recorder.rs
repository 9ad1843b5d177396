//! Numbers the events of a turn, hands them to the store, and shows them. Every event has its
//! number before it is shown, and events that people act on are committed before they are shown.

use std::{sync::Arc, time::Duration};

use tokio::{sync::oneshot, time::Instant};

use super::{
    facade::{EngineError, SubmitReply},
    new_turn::NewTurn,
    transcript::TurnTranscript,
    turn_log::TurnLog,
};
use crate::{
    model::{ApprovalId, BlockId, EventKind, Seq, TurnEvent, Usage},
    ports::{Clock, Lease, PendingCommit, Store, StoreError},
};

/// How long the turn's record and its `Started` event may wait to be written together with the
/// events that follow: one transaction instead of three, and none before the first text is shown.
const MAX_WRITE_DELAY: Duration = Duration::from_millis(2);

/// A turn whose agent has started while its record is still being written.
pub(super) struct TurnCreation {
    pub(super) new_turn: NewTurn,
    /// The submitter, if it has not been answered yet. It is answered when the record is committed,
    /// and no event is shown before that.
    pub(super) reply: Option<oneshot::Sender<Result<SubmitReply, EngineError>>>,
}

impl TurnCreation {
    const fn has_submitter(&self) -> bool {
        self.reply.is_some()
    }
}

pub(super) struct Recorder {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    lease: Lease,
    log: Arc<TurnLog>,
    creation: Option<TurnCreation>,
    /// Events that have not been handed to the store yet. They may have been shown.
    unwritten: Vec<TurnEvent>,
    /// Latest time to hand them over.
    write_at: Option<Instant>,
    last_seq: Seq,
    /// `Started` has been recorded; a turn has only one.
    is_started: bool,
    transcript: TurnTranscript,
    /// Usage of the finished segments; `segment_usage` has that of the running one.
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
        creation: Option<TurnCreation>,
    ) -> Self {
        let can_wait = creation.as_ref().is_some_and(|one| !one.has_submitter());
        Self {
            store,
            clock,
            lease,
            log,
            creation,
            unwritten: Vec::new(),
            write_at: can_wait.then(|| Instant::now() + MAX_WRITE_DELAY),
            last_seq: 0,
            is_started: false,
            transcript: TurnTranscript::default(),
            earlier_usage: Usage::default(),
            segment_usage: Usage::default(),
            first_block: 0,
            last_block: 0,
            segment: 0,
        }
    }

    /// Whether the turn's record is being committed, so that [`Recorder::ensure_created`] must be
    /// polled.
    pub(super) fn is_being_created(&self) -> bool {
        let is_due = |one: &TurnCreation| one.has_submitter() || one.new_turn.is_queued();
        self.creation.as_ref().is_some_and(is_due)
    }

    /// When [`Recorder::flush`] is due.
    pub(super) const fn write_at(&self) -> Option<Instant> {
        self.write_at
    }

    /// Hands everything that is not written yet to the store.
    pub(super) async fn flush(&mut self) -> Result<Option<PendingCommit>, StoreError> {
        self.write_at = None;
        if let Some(TurnCreation { new_turn: new, .. }) = &mut self.creation {
            new.queue(&*self.store, &self.lease).await?;
        }
        if self.unwritten.is_empty() {
            return Ok(None);
        }
        let events = std::mem::take(&mut self.unwritten);
        self.store.append(&self.lease, events).await.map(Some)
    }

    /// Waits until the turn's record is committed, and answers its submitter. Cancel safe.
    pub(super) async fn ensure_created(&mut self) -> Result<(), StoreError> {
        let Some(TurnCreation { new_turn: new, .. }) = &mut self.creation else {
            return Ok(());
        };
        let committed = new.write(&*self.store, &self.lease).await;
        if committed.is_ok() {
            self.log.mark_recorded();
        }
        if let Some(TurnCreation { reply: Some(reply), .. }) = self.creation.take() {
            let accepted = committed.clone().map(|()| SubmitReply::Running);
            // The submitter may have disconnected.
            let _gone = reply.send(accepted.map_err(EngineError::from));
        }
        committed
    }

    /// Records the events of an agent in order.
    pub(super) async fn record(&mut self, mut kinds: Vec<EventKind>) -> Result<(), StoreError> {
        kinds.retain_mut(|kind| self.adapt_to_turn(kind));
        self.append(kinds).await
    }

    async fn append(&mut self, kinds: Vec<EventKind>) -> Result<(), StoreError> {
        if kinds.is_empty() {
            return Ok(());
        }
        if self.creation.as_ref().is_some_and(TurnCreation::has_submitter) {
            self.ensure_created().await?;
        }
        let at = self.clock.now();
        let (turn, session) = (self.log.turn, self.log.session);
        let mut commit_first = false;
        let mut can_wait = true;
        let mut events = Vec::with_capacity(kinds.len());
        for kind in kinds {
            self.last_seq += 1;
            self.transcript.apply(&kind);
            commit_first |= kind.must_commit_first();
            let event = TurnEvent { turn, session, seq: self.last_seq, at, kind };
            if event.kind.is_stored() {
                // Only `Started` may wait to be written with the events that follow.
                can_wait &= matches!(event.kind, EventKind::Started(_));
                self.unwritten.push(event.clone());
            }
            events.push(event);
        }
        if commit_first && let Err(error) = self.commit().await {
            // Reuse the numbers: no viewer has seen them.
            self.last_seq -= events.len() as Seq;
            return Err(error);
        }
        self.log.publish(events.into());
        if !can_wait {
            self.flush().await?;
        } else if !self.unwritten.is_empty() {
            self.write_at.get_or_insert_with(|| Instant::now() + MAX_WRITE_DELAY);
        }
        Ok(())
    }

    async fn commit(&mut self) -> Result<(), StoreError> {
        let committed = self.flush().await?;
        self.ensure_created().await?;
        match committed {
            Some(committed) => committed.await,
            None => Ok(()),
        }
    }

    /// Continues a turn that another process started: reads its recorded events and continues the
    /// numbering after the last one. Skips enough numbers for the deltas that were shown but not
    /// stored, so that every viewer's position is before the new events. Returns the approvals that
    /// are still pending.
    pub(super) async fn catch_up(&mut self) -> Result<Vec<ApprovalId>, StoreError> {
        /// More deltas than any model writes between two complete blocks.
        const MAX_UNSTORED_DELTAS: Seq = 1 << 20;
        const PAGE: usize = 512;
        let mut open = Vec::new();
        loop {
            let page = self.store.replay(self.log.turn, self.last_seq, PAGE).await?;
            let Some(newest) = page.last() else { break };
            self.last_seq = newest.seq;
            for event in &page {
                self.transcript.apply(&event.kind);
                match &event.kind {
                    EventKind::Started(_) => self.is_started = true,
                    EventKind::Block { block, .. } => {
                        self.last_block = self.last_block.max(*block + 1);
                    }
                    EventKind::Usage(newer) => self.segment_usage = newer.clone(),
                    EventKind::Approval(approval) => open.push(approval.id),
                    EventKind::Resolved(resolution) => open.retain(|id| *id != resolution.id),
                    _ => {}
                }
            }
        }
        self.log.set_stored_until(self.last_seq);
        self.last_seq += MAX_UNSTORED_DELTAS;
        self.next_segment();
        Ok(open)
    }

    /// Starts another segment of the same turn. Viewers see one turn: block numbers continue, usage
    /// adds up, and there is only one `Started`.
    pub(super) fn next_segment(&mut self) {
        self.earlier_usage = self.usage();
        self.segment_usage = Usage::default();
        self.first_block = self.last_block;
        self.segment += 1;
    }

    /// Converts an event of a segment to one of the whole turn. Returns `false` if it must be
    /// dropped because the turn has it already.
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

    /// Shows a final event that could not be stored. The store still has the turn as running, and
    /// the next start of Angelia closes it there.
    pub(super) fn publish_unstored(&mut self, kind: EventKind) {
        self.last_seq += 1;
        let (turn, session) = (self.log.turn, self.log.session);
        let event = TurnEvent { turn, session, seq: self.last_seq, at: self.clock.now(), kind };
        self.log.publish(Arc::from([event]));
    }

    /// Completes the text blocks and tool calls that the agent left unfinished.
    pub(super) async fn close_unfinished(&mut self) -> Result<(), StoreError> {
        let open = self.transcript.closing_events();
        self.append(open).await
    }

    /// Returns the answer as far as it was recorded.
    pub(super) fn answer(&self) -> Arc<str> {
        self.transcript.answer()
    }

    pub(super) fn usage(&self) -> Usage {
        self.earlier_usage.plus(&self.segment_usage)
    }

    pub(super) const fn has_called_tool(&self) -> bool {
        self.transcript.has_called_tool()
    }

    /// Whether the turn has any text or tool call that a next segment can continue.
    pub(super) fn has_output(&self) -> bool {
        self.transcript.has_output()
    }

    pub(super) const fn is_first_segment(&self) -> bool {
        self.segment == 0
    }
}
