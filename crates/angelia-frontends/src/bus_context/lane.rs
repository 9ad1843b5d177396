//! A lane holds the messages of one endpoint whose replies go to one target. It starts at most one
//! turn per interval. Messages that arrive meanwhile are merged in order, but never with those of
//! another lane.

use std::{collections::HashMap, sync::Arc, time::Duration};

use angelia_core::{
    model::{EndpointName, MessageId, SessionId},
    ports::bus::BusPosition,
    task::TaskGroup,
};
use parking_lot::Mutex;
use tokio::{
    sync::mpsc,
    time::{Instant, sleep_until, timeout},
};

use super::{merge::PromptItem, reply::ReplyTarget, turns::LaneTurns};

#[derive(Clone, Copy, Debug)]
pub struct LaneLimits {
    /// The minimum time between the starts of two turns of one lane.
    pub interval: Duration,
    /// The limit on messages merged into one turn.
    pub max_merged: usize,
}

/// The limit on messages that wait in one lane. Further messages block their endpoint.
const MAX_LANE_MESSAGES: usize = 1024;

impl Default for LaneLimits {
    fn default() -> Self {
        Self { interval: Duration::from_secs(30), max_merged: 64 }
    }
}

/// Identifies a lane: the receiver of its messages, the target of its replies, and the account that
/// pays.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct LaneKey {
    pub(super) endpoint: EndpointName,
    pub(super) profile: Option<Arc<str>>,
    pub(super) reply_target: ReplyTarget,
    /// The session whose agent sent the messages. Its account is charged.
    pub(super) sender_session: Option<SessionId>,
}

impl LaneKey {
    /// Returns the name of the lane's session. Each channel and each profile has its own session.
    pub(super) fn session_name(&self) -> String {
        let profile = self.profile.as_deref().unwrap_or_default();
        match &self.reply_target {
            ReplyTarget::Channel(channel) => {
                format!("{}\u{1f}{profile}\u{1f}{channel}", self.endpoint)
            }
            ReplyTarget::Sender(_) => format!("{}\u{1f}{profile}", self.endpoint),
        }
    }
}

/// A message in a lane.
#[derive(Debug)]
pub(super) struct QueuedMessage {
    pub(super) id: MessageId,
    pub(super) position: BusPosition,
    /// Whether the message was delivered before, so that it may have started a turn already.
    pub(super) redelivered: bool,
    pub(super) item: PromptItem,
    pub(super) outcomes: mpsc::Sender<MessageOutcome>,
}

/// The outcome of a message.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum MessageOutcome {
    Done(BusPosition),
    /// The message could not be handled and becomes a dead letter with this reason.
    Refused(BusPosition, String),
}

impl QueuedMessage {
    pub(super) async fn report_done(&self) {
        // If the host is gone, the message is delivered again and recognized by its id.
        let _gone = self.outcomes.send(MessageOutcome::Done(self.position)).await;
    }

    pub(super) async fn report_refused(&self, why: &str) {
        let refused = MessageOutcome::Refused(self.position, why.to_owned());
        let _gone = self.outcomes.send(refused).await;
    }
}

/// The lanes that have messages.
#[derive(Clone)]
pub(super) struct Lanes {
    turns: LaneTurns,
    limits: LaneLimits,
    tasks: TaskGroup,
    senders: Arc<Mutex<HashMap<LaneKey, mpsc::Sender<QueuedMessage>>>>,
}

impl Lanes {
    pub(super) fn new(turns: LaneTurns, pace: LaneLimits, tasks: TaskGroup) -> Self {
        Self { turns, limits: pace, tasks, senders: Arc::default() }
    }

    /// Puts a message into its lane. Waits while the lane is full; later messages stay on the bus,
    /// where they are safe.
    pub(super) async fn enqueue(&self, name: LaneKey, mut offer: QueuedMessage) {
        loop {
            let lane = self.lane_sender(&name);
            match lane.send(offer).await {
                Ok(()) => return,
                // The lane has just closed: open a new one.
                Err(mpsc::error::SendError(returned)) => offer = returned,
            }
        }
    }

    fn lane_sender(&self, name: &LaneKey) -> mpsc::Sender<QueuedMessage> {
        let mut open = self.senders.lock();
        if let Some(lane) = open.get(name).filter(|lane| !lane.is_closed()) {
            return lane.clone();
        }
        let (sender, offers) = mpsc::channel(MAX_LANE_MESSAGES);
        open.insert(name.clone(), sender.clone());
        let lane = Lane { lanes: self.clone(), key: name.clone(), messages: offers, held: None };
        self.tasks.spawn_until_stopped(lane.run());
        sender
    }
}

struct Lane {
    lanes: Lanes,
    key: LaneKey,
    messages: mpsc::Receiver<QueuedMessage>,
    /// A redelivered message that will start the next turn.
    held: Option<QueuedMessage>,
}

impl Lane {
    async fn run(mut self) {
        let pace = self.lanes.limits;
        loop {
            // A lane without messages for a whole interval closes. The next message opens a new
            // lane, whose first turn starts immediately.
            let next = match self.held.take() {
                Some(held) => Ok(Some(held)),
                None => timeout(pace.interval, self.messages.recv()).await,
            };
            let first = match next {
                Ok(Some(offer)) => offer,
                Ok(None) => return,
                Err(_silence) => {
                    if self.close() {
                        return;
                    }
                    continue;
                }
            };
            let began = Instant::now();
            let batch = self.take_batch(first);
            self.lanes.turns.run(&self.key, batch).await;
            // Messages that arrive before the next turn may start collect in the channel.
            sleep_until(began + pace.interval).await;
        }
    }

    /// Takes the currently waiting messages, in order. A redelivered message gets its own turn,
    /// because its id is the request key that finds an earlier turn.
    fn take_batch(&mut self, first: QueuedMessage) -> Vec<QueuedMessage> {
        let is_alone = first.redelivered;
        let mut batch = vec![first];
        while !is_alone && batch.len() < self.lanes.limits.max_merged {
            match self.messages.try_recv() {
                Ok(next) if next.redelivered => {
                    self.held = Some(next);
                    break;
                }
                Ok(next) => batch.push(next),
                Err(_nothing) => break,
            }
        }
        batch
    }

    /// Closes the lane unless a message has arrived. Returns whether it is closed.
    fn close(&mut self) -> bool {
        // The lock keeps `lane_sender` from handing out this lane between the check and the
        // removal.
        let mut open = self.lanes.senders.lock();
        if !self.messages.is_empty() {
            return false;
        }
        open.remove(&self.key);
        self.messages.close();
        true
    }
}
