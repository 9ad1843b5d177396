//! The [`Bus`] port, on top of the index and the log.

use std::{io, sync::Arc};

use angelia_core::{
    model::{
        EndpointName,
        bus::{BusMessage, Destination},
    },
    ports::{
        BoxFuture, Bus, BusInbox, Clock,
        bus::{
            AttachError, AttachRequest, BusCounts, BusDelivery, BusError, BusPosition, Claimant,
            DeadLetter, DeliveryNotifier, EndpointState, InboxError, PendingReceipts, Presence,
            PublishError, QueuedMessage, Receipt, Receipts,
        },
    },
};
use jiff::Timestamp;
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
use tokio::sync::{Notify, oneshot};
use uuid::Uuid;

use super::{
    dedupe::hash_body,
    index::{
        BusIndex, DeadEntry, DeliveryNotice, EndpointSlot, LogLocation, PeekedEntry,
        ReservedMessage, TakeResult, Targets, too_large,
    },
    local::LogStorage,
};

#[derive(Debug)]
pub(super) struct PublishBatch {
    pub(super) messages: Vec<ReservedMessage>,
    pub(super) watch: Option<DeliveryNotifier>,
    pub(super) reply: oneshot::Sender<Receipts>,
}

pub(super) type SharedIndex = Arc<Mutex<BusIndex>>;

pub(super) struct BusCore {
    pub(super) index: SharedIndex,
    pub(super) storage: Arc<LogStorage>,
    pub(super) clock: Arc<dyn Clock>,
}

pub(super) fn storage_error(what: &str, error: &io::Error) -> BusError {
    BusError::Failed { message: format!("{what}: {error}; check the disk") }
}

impl BusCore {
    fn now(&self) -> i64 {
        self.clock.now().as_millisecond()
    }

    async fn read_dead_letter(
        &self,
        position: u64,
        dead: &DeadEntry,
    ) -> Result<BusMessage, BusError> {
        if let Some(message) = &dead.message {
            return Ok(message.clone());
        }
        let Some(place) = dead.location else {
            return Err(BusError::NotFound);
        };
        let mut read = read_blocking(&self.storage, vec![(position, place)]).await?;
        let (_, message) = read.pop().ok_or(BusError::NotFound)?;
        Ok(message)
    }

    /// Publishes a dead letter again, and removes it once the new message is stored.
    async fn resend(&self, position: u64) -> Result<Receipt, BusError> {
        let dead = self.index.lock().dead_letter(position).cloned();
        let dead = dead.ok_or(BusError::NotFound)?;
        let mut message = self.read_dead_letter(position, &dead).await?;
        // A broadcast is sent again only to the endpoint that did not receive it.
        message.to = Destination::Endpoint(dead.to);
        let body_hash = hash_body(&message);
        let mut outgoing = self.index.lock().reserve(message, body_hash);
        outgoing.skip_dedupe = true;
        let mut receipts = self.store(vec![outgoing], None).await.await;
        let receipt = match receipts.pop() {
            Some(Ok(receipt)) => receipt,
            Some(Err(PublishError::Storage(error))) => return Err(error),
            Some(Err(PublishError::Full { to, .. })) => return Err(BusError::Full(to)),
            Some(Err(refusal @ PublishError::BusFull { .. })) => {
                return Err(BusError::Failed { message: refusal.to_string() });
            }
            Some(Err(PublishError::TooLarge { .. } | PublishError::IdReused { .. })) | None => {
                return Err(BusError::NotFound);
            }
        };
        self.discard(position);
        Ok(receipt)
    }

    fn discard(&self, position: u64) -> bool {
        let was_there = self.index.lock().remove_dead_letter(position).is_some();
        if was_there {
            self.storage.mark_done(vec![position]);
        }
        was_there
    }

    pub(super) async fn store(
        &self,
        outgoing: Vec<ReservedMessage>,
        watch: Option<DeliveryNotifier>,
    ) -> PendingReceipts {
        let (reply, published) = PendingReceipts::new(outgoing.len());
        let batch = PublishBatch { messages: outgoing, watch, reply };
        self.storage.store(batch).await;
        published
    }
}

/// Reads messages from the storage on a blocking thread.
async fn read_blocking(
    storage: &Arc<LogStorage>,
    places: Vec<(u64, LogLocation)>,
) -> Result<Vec<(u64, BusMessage)>, BusError> {
    let storage = Arc::clone(storage);
    let read = tokio::task::spawn_blocking(move || storage.read(&places)).await;
    let read = read.map_err(|_cancelled| BusError::Closed)?;
    read.map_err(|error| storage_error("cannot read stored messages", &error))
}

