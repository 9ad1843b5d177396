//! The [`Bus`] port, generic over the storage of the messages.

use std::{
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use angelia_core::{
    model::{EndpointName, bus::Message},
    ports::{
        BoxFuture, Bus, Clock, Inbox,
        bus::{
            AttachError, BusCounts, BusError, Claim, DeadLetter, Delivery, EndpointState,
            InboxError, Position, Published, Receipt, Receipts, Refusal, Watch,
        },
    },
};
use jiff::Timestamp;
use sha2::{Digest as _, Sha256};
use tokio::sync::{Notify, oneshot};
use uuid::Uuid;

use super::index::{Dead, Index, Notice, Outgoing, Place, Slot, Standing, Taken};

/// Stores messages: in a log, or in memory only. All methods except `store`, `read` and `close`
/// return quickly.
pub(super) trait Keeper: Send + Sync + 'static {
    /// Queues messages in order, waiting for room. The receipts are sent to the batch's `reply`
    /// when the messages are stored.
    fn store(&self, batch: Batch) -> BoxFuture<'_, ()>;

    /// Notes that these messages need not be stored any longer.
    fn done(&self, positions: Vec<u64>);

    /// Notes that a message has become a dead letter.
    fn dead(&self, position: u64, at: i64, reason: &str);

    /// Reads messages from disk. Blocks. Leaves out messages that are damaged or missing.
    fn read(&self, places: &[(u64, Place)]) -> io::Result<Vec<(u64, Message)>>;

    /// Stores the endpoint's record.
    fn remember(&self, name: &EndpointName, standing: &Standing) -> io::Result<()>;

    fn close(&self) -> BoxFuture<'_, ()>;
}

#[derive(Debug)]
pub(super) struct Batch {
    pub(super) outgoing: Vec<Outgoing>,
    pub(super) watch: Option<Watch>,
    pub(super) reply: oneshot::Sender<Receipts>,
}

pub(super) type SharedIndex = Arc<Mutex<Index>>;

pub(super) struct Shared<K> {
    pub(super) index: SharedIndex,
    pub(super) keeper: Arc<K>,
    pub(super) clock: Arc<dyn Clock>,
}

pub(super) fn lock(index: &Mutex<Index>) -> MutexGuard<'_, Index> {
    index.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(super) fn failed(what: &str, error: &io::Error) -> BusError {
    BusError::Failed { message: format!("{what}: {error}; check the disk") }
}

impl<K: Keeper> Shared<K> {
    fn now(&self) -> i64 {
        self.clock.now().as_millisecond()
    }

    async fn read_dead(&self, position: u64, dead: &Dead) -> Result<Message, BusError> {
        if let Some(message) = &dead.message {
            return Ok(message.clone());
        }
        let Some(place) = dead.place else {
            return Err(BusError::NotFound);
        };
        let mut read = read(&self.keeper, vec![(position, place)]).await?;
        let (_, message) = read.pop().ok_or(BusError::NotFound)?;
        Ok(message)
    }

    /// Publishes a dead letter again, and removes it once the new message is stored.
    async fn resend(&self, position: u64) -> Result<Receipt, BusError> {
        let dead = lock(&self.index).dead(position).cloned();
        let dead = dead.ok_or(BusError::NotFound)?;
        let mut message = self.read_dead(position, &dead).await?;
        // A broadcast is sent again only to the endpoint that did not receive it.
        message.to = angelia_core::model::bus::Destination::Endpoint(dead.to);
        let mut outgoing = lock(&self.index).reserve(message);
        outgoing.fresh = true;
        let mut receipts = self.store(vec![outgoing], None).await.await;
        let receipt = match receipts.pop() {
            Some(Ok(receipt)) => receipt,
            Some(Err(Refusal::Storage(error))) => return Err(error),
            Some(Err(Refusal::Full { to, .. })) => return Err(BusError::Full(to)),
            Some(Err(Refusal::TooLarge { .. })) | None => return Err(BusError::NotFound),
        };
        self.discard(position);
        Ok(receipt)
    }

