//! The writer thread of the log: it takes everything that is queued, writes it as one group, syncs
//! once, and only then makes the messages visible to receivers and sends the receipts.

use std::{io, sync::Arc, time::Duration};

use angelia_core::{
    model::bus::Destination,
    ports::{
        Clock,
        bus::{BusError, Receipts, Refusal},
    },
};

use super::{
    inlet::{Inlet, Work},
    log::Log,
    reclaim::Reclaim,
    record::Stored,
};
use crate::bus::{
    index::{Outgoing, Place, Targets},
    limits::BusLimits,
    repeats::Repeats,
    shared::{Batch, SharedIndex, failed, lock},
};

/// The longest time between two checks for expired messages.
const LONGEST_TICK: Duration = Duration::from_secs(10);

pub(super) struct Writer {
    pub(super) inlet: Arc<Inlet>,
    pub(super) index: SharedIndex,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) limits: BusLimits,
    pub(super) log: Log,
    pub(super) repeats: Repeats,
    pub(super) next: u64,
    pub(super) reclaim: Reclaim,
}

/// The result of a message, provided that its group is synced.
enum Verdict {
    Stored { first: u64, place: Option<Place> },
    Repeated,
    Refused,
}

impl Writer {
    pub(super) fn run(mut self) {
        let tick = (self.limits.message_ttl / 4).clamp(Duration::from_millis(20), LONGEST_TICK);
        let mut ticked = std::time::Instant::now();
        loop {
            let wait = if self.reclaim.is_busy() { Duration::ZERO } else { tick };
            let work = self.inlet.take(wait);
            let is_closed = work.is_closed();
            let closing = self.commit(work);
            if is_closed {
                if let Err(error) = self.log.sync() {
                    tracing::error!(%error, "the bus's log could not be synced on close");
                }
                // Closes the files before the callers of `close` are answered.
                drop(self);
                for closed in closing {
                    let _nobody_waits = closed.send(());
                }
                return;
            }
            if ticked.elapsed() >= tick {
                ticked = std::time::Instant::now();
                let now = self.clock.now().as_millisecond();
                lock(&self.index).expire_all(now);
                self.repeats.tick(now);
                self.log.rest();
            }
            self.log.prepare();
            self.reclaim();
        }
    }

    /// Writes one group and answers its senders. Returns the callers that wait for the bus to
    /// close.
    fn commit(&mut self, work: Work) -> Vec<tokio::sync::oneshot::Sender<()>> {
        let Work { batches, done, dead, closing, .. } = work;
        let now = self.clock.now().as_millisecond();
        let mut result = self.acks(done, &dead);
        let mut keys = Vec::new();
        let mut verdicts = Vec::new();
        for outgoing in batches.iter().flat_map(|(batch, _)| &batch.outgoing) {
            let verdict = match &result {
                Ok(()) => self.write(outgoing, now, &mut keys),
                Err(_) => Ok(Verdict::Refused),
            };
            match verdict {
                Ok(verdict) => verdicts.push(verdict),
                Err(error) => {
                    result = Err(error);
                    verdicts.push(Verdict::Refused);
                }
            }
        }
        // Acknowledgements alone are not synced: a lost one means that a message comes again.
        if result.is_ok() {
            result = if batches.is_empty() { self.log.write() } else { self.log.sync() };
        }
        if let Err(error) = &result {
            tracing::error!(%error, "messages could not be stored");
            // A sender that tries again after the error must not count as a repeat.
            for key in keys {
                self.repeats.remove(key);
            }
        }
        self.show(batches, verdicts, now, result);
        closing
    }

    fn acks(&mut self, done: Vec<u64>, dead: &[(u64, i64, String)]) -> io::Result<()> {
        if !done.is_empty() {
            self.log.done(done)?;
        }
        for (position, at, reason) in dead {
            self.log.dead(*position, *at, reason)?;
        }
        Ok(())
    }

    /// Adds a message to the group, unless it was refused before or is a repeat.
    fn write(
        &mut self,
        outgoing: &Outgoing,
        now: i64,
        keys: &mut Vec<u128>,
    ) -> io::Result<Verdict> {
        if matches!(outgoing.targets, Targets::Refused(_)) {
            return Ok(Verdict::Refused);
        }
        let message = &outgoing.message;
        let key = self.repeats.key(message);
        if !outgoing.fresh && self.repeats.contains(key, now) {
            return Ok(Verdict::Repeated);
        }
        let slots = outgoing.targets.slots();
        let names: Vec<_> = match &message.to {
            Destination::Endpoint(name) => vec![name.clone()],
            Destination::Everyone => {
                let index = lock(&self.index);
                slots.iter().map(|slot| index.at(*slot).name.clone()).collect()
            }
        };
        let first = self.next;
        self.next += slots.len() as u64;
        // A broadcast that reaches no endpoint is accepted and not stored.
        let place = if slots.is_empty() {
            None
        } else {
            Some(self.log.message(Stored {
                first,
                at: now,
                is_verified: message.verified,
                is_broadcast: message.to == Destination::Everyone,
                from: message.from.as_deref(),
                id: &message.id,
                to: names.iter().collect(),
                envelope: &message.envelope,
            })?)
        };
        self.repeats.insert(key, now);
        keys.push(key);
        Ok(Verdict::Stored { first, place })
    }

    /// After the sync: makes the messages visible to receivers and sends the receipts.
    fn show(
        &mut self,
        batches: Vec<(Batch, tokio::sync::OwnedSemaphorePermit)>,
        verdicts: Vec<Verdict>,
        now: i64,
        result: io::Result<()>,
    ) {
        let trouble = result.err().map(|error| failed("cannot store messages", &error));
        let mut verdicts = verdicts.into_iter();
        let mut answers = Vec::with_capacity(batches.len());
        let mut index = lock(&self.index);
        for (batch, permit) in batches {
            let Batch { outgoing, watch, reply } = batch;
            let receipts: Receipts = outgoing
                .into_iter()
                .zip(&mut verdicts)
                .map(|(outgoing, verdict)| match (verdict, &trouble) {
                    (Verdict::Stored { first, place }, None) => {
                        Ok(index.commit(outgoing, first, now, place, watch.as_ref()))
                    }
                    (Verdict::Repeated, None) => Ok(index.repeated(&outgoing)),
                    (_, trouble) => {
                        index.unreserve(&outgoing.targets);
                        if let Targets::Refused(refusal) = outgoing.targets {
                            return Err(refusal);
                        }
                        index.refused();
                        let error = trouble.clone().unwrap_or(BusError::Closed);
                        Err(Refusal::Storage(error))
                    }
                })
                .collect();
            answers.push((reply, receipts, permit));
        }
        drop(index);
        for (reply, receipts, permit) in answers {
            let _sender_gone = reply.send(receipts);
            drop(permit);
        }
    }
}
