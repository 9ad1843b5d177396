//! Gets texts to channels. A text is in the ledger before it is tried; a failed attempt is tried
//! again a few times; an attempt that may have arrived is repeated with a visible mark, never in
//! silence; what is given up is said.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use angelia_core::{
    engine::rules::plain,
    ports::{
        AddressError, ChannelAddress, ChannelTarget, Channels, Clock, Deliveries, Delivery,
        DeliveryState, Outgoing, SendError, SendFailure, StoreError,
    },
    task::Tasks,
};
use tokio::sync::oneshot;

/// Stands before a text whose first attempt may have arrived.
const REPEAT_MARK: &str = "(may be a repeat) ";

/// The longest that a platform may make us wait before the next attempt.
const LONGEST_PAUSE: Duration = Duration::from_mins(10);

/// How long the ledger remembers what has come to its end.
const REMEMBERED: Duration = Duration::from_hours(7 * 24);

/// What was not delivered for so long is not news any more.
const STALE: Duration = Duration::from_hours(24);

/// For texts that wait; beyond that they are refused.
const MOST_OPEN: usize = 500;

#[derive(Clone, Copy, Debug)]
pub struct Retry {
    pub attempts: u32,
    /// Before the second attempt; four times as long before each further one.
    pub pause: Duration,
}

impl Default for Retry {
    fn default() -> Self {
        Self { attempts: 3, pause: Duration::from_secs(2) }
    }
}

pub struct CourierParts {
    pub channels: Channels,
    pub ledger: Arc<dyn Deliveries>,
    pub clock: Arc<dyn Clock>,
    pub tasks: Tasks,
    pub retry: Retry,
}

/// Cheap to clone; all clones are one.
#[derive(Clone)]
pub struct Courier {
    shared: Arc<Shared>,
}

struct Shared {
    parts: CourierParts,
    /// One text at a time to each chat, in the order they came: here waits whoever comes next for
    /// the last one to be done.
    lasts: Mutex<HashMap<String, oneshot::Receiver<Done>>>,
}