impl Bus for BusCore {
    #[expect(clippy::async_yields_async, reason = "queued is one thing, synced another")]
    fn publish(
        &self,
        messages: Vec<BusMessage>,
        watch: Option<DeliveryNotifier>,
    ) -> BoxFuture<'_, PendingReceipts> {
        Box::pin(async move {
            self.wait_for_room(&messages).await;
            // Hashed before the lock is taken.
            let body_hashes: Vec<u64> = messages.iter().map(hash_body).collect();
            let outgoing = {
                let mut index = self.index.lock();
                let reserving = messages.into_iter().zip(body_hashes);
                reserving.map(|(message, hash)| index.reserve(message, hash)).collect()
            };
            self.store(outgoing, watch).await
        })
    }

    fn store_dead_letter(
        &self,
        message: BusMessage,
        reason: String,
    ) -> BoxFuture<'_, Result<(), PublishError>> {
        Box::pin(async move {
            let Destination::Endpoint(to) = message.to.clone() else {
                // A broadcast that reaches no endpoint is accepted and not stored, as in every
                // other case.
                return Ok(());
            };
            let targets = match too_large(&message) {
                Some(refusal) => Targets::Refused(refusal),
                None => Targets::DeadLetter { to, reason },
            };
            let outgoing = ReservedMessage {
                body_hash: hash_body(&message),
                message,
                targets,
                presence: Presence::NeverSeen,
                skip_dedupe: false,
            };
            let mut receipts = self.store(vec![outgoing], None).await.await;
            let receipt = receipts.pop().unwrap_or(Err(PublishError::Storage(BusError::Closed)));
            receipt.map(drop)
        })
    }

    fn attach(
        &self,
        claim: AttachRequest,
    ) -> BoxFuture<'_, Result<Box<dyn BusInbox>, AttachError>> {
        Box::pin(async move {
            let token = claim.token.as_deref().map(hash_token);
            let session = Uuid::new_v4();
            let claimed = self.index.lock().attach_listener(&claim, token, session)?;
            let inbox = AttachedInbox {
                index: Arc::clone(&self.index),
                storage: Arc::clone(&self.storage),
                clock: Arc::clone(&self.clock),
                slot: claimed.slot,
                name: claimed.name,
                // Only a token that protects the name gets this far.
                is_proven: token.is_some() || claim.claimant == Claimant::Host,
                session,
                wakeup: claimed.wakeup,
            };
            if !claimed.finished_positions.is_empty() {
                self.storage.mark_done(claimed.finished_positions);
            }
            if let Some(standing) = &claimed.changed_record {
                let kept = self.storage.save_endpoint(&inbox.name, standing);
                kept.map_err(|error| storage_error("cannot store the endpoint's record", &error))?;
            }
            Ok(Box::new(inbox) as Box<dyn BusInbox>)
        })
    }

    fn verify_token(&self, name: &str, token: &str) -> bool {
        let index = self.index.lock();
        let standing = index.find_endpoint(name).map(|endpoint| &endpoint.record);
        standing
            .and_then(|standing| standing.token)
            .is_some_and(|wanted| wanted == hash_token(token))
    }

    fn presence(&self, name: &EndpointName) -> Presence {
        self.index.lock().presence(name)
    }

    fn listeners(&self) -> Vec<(EndpointName, Uuid)> {
        self.index.lock().listeners()
    }

    fn endpoints(&self) -> Vec<EndpointState> {
        self.index.lock().endpoint_states()
    }

    fn counts(&self) -> BusCounts {
        self.index.lock().counts()
    }

    fn peek<'a>(
        &'a self,
        name: &'a EndpointName,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<QueuedMessage>, BusError>> {
        Box::pin(async move {
            let entries = self.index.lock().peek(name, limit);
            let mut messages = Vec::with_capacity(entries.len());
            for entry in entries {
                let PeekedEntry { position, accepted_at_ms, is_taken, message, location } = entry;
                let message = match (message, location) {
                    (Some(message), _) => message,
                    (None, Some(place)) => {
                        let read = read_blocking(&self.storage, vec![(position, place)]).await?;
                        // It has been received meanwhile.
                        let Some((_, message)) = read.into_iter().next() else { continue };
                        message
                    }
                    (None, None) => continue,
                };
                let accepted_at =
                    Timestamp::from_millisecond(accepted_at_ms).unwrap_or(Timestamp::MAX);
                let position = BusPosition(position);
                messages.push(QueuedMessage { position, message, accepted_at, is_taken });
            }
            Ok(messages)
        })
    }

    fn dead_letters(
        &self,
        before: Option<BusPosition>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<DeadLetter>, BusError>> {
        Box::pin(async move {
            let now = self.now();
            let dead = {
                let mut index = self.index.lock();
                index.expire_all(now);
                index.dead_letters_before(before.map(|position| position.0), limit)
            };
            let mut letters = Vec::with_capacity(dead.len());
            for (position, dead) in dead {
                let message = match self.read_dead_letter(position, &dead).await {
                    Ok(message) => message,
                    Err(BusError::NotFound) => continue,
                    Err(error) => return Err(error),
                };
                letters.push(DeadLetter {
                    position: BusPosition(position),
                    to: dead.to,
                    message,
                    reason: dead.reason,
                    at: Timestamp::from_millisecond(dead.died_at_ms).unwrap_or(Timestamp::MAX),
                });
            }
            Ok(letters)
        })
    }

    fn resend(&self, dead: BusPosition) -> BoxFuture<'_, Result<Receipt, BusError>> {
        Box::pin(self.resend(dead.0))
    }

    fn discard(&self, dead: BusPosition) -> BoxFuture<'_, Result<(), BusError>> {
        Box::pin(async move { if self.discard(dead.0) { Ok(()) } else { Err(BusError::NotFound) } })
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.storage.close())
    }
}