    fn discard(&self, position: u64) -> bool {
        let was_there = lock(&self.index).remove_dead(position).is_some();
        if was_there {
            self.keeper.done(vec![position]);
        }
        was_there
    }

    pub(super) async fn store(&self, outgoing: Vec<Outgoing>, watch: Option<Watch>) -> Published {
        let (reply, published) = Published::new(outgoing.len());
        let batch = Batch { outgoing, watch, reply };
        self.keeper.store(batch).await;
        published
    }
}

/// Reads messages from the storage on a blocking thread.
async fn read<K: Keeper>(
    keeper: &Arc<K>,
    places: Vec<(u64, Place)>,
) -> Result<Vec<(u64, Message)>, BusError> {
    let keeper = Arc::clone(keeper);
    let read = tokio::task::spawn_blocking(move || keeper.read(&places)).await;
    let read = read.map_err(|_cancelled| BusError::Closed)?;
    read.map_err(|error| failed("cannot read stored messages", &error))
}

impl<K: Keeper> Bus for Shared<K> {
    #[expect(clippy::async_yields_async, reason = "queued is one thing, synced another")]
    fn publish(&self, messages: Vec<Message>, watch: Option<Watch>) -> BoxFuture<'_, Published> {
        Box::pin(async move {
            self.wait_for_room(&messages).await;
            let outgoing = {
                let mut index = lock(&self.index);
                let outgoing = messages.into_iter().map(|message| index.reserve(message));
                outgoing.collect()
            };
            self.store(outgoing, watch).await
        })
    }

    fn attach(&self, claim: Claim) -> BoxFuture<'_, Result<Box<dyn Inbox>, AttachError>> {
        Box::pin(async move {
            let token = claim.token.as_deref().map(hash);
            let session = Uuid::new_v4();
            let claimed = lock(&self.index).claim(&claim, token, session)?;
            let inbox = SharedInbox {
                index: Arc::clone(&self.index),
                keeper: Arc::clone(&self.keeper),
                clock: Arc::clone(&self.clock),
                slot: claimed.slot,
                name: claimed.name,
                session,
                news: claimed.news,
            };
            if !claimed.done.is_empty() {
                self.keeper.done(claimed.done);
            }
            if let Some(standing) = &claimed.changed {
                let kept = self.keeper.remember(&inbox.name, standing);
                kept.map_err(|error| failed("cannot store the endpoint's record", &error))?;
            }
            Ok(Box::new(inbox) as Box<dyn Inbox>)
        })
    }

    fn proves(&self, name: &str, token: &str) -> bool {
        let index = lock(&self.index);
        let standing = index.known(name).map(|endpoint| &endpoint.standing);
        standing.and_then(|standing| standing.token).is_some_and(|wanted| wanted == hash(token))
    }

    fn listening(&self) -> Vec<(EndpointName, Uuid)> {
        lock(&self.index).listening()
    }

    fn endpoints(&self) -> Vec<EndpointState> {
        lock(&self.index).states()
    }

    fn counts(&self) -> BusCounts {
        lock(&self.index).counts()
    }

    fn dead_letters(
        &self,
        before: Option<Position>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<DeadLetter>, BusError>> {
        Box::pin(async move {
            let now = self.now();
            let dead = {
                let mut index = lock(&self.index);
                index.expire_all(now);
                index.dead_before(before.map(|position| position.0), limit)
            };
            let mut letters = Vec::with_capacity(dead.len());
            for (position, dead) in dead {
                let message = match self.read_dead(position, &dead).await {
                    Ok(message) => message,
                    Err(BusError::NotFound) => continue,
                    Err(error) => return Err(error),
                };
                letters.push(DeadLetter {
                    position: Position(position),
                    to: dead.to,
                    message,
                    reason: dead.reason,
                    at: Timestamp::from_millisecond(dead.at).unwrap_or(Timestamp::MAX),
                });
            }
            Ok(letters)
        })
    }

    fn resend(&self, dead: Position) -> BoxFuture<'_, Result<Receipt, BusError>> {
        Box::pin(self.resend(dead.0))
    }

    fn discard(&self, dead: Position) -> BoxFuture<'_, Result<(), BusError>> {
        Box::pin(async move { if self.discard(dead.0) { Ok(()) } else { Err(BusError::NotFound) } })
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        self.keeper.close()
    }
}