#[derive(Clone, Debug, thiserror::Error)]
pub enum CourierError {
    #[error(transparent)]
    Address(#[from] AddressError),
    #[error(transparent)]
    Ledger(#[from] StoreError),
    #[error("{0}")]
    Failed(Arc<str>),
    #[error("angelia is shutting down; it is sent at the next start")]
    ShuttingDown,
}

impl Courier {
    pub fn new(parts: CourierParts) -> Self {
        Self { shared: Arc::new(Shared { parts, lasts: Mutex::default() }) }
    }

    /// Whether a text could be sent there.
    pub fn check(&self, channel: &str) -> Result<(), AddressError> {
        self.resolve(channel).map(drop)
    }

    fn resolve(&self, channel: &str) -> Result<ChannelTarget, AddressError> {
        let address: ChannelAddress = channel.parse()?;
        self.shared.parts.channels.resolve(&address)
    }

    /// Returns when the text is in the ledger; what becomes of it comes by the answer. The same id
    /// a second time is the same text.
    pub async fn send(&self, id: &str, channel: &str, text: &str) -> Result<Sending, CourierError> {
        let target = self.resolve(channel)?;
        let ledger = &self.shared.parts.ledger;
        if let Some(known) = ledger.get(id).await? {
            return Ok(self.deliver(known, target));
        }
        let delivery = Delivery {
            id: id.into(),
            channel: channel.into(),
            text: plain(text).into(),
            created_at: self.shared.parts.clock.now(),
            state: DeliveryState::NEW,
        };
        if ledger.open().await?.len() >= MOST_OPEN {
            let message = format!("{MOST_OPEN} texts wait for their channels already");
            return Err(CourierError::Failed(message.into()));
        }
        ledger.add(&delivery).await?;
        Ok(self.deliver(delivery, target))
    }

    /// Takes up what an earlier process left open. Returns how many there were.
    pub async fn recover(&self) -> Result<usize, CourierError> {
        let parts = &self.shared.parts;
        let now = parts.clock.now();
        if let Ok(long_ago) = now.checked_sub(REMEMBERED) {
            parts.ledger.forget(long_ago).await?;
        }
        let open = parts.ledger.open().await?;
        let count = open.len();
        for delivery in open {
            let is_stale = delivery.created_at.checked_add(STALE).is_ok_and(|end| end < now);
            let target = match self.resolve(&delivery.channel) {
                Ok(target) if !is_stale => target,
                outcome => {
                    let error = match outcome {
                        Err(error) => error.to_string(),
                        Ok(_) => "it is older than a day".to_owned(),
                    };
                    let attempts = delivery.state.attempts();
                    let given_up = give_up(parts, &delivery, attempts, &error).await?;
                    tracing::warn!("a text for {} was not delivered: {given_up}", delivery.channel);
                    continue;
                }
            };
            drop(self.deliver(delivery, target));
        }
        Ok(count)
    }

    fn deliver(&self, delivery: Delivery, target: ChannelTarget) -> Sending {
        let (answer, sending) = oneshot::channel();
        let this = self.clone();
        let (before, done) = self.shared.queue_up(format!("{target:?}"));
        self.shared.parts.tasks.spawn_until_stopped(async move {
            if let Some(before) = before {
                let _done = before.await;
            }
            // The one before may have ended because everything ends: this one has not begun.
            if this.shared.parts.tasks.stop_token().is_cancelled() {
                return;
            }
            let outcome = this.attempts(delivery, &target).await;
            if let Err(error) = &outcome {
                tracing::warn!("a text for {target:?} was not delivered: {error}");
            }
            drop(done);
            // Whoever does not wait does not want to know.
            let _not_waiting = answer.send(outcome);
        });
        Sending(sending)
    }

    async fn attempts(
        &self,
        delivery: Delivery,
        target: &ChannelTarget,
    ) -> Result<(), CourierError> {
        let parts = &self.shared.parts;
        let (mut attempts, mut may_repeat) = match &delivery.state {
            DeliveryState::Delivered { .. } => return Ok(()),
            DeliveryState::Failed { error, .. } => {
                return Err(CourierError::Failed(Arc::clone(error)));
            }
            open => (open.attempts(), open.may_repeat()),
        };
        loop {
            attempts += 1;
            let attempting = DeliveryState::Attempting { attempts, may_repeat };
            parts.ledger.set(&delivery.id, &attempting).await?;
            let message = outgoing(&delivery, may_repeat);
            let error = match target.adapter.send(&target.chat, &message).await {
                Ok(_sent) => {
                    let delivered = DeliveryState::Delivered { attempts };
                    return Ok(parts.ledger.set(&delivery.id, &delivered).await?);
                }
                Err(error) => error,
            };
            may_repeat |= error.kind == SendFailure::Unknown;
            if error.kind == SendFailure::Refused || attempts >= parts.retry.attempts {
                return Err(give_up(parts, &delivery, attempts, &error.message).await?);
            }
            let pending = DeliveryState::Pending { attempts, may_repeat };
            parts.ledger.set(&delivery.id, &pending).await?;
            tokio::time::sleep(pause(parts.retry, attempts, &error)).await;
        }
    }
}

/// Never sent: a sender that is dropped says enough.
#[derive(Debug, PartialEq, Eq)]
enum Done {}

impl Shared {
    /// The end of whoever is before us in a chat, and our own end for whoever comes next.
    fn queue_up(&self, chat: String) -> (Option<oneshot::Receiver<Done>>, oneshot::Sender<Done>) {
        let (done, end) = oneshot::channel();
        let mut lasts = self.lasts.lock().unwrap_or_else(PoisonError::into_inner);
        lasts.retain(|_, last| last.try_recv() != Err(oneshot::error::TryRecvError::Closed));
        (lasts.insert(chat, end), done)
    }
}

async fn give_up(
    parts: &CourierParts,
    delivery: &Delivery,
    attempts: u32,
    error: &str,
) -> Result<CourierError, StoreError> {
    let error: Arc<str> = error.into();
    let failed = DeliveryState::Failed { attempts, error: Arc::clone(&error) };
    parts.ledger.set(&delivery.id, &failed).await?;
    Ok(CourierError::Failed(error))
}

fn outgoing(delivery: &Delivery, may_repeat: bool) -> Outgoing {
    let text = if may_repeat {
        format!("{REPEAT_MARK}{}", delivery.text).into()
    } else {
        Arc::clone(&delivery.text)
    };
    Outgoing { id: Arc::clone(&delivery.id), text, may_repeat, buttons: Vec::new() }
}

fn pause(retry: Retry, attempts: u32, error: &SendError) -> Duration {
    let growing = retry.pause * 4_u32.saturating_pow(attempts.saturating_sub(1));
    error.retry_after.unwrap_or(growing).min(LONGEST_PAUSE)
}

/// What becomes of a text.
#[derive(Debug)]
pub struct Sending(oneshot::Receiver<Result<(), CourierError>>);

impl Sending {
    /// Waits until it has arrived or was given up.
    pub async fn outcome(self) -> Result<(), CourierError> {
        self.0.await.unwrap_or(Err(CourierError::ShuttingDown))
    }
}

impl fmt::Debug for Courier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.shared.parts.fmt(f)
    }
}

impl fmt::Debug for CourierParts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Courier")
            .field("channels", &self.channels)
            .field("retry", &self.retry)
            .finish_non_exhaustive()
    }
}
