//! Numbers the events of a turn, hands them to the store, and shows them. Every event has its
//! number before it is shown, and events that people act on are committed before they are shown.

use std::sync::Arc;

use super::{transcript::TurnTranscript, turn_log::TurnLog};
use crate::{
    model::{ApprovalId, BlockId, EventKind, Seq, TurnEvent, Usage},
    ports::{Clock, Lease, Store, StoreError},
};

pub(super) struct Recorder {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    lease: Lease,
    log: Arc<TurnLog>,
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
    ) -> Self {
        Self {
            store,
            clock,
            lease,
            log,
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

    /// Records the events of an agent in order.
    pub(super) async fn record(&mut self, mut kinds: Vec<EventKind>) -> Result<(), StoreError> {
        kinds.retain_mut(|kind| self.adapt_to_turn(kind));
        self.append(kinds).await
    }

    async fn append(&mut self, kinds: Vec<EventKind>) -> Result<(), StoreError> {
        if kinds.is_empty() {
            return Ok(());
        }
        let at = self.clock.now();
        let (turn, session) = (self.log.turn, self.log.session);
        let events: Arc<[_]> = (self.last_seq + 1..)
            .zip(kinds)
            .map(|(seq, kind)| TurnEvent { turn, session, seq, at, kind })
            .collect();
        let stored: Vec<_> = events.iter().filter(|e| e.kind.is_stored()).cloned().collect();
        if events.iter().any(|event| event.kind.must_commit_first()) {
            // If this fails, the numbers are free again: no viewer has seen them.
            self.store.append(&self.lease, stored).await?.await?;
            self.publish(events);
        } else {
            self.publish(events);
            if !stored.is_empty() {
                // Not awaited: the store commits in order, so an event that is committed before it
                // is shown also waits for these.
                drop(self.store.append(&self.lease, stored).await?);
            }
        }
        Ok(())
    }

    fn publish(&mut self, events: Arc<[TurnEvent]>) {
        self.last_seq += events.len() as Seq;
        for event in &*events {
            self.transcript.apply(&event.kind);
        }
        self.log.publish(events);
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
        let (turn, session, seq) = (self.log.turn, self.log.session, self.last_seq + 1);
        self.publish(Arc::from([TurnEvent { turn, session, seq, at: self.clock.now(), kind }]));
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