fn hash_token(token: &str) -> [u8; 32] {
    Sha256::digest(token.as_bytes()).into()
}

struct AttachedInbox {
    index: SharedIndex,
    storage: Arc<LogStorage>,
    clock: Arc<dyn Clock>,
    slot: EndpointSlot,
    name: EndpointName,
    is_proven: bool,
    session: Uuid,
    wakeup: Arc<Notify>,
}

impl AttachedInbox {
    async fn take(&self, limit: usize) -> Result<Vec<BusDelivery>, InboxError> {
        loop {
            let now = self.clock.now().as_millisecond();
            let taken = self.index.lock().take(self.slot, self.session, limit, now);
            match taken {
                TakeResult::Deliveries(deliveries) => return Ok(deliveries),
                TakeResult::Empty => self.wakeup.notified().await,
                TakeResult::Displaced => return Err(InboxError::Displaced(self.name.clone())),
                TakeResult::OnDisk(places) => self.load_from_disk(places).await?,
            }
        }
    }

    /// Reads messages from disk into the index. A message that cannot be read has either been
    /// copied elsewhere meanwhile, and is read there by the next call, or is damaged.
    async fn load_from_disk(&self, places: Vec<(u64, LogLocation)>) -> Result<(), InboxError> {
        let read = read_blocking(&self.storage, places.clone()).await?;
        let mut index = self.index.lock();
        let mut found = read.iter().map(|(position, _)| *position).peekable();
        let mut damaged = Vec::new();
        for (position, place) in places {
            if found.next_if_eq(&position).is_none() && index.drop_if_at(self.slot, position, place)
            {
                damaged.push(position);
            }
        }
        for (position, message) in read {
            index.cache_message(self.slot, position, message);
        }
        drop(index);
        if !damaged.is_empty() {
            tracing::error!(
                messages = damaged.len(),
                endpoint = %self.name,
                "stored messages are damaged on disk and cannot be delivered"
            );
            self.storage.mark_done(damaged);
        }
        Ok(())
    }
}

impl BusInbox for AttachedInbox {
    fn endpoint(&self) -> &EndpointName {
        &self.name
    }

    fn session(&self) -> Uuid {
        self.session
    }

    fn is_proven(&self) -> bool {
        self.is_proven
    }

    fn next(&mut self, limit: usize) -> BoxFuture<'_, Result<Vec<BusDelivery>, InboxError>> {
        Box::pin(self.take(limit))
    }

    fn ack(&mut self, taken: &[BusPosition]) {
        let mut notices = Vec::new();
        let done = self.index.lock().ack(self.slot, self.session, taken, &mut notices);
        if !done.is_empty() {
            self.storage.mark_done(done);
        }
        notify_senders(notices);
    }

    fn mark_written(&mut self, taken: &[BusPosition]) {
        let mut notices = Vec::new();
        self.index.lock().mark_written(self.slot, taken, &mut notices);
        notify_senders(notices);
    }

    fn dead_letter(&mut self, taken: BusPosition, reason: &str) {
        let now = self.clock.now().as_millisecond();
        let is_dead = self.index.lock().refuse(self.slot, self.session, taken, reason, now);
        if is_dead {
            self.storage.mark_dead(taken.0, now, reason);
        }
    }
}

impl Drop for AttachedInbox {
    fn drop(&mut self) {
        self.index.lock().detach_listener(self.slot, self.session);
    }
}

/// Tells senders which of their messages were taken, with one notice for each run of messages of
/// the same sender. A sender whose channel is full or closed misses the notice.
fn notify_senders(notices: Vec<DeliveryNotice>) {
    let mut notices = notices.into_iter().peekable();
    while let Some((watch, id)) = notices.next() {
        let mut ids = vec![id];
        while let Some((_, id)) = notices.next_if(|(other, _)| other.same_channel(&watch)) {
            ids.push(id);
        }
        let _full_or_gone = watch.try_send(ids);
    }
}