fn hash(token: &str) -> [u8; 32] {
    Sha256::digest(token.as_bytes()).into()
}

struct SharedInbox<K: Keeper> {
    index: SharedIndex,
    keeper: Arc<K>,
    clock: Arc<dyn Clock>,
    slot: Slot,
    name: EndpointName,
    session: Uuid,
    news: Arc<Notify>,
}

impl<K: Keeper> SharedInbox<K> {
    async fn take(&self, limit: usize) -> Result<Vec<Delivery>, InboxError> {
        loop {
            let now = self.clock.now().as_millisecond();
            let taken = lock(&self.index).take(self.slot, self.session, limit, now);
            match taken {
                Taken::Some(deliveries) => return Ok(deliveries),
                Taken::Nothing => self.news.notified().await,
                Taken::Displaced => return Err(InboxError::Displaced(self.name.clone())),
                Taken::OnDisk(places) => self.bring(places).await?,
            }
        }
    }

    /// Reads messages from disk into the index. A message that cannot be read has either been
    /// copied elsewhere meanwhile, and is read there by the next call, or is damaged.
    async fn bring(&self, places: Vec<(u64, Place)>) -> Result<(), InboxError> {
        let read = read(&self.keeper, places.clone()).await?;
        let mut index = lock(&self.index);
        let mut found = read.iter().map(|(position, _)| *position).peekable();
        let mut damaged = Vec::new();
        for (position, place) in places {
            if found.next_if_eq(&position).is_none() && index.drop_if_at(self.slot, position, place)
            {
                damaged.push(position);
            }
        }
        for (position, message) in read {
            index.read(self.slot, position, message);
        }
        drop(index);
        if !damaged.is_empty() {
            tracing::error!(
                messages = damaged.len(),
                endpoint = %self.name,
                "stored messages are damaged on disk and cannot be delivered"
            );
            self.keeper.done(damaged);
        }
        Ok(())
    }
}

impl<K: Keeper> Inbox for SharedInbox<K> {
    fn endpoint(&self) -> &EndpointName {
        &self.name
    }

    fn session(&self) -> Uuid {
        self.session
    }

    fn next(&mut self, limit: usize) -> BoxFuture<'_, Result<Vec<Delivery>, InboxError>> {
        Box::pin(self.take(limit))
    }

    fn ack(&mut self, taken: &[Position]) {
        let mut notices = Vec::new();
        let done = lock(&self.index).ack(self.slot, self.session, taken, &mut notices);
        if !done.is_empty() {
            self.keeper.done(done);
        }
        tell(notices);
    }

    fn handed(&mut self, taken: &[Position]) {
        let mut notices = Vec::new();
        lock(&self.index).handed(self.slot, taken, &mut notices);
        tell(notices);
    }

    fn refuse(&mut self, taken: Position, reason: &str) {
        let now = self.clock.now().as_millisecond();
        let is_dead = lock(&self.index).refuse(self.slot, self.session, taken, reason, now);
        if is_dead {
            self.keeper.dead(taken.0, now, reason);
        }
    }
}

impl<K: Keeper> Drop for SharedInbox<K> {
    fn drop(&mut self) {
        lock(&self.index).detach(self.slot, self.session);
    }
}

/// Tells senders which of their messages were taken, with one notice for each run of messages of
/// the same sender. A sender whose channel is full or closed misses the notice.
fn tell(notices: Vec<Notice>) {
    let mut notices = notices.into_iter().peekable();
    while let Some((watch, id)) = notices.next() {
        let mut ids = vec![id];
        while let Some((_, id)) = notices.next_if(|(other, _)| other.same_channel(&watch)) {
            ids.push(id);
        }
        let _full_or_gone = watch.try_send(ids);
    }
}
