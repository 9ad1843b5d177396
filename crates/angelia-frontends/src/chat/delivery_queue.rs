//! Delivers texts to channels. A text is in the ledger before the first attempt. A failed attempt is
//! retried a few times. If a failed attempt may have arrived after all, the next one carries a visible
//! mark. When the queue gives up on a text, it logs that and tells the sender.

use std::{collections::HashMap, fmt, sync::Arc, time::Duration};

use angelia_core::{
    engine::rules::strip_terminal_codes,
    ports::{
        AddressError, ChannelAddress, ChannelDelivery, ChannelRegistry, ChannelTarget, Clock,
        DeliveryFormat, DeliveryState, DeliveryStore, SendError, SendErrorKind, StoreError,
    },
    task::TaskGroup,
};
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use super::delivery_parts::{DeliveryPart, compose_parts, send_part};

/// The longest pause that a platform can ask for before the next attempt.
const MAX_RETRY_DELAY: Duration = Duration::from_mins(10);

/// How long the ledger keeps texts that were delivered or given up.
const LEDGER_RETENTION: Duration = Duration::from_hours(7 * 24);

/// At startup, texts older than this are given up: nobody is interested in them any more.
const MAX_TEXT_AGE: Duration = Duration::from_hours(24);

/// The number of attempts on platforms where people wait for an answer. With the pauses in between they
/// take over an hour, which is longer than most outages.
const PATIENT_ATTEMPTS: u32 = 12;

/// The limit on texts that wait for delivery. The queue refuses further ones.
const MAX_OPEN_DELIVERIES: usize = 500;

#[derive(Clone, Copy, Debug)]
pub struct RetryPolicy {
    pub max_attempts: u32,
    /// The pause before the second attempt. Each further pause is four times as long.
    pub first_delay: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self { max_attempts: 3, first_delay: Duration::from_secs(2) }
    }
}

pub struct DeliveryQueueParts {
    pub channels: ChannelRegistry,
    pub ledger: Arc<dyn DeliveryStore>,
    pub clock: Arc<dyn Clock>,
    pub tasks: TaskGroup,
    pub retry: RetryPolicy,
}

/// A text or a file for a channel.
#[derive(Clone, Debug)]
pub struct DeliveryRequest {
    /// Identifies the text: a request with a known id is not sent again.
    pub id: String,
    pub channel: Arc<str>,
    pub text: String,
    pub format: DeliveryFormat,
    /// The platform's id of the message that this text answers.
    pub reply_to: Option<Arc<str>>,
    /// The platform's id of the message that this text replaces.
    pub replaces: Option<Arc<str>>,
}

impl DeliveryRequest {
    /// Creates a request for a text in Markdown, as agents write it.
    pub fn markdown(id: impl Into<String>, channel: &str, text: impl Into<String>) -> Self {
        Self {
            id: id.into(),
            channel: channel.into(),
            text: text.into(),
            format: DeliveryFormat::Markdown,
            reply_to: None,
            replaces: None,
        }
    }
}

/// Delivers texts to channels. Cheap to clone; clones share one state.
#[derive(Clone)]
pub struct DeliveryQueue {
    shared: Arc<QueueState>,
}

struct QueueState {
    parts: DeliveryQueueParts,
    /// One permit per text that may wait for delivery.
    open_slots: Arc<Semaphore>,
    /// Each chat gets one text at a time, in order. For each chat, this holds the end of the last
    /// queued text, which the next one waits for.
    chat_tails: Mutex<HashMap<String, oneshot::Receiver<DeliveryEnd>>>,
}

