//! Numbers the events of a turn, hands them to the store, and shows them. Nothing is seen without
//! a number, and what people act on is committed before it is seen.

use std::{sync::Arc, time::Duration};

use tokio::{sync::oneshot, time::Instant};

use super::{
    facade::{Accepted, EngineError},
    log::TurnLog,
    new_turn::NewTurn,
    said::Said,
};
use crate::{
    model::{ApprovalId, BlockId, EventKind, Seq, TurnEvent, Usage},
    ports::{Clock, Committed, Lease, Store, StoreError},
};

/// That a turn has begun, and that its agent has taken it up, is written together with what comes
/// of it, if that comes within this time: one transaction instead of three, and out of the way of
/// the first words.
const MEANWHILE: Duration = Duration::from_millis(2);

/// A turn whose agent begins while its record is written.
pub(super) struct Creation {
    pub(super) new: NewTurn,
    /// Whoever submitted it, if they do not know yet that it was accepted: they know when it is
    /// committed, and nothing of it is shown before that.
    pub(super) reply: Option<oneshot::Sender<Result<Accepted, EngineError>>>,
}

impl Creation {
    const fn is_awaited(&self) -> bool {
        self.reply.is_some()
    }
}

pub(super) struct Recorder {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    lease: Lease,
    log: Arc<TurnLog>,
    creation: Option<Creation>,
    /// What the store has not been handed yet, though it has been shown.
    unwritten: Vec<TurnEvent>,
    /// When the store gets it at the latest.
    write_at: Option<Instant>,
    last: Seq,
    /// The agent has taken the turn up.
    is_started: bool,
    said: Said,
    /// Of the segments that are over, and of the running one.
    used_before: Usage,
    used: Usage,
    /// Where the block numbers of the running segment begin.
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
        creation: Option<Creation>,
    ) -> Self {
        let can_wait = creation.as_ref().is_some_and(|one| !one.is_awaited());
        Self {
            store,
            clock,
            lease,
            log,
            creation,
            unwritten: Vec::new(),
            write_at: can_wait.then(|| Instant::now() + MEANWHILE),
            last: 0,
            is_started: false,
            said: Said::default(),
            used_before: Usage::default(),
            used: Usage::default(),
            first_block: 0,
            last_block: 0,
            segment: 0,
        }
    }

    /// The turn itself is not committed yet, and somebody should look after that.
    pub(super) fn is_being_created(&self) -> bool {
        let is_due = |one: &Creation| one.is_awaited() || one.new.is_queued();
        self.creation.as_ref().is_some_and(is_due)
    }

    /// When [`Recorder::hand_over`] is due.
    pub(super) const fn write_at(&self) -> Option<Instant> {
        self.write_at
    }

    /// Gives the store what it does not have yet.
    pub(super) async fn hand_over(&mut self) -> Result<Option<Committed>, StoreError> {
        self.write_at = None;
        if let Some(Creation { new, .. }) = &mut self.creation {
            new.queue(&*self.store, &self.lease).await?;
        }
        if self.unwritten.is_empty() {
            return Ok(None);
        }
        let events = std::mem::take(&mut self.unwritten);
        self.store.append(&self.lease, events).await.map(Some)
    }

    /// Waits until the turn itself is committed. Cancel safe.
    pub(super) async fn created(&mut self) -> Result<(), StoreError> {
        let Some(Creation { new, .. }) = &mut self.creation else {
            return Ok(());
        };
        let committed = new.write(&*self.store, &self.lease).await;
        if committed.is_ok() {
            self.log.note_recorded();
        }
        if let Some(Creation { reply: Some(reply), .. }) = self.creation.take() {
            let accepted = committed.clone().map(|()| Accepted::Running);
            // Whoever asked may have gone.
            let _gone = reply.send(accepted.map_err(EngineError::from));
        }
        committed
    }

    /// Records what an agent says happened, in this order.
    pub(super) async fn record(&mut self, mut kinds: Vec<EventKind>) -> Result<(), StoreError> {
        kinds.retain_mut(|kind| self.fit_in(kind));
        self.append(kinds).await
    }

    async fn append(&mut self, kinds: Vec<EventKind>) -> Result<(), StoreError> {
        if kinds.is_empty() {
            return Ok(());
        }
        if self.creation.as_ref().is_some_and(Creation::is_awaited) {
            self.created().await?;
        }
        let at = self.clock.now();
        let (turn, session) = (self.log.turn, self.log.session);
        let mut commit_first = false;
        let mut can_wait = true;
        let mut events = Vec::with_capacity(kinds.len());
        for kind in kinds {
            self.last += 1;
            self.said.note(&kind);
            commit_first |= kind.is_committed_first();
            let event = TurnEvent { turn, session, seq: self.last, at, kind };
            if event.kind.is_stored() {
                can_wait &= matches!(event.kind, EventKind::Started(_));
                self.unwritten.push(event.clone());
            }
            events.push(event);
        }
        if commit_first && let Err(error) = self.commit().await {
            // Nobody has seen the numbers.
            self.last -= events.len() as Seq;
            return Err(error);
        }
        self.log.publish(events.into());
        if !can_wait {
            self.hand_over().await?;
        } else if !self.unwritten.is_empty() {
            self.write_at.get_or_insert_with(|| Instant::now() + MEANWHILE);
        }
        Ok(())
    }

    async fn commit(&mut self) -> Result<(), StoreError> {
        let committed = self.hand_over().await?;
        self.created().await?;
        match committed {
            Some(committed) => committed.await,
            None => Ok(()),
        }
    }

    /// Goes on with a turn that another process began: reads what it recorded, and numbers on
    /// after its last stored event, beyond any delta it may have shown since, so that every
    /// viewer's place is before what comes now. Returns the approvals that are still open.
    pub(super) async fn catch_up(&mut self) -> Result<Vec<ApprovalId>, StoreError> {
        /// More deltas than any model writes between two whole blocks.
        const UNSTORED: Seq = 1 << 20;
        const PAGE: usize = 512;
        let mut open = Vec::new();
        loop {
            let page = self.store.replay(self.log.turn, self.last, PAGE).await?;
            let Some(newest) = page.last() else { break };
            self.last = newest.seq;
            for event in &page {
                self.said.note(&event.kind);
                match &event.kind {
                    EventKind::Started(_) => self.is_started = true,
                    EventKind::Block { block, .. } => {
                        self.last_block = self.last_block.max(*block + 1);
                    }
                    EventKind::Usage(newer) => self.used = newer.clone(),
                    EventKind::Approval(approval) => open.push(approval.id),
                    EventKind::Resolved(resolution) => open.retain(|id| *id != resolution.id),
                    _ => {}
                }
            }
        }
        self.log.begin_after(self.last);
        self.last += UNSTORED;
        self.next_segment();
        Ok(open)
    }

    /// The agent goes on with the same turn. For viewers it is one turn: its blocks go on being
    /// numbered, its totals add up, and it starts only once.
    pub(super) fn next_segment(&mut self) {
        self.used_before = self.usage();
        self.used = Usage::default();
        self.first_block = self.last_block;
        self.segment += 1;
    }

    /// Makes an event of a segment one of the whole turn; `false`: it has been said before.
    fn fit_in(&mut self, kind: &mut EventKind) -> bool {
        match kind {
            EventKind::Started(_) => return !std::mem::replace(&mut self.is_started, true),
            EventKind::Delta { block, .. } | EventKind::Block { block, .. } => {
                *block += self.first_block;
                self.last_block = self.last_block.max(*block + 1);
            }
            EventKind::Usage(usage) => {
                self.used = usage.clone();
                *usage = self.usage();
            }
            _ => {}
        }
        true
    }

    /// Shows an end that could not be written. The store still has the turn as running, so the
    /// next start will close it there.
    pub(super) fn show_unwritten(&mut self, kind: EventKind) {
        self.last += 1;
        let (turn, session) = (self.log.turn, self.log.session);
        let event = TurnEvent { turn, session, seq: self.last, at: self.clock.now(), kind };
        self.log.publish(Arc::from([event]));
    }

    /// Ends what an agent has left open: the text it was writing, the tools it was running.
    pub(super) async fn close_open(&mut self) -> Result<(), StoreError> {
        let open = self.said.close();
        self.append(open).await
    }

    /// The answer as far as the events tell it.
    pub(super) fn answer(&self) -> Arc<str> {
        self.said.answer()
    }

    pub(super) fn usage(&self) -> Usage {
        self.used_before.plus(&self.used)
    }

    pub(super) const fn has_started_tool(&self) -> bool {
        self.said.has_called()
    }

    /// Something has been said or done that a next segment can continue.
    pub(super) fn has_something(&self) -> bool {
        self.said.is_anything()
    }

    /// The turn has had no segment but the running one.
    pub(super) const fn is_one_segment(&self) -> bool {
        self.segment == 0
    }
}
