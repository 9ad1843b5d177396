//! The writer thread of the log: it takes everything that is queued, writes it as one group, syncs
//! once, and only then makes the messages visible to receivers and sends the receipts.

use std::{io, sync::Arc, time::Duration};

use angelia_core::{
    model::bus::Destination,
    ports::{
        Clock,
        bus::{BusError, PublishError, Receipts},
    },
};

use super::{
    log::MessageLog,
    reclaim::ReclaimState,
    record::MessageRecord,
    write_queue::{WriteGroup, WriteQueue},
};
use crate::bus::{
    bus_core::{PublishBatch, SharedIndex, storage_error},
    dedupe::{DedupeFilter, EarlierMessage},
    index::{LogLocation, ReservedMessage, Targets},
    limits::BusLimits,
};

/// The longest time between two checks for expired messages.
const MAX_TICK: Duration = Duration::from_secs(10);

pub(super) struct LogWriter {
    pub(super) write_queue: Arc<WriteQueue>,
    pub(super) index: SharedIndex,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) limits: BusLimits,
    pub(super) log: MessageLog,
    pub(super) dedupe: DedupeFilter,
    pub(super) next_position: u64,
    pub(super) reclaim_state: ReclaimState,
}

/// The result of a message, provided that its group is synced.
enum WriteOutcome {
    Stored {
        first_position: u64,
        location: Option<LogLocation>,
    },
    Repeated,
    /// Another message has this id.
    IdReused,
    Refused,
}

impl LogWriter {
    pub(super) fn run(mut self) {
        let tick = (self.limits.message_ttl / 4).clamp(Duration::from_millis(20), MAX_TICK);
        let mut ticked = std::time::Instant::now();
        loop {
            let wait = if self.reclaim_state.is_busy() { Duration::ZERO } else { tick };
            let work = self.write_queue.take_group(wait);
            let is_closed = work.is_closed();
            let closing = self.commit_group(work);
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
                self.index.lock().expire_all(now);
                self.dedupe.expire(now);
                self.log.remove_spares();
            }
            self.log.prepare_next_segment();
            self.reclaim();
        }
    }

    /// Writes one group and answers its senders. Returns the callers that wait for the bus to
    /// close.
    fn commit_group(&mut self, work: WriteGroup) -> Vec<tokio::sync::oneshot::Sender<()>> {
        let WriteGroup {
            batches,
            done_positions: done,
            dead_letters: dead,
            close_waiters: closing,
            ..
        } = work;
        let now = self.clock.now().as_millisecond();
        let mut result = self.write_acks(done, &dead);
        let mut keys = Vec::new();
        let mut verdicts = Vec::new();
        for outgoing in batches.iter().flat_map(|(batch, _)| &batch.messages) {
            let verdict = match &result {
                Ok(()) => self.write_message(outgoing, now, &mut keys),
                Err(_) => Ok(WriteOutcome::Refused),
            };
            match verdict {
                Ok(verdict) => verdicts.push(verdict),
                Err(error) => {
                    result = Err(error);
                    verdicts.push(WriteOutcome::Refused);
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
                self.dedupe.remove(key);
            }
        }
        self.publish_group(batches, verdicts, now, result);
        closing
    }

    fn write_acks(&mut self, done: Vec<u64>, dead: &[(u64, i64, String)]) -> io::Result<()> {
        if !done.is_empty() {
            self.log.append_done(done)?;
        }
        for (position, at, reason) in dead {
            self.log.append_dead(*position, *at, reason)?;
        }
        Ok(())
    }

    /// Adds a message to the group, unless it was refused before or is a repeat.
    fn write_message(
        &mut self,
        outgoing: &ReservedMessage,
        now: i64,
        keys: &mut Vec<u128>,
    ) -> io::Result<WriteOutcome> {
        let message = &outgoing.message;
        let key = self.dedupe.hash_message(message);
        // Before refusals: a repeat needs no room.
        if !outgoing.skip_dedupe {
            match self.dedupe.find(key, outgoing.body_hash, now) {
                EarlierMessage::None => {}
                EarlierMessage::Same => return Ok(WriteOutcome::Repeated),
                EarlierMessage::OtherBody => return Ok(WriteOutcome::IdReused),
            }
        }
        if matches!(outgoing.targets, Targets::Refused(_)) {
            return Ok(WriteOutcome::Refused);
        }
        let positions = outgoing.targets.positions();
        let names: Vec<_> = match &message.to {
            Destination::Endpoint(name) => vec![name.clone()],
            Destination::Everyone => {
                let index = self.index.lock();
                outgoing
                    .targets
                    .slots()
                    .iter()
                    .map(|slot| index.endpoint(*slot).name.clone())
                    .collect()
            }
        };
        let first = self.next_position;
        self.next_position += positions;
        // A broadcast that reaches no endpoint is accepted and not stored.
        let place = if positions == 0 {
            None
        } else {
            Some(self.log.append_message(MessageRecord {
                first_position: first,
                accepted_at_ms: now,
                is_verified: message.verified,
                is_broadcast: message.to == Destination::Everyone,
                from: message.from.as_deref(),
                id: &message.id,
                to: names.iter().collect(),
                envelope: &message.envelope,
            })?)
        };
        if let Targets::DeadLetter { reason, .. } = &outgoing.targets {
            self.log.append_dead(first, now, reason)?;
        }
        self.dedupe.insert(key, outgoing.body_hash, now);
        keys.push(key);
        Ok(WriteOutcome::Stored { first_position: first, location: place })
    }

    /// After the sync: makes the messages visible to receivers and sends the receipts.
    fn publish_group(
        &mut self,
        batches: Vec<(PublishBatch, tokio::sync::OwnedSemaphorePermit)>,
        verdicts: Vec<WriteOutcome>,
        now: i64,
        result: io::Result<()>,
    ) {
        let trouble = result.err().map(|error| storage_error("cannot store messages", &error));
        let mut verdicts = verdicts.into_iter();
        let mut answers = Vec::with_capacity(batches.len());
        let mut index = self.index.lock();
        for (batch, permit) in batches {
            let PublishBatch { messages: outgoing, watch, reply } = batch;
            let receipts: Receipts = outgoing
                .into_iter()
                .zip(&mut verdicts)
                .map(|(outgoing, verdict)| match (verdict, &trouble) {
                    (WriteOutcome::Stored { first_position: first, location: place }, None) => {
                        Ok(index.commit(outgoing, first, now, place, watch.as_ref()))
                    }
                    (WriteOutcome::Repeated, None) => Ok(index.accept_repeat(&outgoing)),
                    (WriteOutcome::IdReused, None) => {
                        index.unreserve(&outgoing.targets);
                        index.count_refusal();
                        Err(PublishError::IdReused { id: outgoing.message.id })
                    }
                    (_, trouble) => {
                        index.unreserve(&outgoing.targets);
                        index.count_refusal();
                        if let Targets::Refused(refusal) = outgoing.targets {
                            return Err(refusal);
                        }
                        let error = trouble.clone().unwrap_or(BusError::Closed);
                        Err(PublishError::Storage(error))
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