#[derive(Clone, Debug, thiserror::Error)]
pub enum DeliveryError {
    #[error(transparent)]
    Address(#[from] AddressError),
    #[error(transparent)]
    Ledger(#[from] StoreError),
    #[error("{0}")]
    Failed(Arc<str>),
    #[error("angelia is shutting down; the text is sent at the next start")]
    ShuttingDown,
}

impl DeliveryQueue {
    pub fn new(parts: DeliveryQueueParts) -> Self {
        let open_slots = Arc::new(Semaphore::new(MAX_OPEN_DELIVERIES));
        Self { shared: Arc::new(QueueState { parts, open_slots, chat_tails: Mutex::default() }) }
    }

    /// Checks that the channel exists and its platform is configured.
    pub fn check_channel(&self, channel: &str) -> Result<(), AddressError> {
        self.resolve(channel).map(drop)
    }

    fn resolve(&self, channel: &str) -> Result<ChannelTarget, AddressError> {
        let address: ChannelAddress = channel.parse()?;
        self.shared.parts.channels.resolve(&address)
    }

    /// Queues a plain text, as [`DeliveryQueue::deliver`] does.
    pub async fn send(
        &self,
        id: &str,
        channel: &str,
        text: &str,
    ) -> Result<PendingDelivery, DeliveryError> {
        let format = DeliveryFormat::Plain;
        self.deliver(DeliveryRequest { format, ..DeliveryRequest::markdown(id, channel, text) })
            .await
    }

    /// Queues a text or a file. Returns once it is in the ledger; the returned value gives the outcome.
    pub async fn deliver(&self, new: DeliveryRequest) -> Result<PendingDelivery, DeliveryError> {
        let target = self.resolve(&new.channel)?;
        let ledger = &self.shared.parts.ledger;
        if let Some(known) = ledger.get(&new.id).await? {
            // Join the queue of the original chat, behind a first delivery that may still be
            // running.
            let target = self.resolve(&known.channel)?;
            return Ok(self.spawn_delivery(known.id, target, None));
        }
        let Some(slot) = self.take_slot() else {
            let message =
                format!("{MAX_OPEN_DELIVERIES} texts are waiting for delivery; try again later");
            return Err(DeliveryError::Failed(message.into()));
        };
        let delivery = ChannelDelivery {
            id: new.id.into(),
            channel: new.channel,
            text: strip_terminal_codes(&new.text).into(),
            format: new.format,
            reply_to: new.reply_to,
            replaces: new.replaces,
            sent_parts: 0,
            created_at: self.shared.parts.clock.now(),
            state: DeliveryState::NEW,
        };
        ledger.add(&delivery).await?;
        Ok(self.spawn_delivery(delivery.id, target, Some(slot)))
    }

    /// Returns the newest texts, delivered or not.
    pub async fn list(&self, limit: usize) -> Result<Vec<ChannelDelivery>, StoreError> {
        self.shared.parts.ledger.list(limit).await
    }

    /// Resumes the deliveries that an earlier process left open. Returns their number.
    pub async fn recover(&self) -> Result<usize, DeliveryError> {
        let parts = &self.shared.parts;
        let now = parts.clock.now();
        if let Ok(long_ago) = now.checked_sub(LEDGER_RETENTION) {
            parts.ledger.remove_finished(long_ago).await?;
        }
        let open = parts.ledger.list_unfinished().await?;
        let count = open.len();
        for delivery in open {
            let is_stale = delivery.created_at.checked_add(MAX_TEXT_AGE).is_ok_and(|end| end < now);
            let target = match self.resolve(&delivery.channel) {
                Ok(target) if !is_stale => target,
                outcome => {
                    let error = match outcome {
                        Err(error) => error.to_string(),
                        Ok(_) => "the text is older than a day".to_owned(),
                    };
                    let attempts = delivery.state.attempts();
                    let given_up = give_up(parts, &delivery, attempts, &error).await?;
                    tracing::warn!("a text for {} was not delivered: {given_up}", delivery.channel);
                    continue;
                }
            };
            drop(self.spawn_delivery(delivery.id, target, self.take_slot()));
        }
        Ok(count)
    }

    fn take_slot(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.shared.open_slots).try_acquire_owned().ok()
    }

    fn spawn_delivery(
        &self,
        id: Arc<str>,
        target: ChannelTarget,
        slot: Option<OwnedSemaphorePermit>,
    ) -> PendingDelivery {
        let (answer, sending) = oneshot::channel();
        let this = self.clone();
        let (before, done) = self.shared.join_chat_queue(format!("{target:?}"));
        self.shared.parts.tasks.spawn_until_stopped(async move {
            if let Some(before) = before {
                let _done = before.await;
            }
            // The previous text may have ended because of the shutdown. If so, leave this one in
            // the ledger for the next start.
            if this.shared.parts.tasks.stop_token().is_cancelled() {
                return;
            }
            let outcome = this.attempt_until_done(&id, &target).await;
            if let Err(error) = &outcome {
                tracing::warn!("a text for {target:?} was not delivered: {error}");
            }
            drop((done, slot));
            // The caller may have dropped its receiver.
            let _not_waiting = answer.send(outcome);
        });
        PendingDelivery(sending)
    }

    async fn attempt_until_done(
        &self,
        id: &str,
        target: &ChannelTarget,
    ) -> Result<(), DeliveryError> {
        let parts = &self.shared.parts;
        // Read the ledger only now: while this task waited in its chat's queue, an earlier delivery
        // with the same id may have ended.
        let Some(delivery) = parts.ledger.get(id).await? else {
            return Err(StoreError::NotFound("delivery").into());
        };
        match &delivery.state {
            DeliveryState::Delivered { .. } => return Ok(()),
            DeliveryState::Failed { error, .. } => {
                return Err(DeliveryError::Failed(Arc::clone(error)));
            }
            DeliveryState::Pending { .. } | DeliveryState::Attempting { .. } => {}
        }
        self.wait_until_ready(&delivery, target).await?;
        let messages = compose_parts(&delivery, target.adapter.as_ref());
        let first = delivery.sent_parts as usize;
        let mut begun = &delivery.state;
        let mut attempts = 0;
        for (index, part) in messages.iter().enumerate().skip(first) {
            attempts = self.attempt_part(&delivery, part, begun, target).await?;
            begun = &DeliveryState::NEW;
            if index + 1 < messages.len() {
                let sent = u32::try_from(index + 1).unwrap_or(u32::MAX);
                parts.ledger.set_sent_parts(&delivery.id, sent).await?;
            }
        }
        Ok(parts.ledger.set(&delivery.id, &DeliveryState::Delivered { attempts }).await?)
    }

    /// Waits, with retries, until the adapter knows the platform's limits.
    async fn wait_until_ready(
        &self,
        delivery: &ChannelDelivery,
        target: &ChannelTarget,
    ) -> Result<(), DeliveryError> {
        let parts = &self.shared.parts;
        let begun = delivery.state.attempts();
        let mut waits = 0;
        loop {
            let Err(error) = target.adapter.ready().await else { return Ok(()) };
            waits += 1;
            if error.kind == SendErrorKind::Refused || waits >= PATIENT_ATTEMPTS {
                return Err(give_up(parts, delivery, begun, &error.message).await?);
            }
            tokio::time::sleep(retry_delay(parts.retry, waits, &error)).await;
        }
    }

    /// Sends one message of a delivery, with retries, and returns how many attempts it took. `begun` is
    /// the delivery's state in the ledger.
    async fn attempt_part(
        &self,
        delivery: &ChannelDelivery,
        part: &DeliveryPart,
        begun: &DeliveryState,
        target: &ChannelTarget,
    ) -> Result<u32, DeliveryError> {
        let parts = &self.shared.parts;
        let capabilities = target.adapter.capabilities();
        let patience = if capabilities.receive { PATIENT_ATTEMPTS } else { 0 };
        let max_attempts = parts.retry.max_attempts.max(patience);
        let (mut attempts, mut may_repeat) = (begun.attempts(), begun.may_repeat());
        loop {
            attempts += 1;
            let attempting = DeliveryState::Attempting { attempts, may_repeat };
            // Recorded before the attempt, so that after a crash it counts as one that may have
            // arrived.
            parts.ledger.set(&delivery.id, &attempting).await?;
            let Err(error) = send_part(target, part, may_repeat && !capabilities.idempotent).await
            else {
                return Ok(attempts);
            };
            may_repeat |= error.kind == SendErrorKind::Unknown;
            if error.kind == SendErrorKind::Refused || attempts >= max_attempts {
                return Err(give_up(parts, delivery, attempts, &error.message).await?);
            }
            let pending = DeliveryState::Pending { attempts, may_repeat };
            parts.ledger.set(&delivery.id, &pending).await?;
            tokio::time::sleep(retry_delay(parts.retry, attempts, &error)).await;
        }
    }
}

/// Signals the end of a delivery by dropping its sender; no value is ever sent.
#[derive(Debug, PartialEq, Eq)]
enum DeliveryEnd {}

impl QueueState {
    /// Joins the queue of a chat. Returns a receiver for the end of the previous text, if there is
    /// one, and the sender that signals the end of this text.
    fn join_chat_queue(
        &self,
        chat: String,
    ) -> (Option<oneshot::Receiver<DeliveryEnd>>, oneshot::Sender<DeliveryEnd>) {
        let (done, end) = oneshot::channel();
        let mut lasts = self.chat_tails.lock();
        lasts.retain(|_, last| last.try_recv() != Err(oneshot::error::TryRecvError::Closed));
        (lasts.insert(chat, end), done)
    }
}

async fn give_up(
    parts: &DeliveryQueueParts,
    delivery: &ChannelDelivery,
    attempts: u32,
    error: &str,
) -> Result<DeliveryError, StoreError> {
    let error: Arc<str> = error.into();
    let failed = DeliveryState::Failed { attempts, error: Arc::clone(&error) };
    parts.ledger.set(&delivery.id, &failed).await?;
    Ok(DeliveryError::Failed(error))
}

fn retry_delay(retry: RetryPolicy, attempts: u32, error: &SendError) -> Duration {
    let growing = retry.first_delay * 4_u32.saturating_pow(attempts.saturating_sub(1));
    error.retry_after.unwrap_or(growing).min(MAX_RETRY_DELAY)
}

/// A queued text, whose outcome can be awaited.
#[derive(Debug)]
pub struct PendingDelivery(oneshot::Receiver<Result<(), DeliveryError>>);

impl PendingDelivery {
    /// Waits until the text is delivered or given up.
    pub async fn outcome(self) -> Result<(), DeliveryError> {
        self.0.await.unwrap_or(Err(DeliveryError::ShuttingDown))
    }
}

impl fmt::Debug for DeliveryQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.shared.parts.fmt(f)
    }
}

impl fmt::Debug for DeliveryQueueParts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeliveryQueue")
            .field("channels", &self.channels)
            .field("retry", &self.retry)
            .finish_non_exhaustive()
    }
}
