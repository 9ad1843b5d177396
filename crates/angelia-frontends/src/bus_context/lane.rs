//! A lane holds the messages of one endpoint whose replies go to one target. It starts at most one
//! turn per interval; messages that come meanwhile are merged in order, never with those of another
//! lane.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use angelia_core::{
    model::{EndpointName, MessageId},
    ports::bus::Position,
    task::Tasks,
};
use tokio::{
    sync::mpsc,
    time::{Instant, sleep_until, timeout},
};

use super::{merge::Item, reply::ReplyTo, turns::Turns};

#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// The minimum time between the starts of two turns of one lane.
    pub interval: Duration,
    /// The limit on messages merged into one turn.
    pub most: usize,
}

/// The limit on messages that wait in one lane; further ones hold up their endpoint.
const WAITING: usize = 1024;

impl Default for Pace {
    fn default() -> Self {
        Self { interval: Duration::from_secs(30), most: 64 }
    }
}

/// Identifies a lane: the receiver of its messages, and the target of its replies.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct LaneName {
    pub(super) endpoint: EndpointName,
    pub(super) profile: Option<Arc<str>>,
    pub(super) reply: ReplyTo,
}

impl LaneName {
    /// Returns the name of the lane's session. Each channel and each profile has a session of its
    /// own.
    pub(super) fn session_name(&self) -> String {
        let profile = self.profile.as_deref().unwrap_or_default();
        match &self.reply {
            ReplyTo::Channel(channel) => format!("{}\u{1f}{profile}\u{1f}{channel}", self.endpoint),
            ReplyTo::Sender(_) => format!("{}\u{1f}{profile}", self.endpoint),
        }
    }
}

/// A message in a lane.
#[derive(Debug)]
pub(super) struct Offer {
    pub(super) id: MessageId,
    pub(super) position: Position,
    /// The message was delivered before, so it may have started a turn already.
    pub(super) again: bool,
    pub(super) item: Item,
    pub(super) settled: mpsc::Sender<Settled>,
}

/// The outcome of a message.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Settled {
    Done(Position),
    /// The message could not be handled and becomes a dead letter with this reason.
    Refused(Position, String),
}

impl Offer {
    pub(super) async fn done(&self) {
        // If the host is gone, the message is delivered again and recognized by its id.
        let _gone = self.settled.send(Settled::Done(self.position)).await;
    }

    pub(super) async fn refused(&self, why: &str) {
        let refused = Settled::Refused(self.position, why.to_owned());
        let _gone = self.settled.send(refused).await;
    }
}

/// The lanes that have messages.
#[derive(Clone)]
pub(super) struct Lanes {
    turns: Turns,
    pace: Pace,
    tasks: Tasks,
    open: Arc<Mutex<HashMap<LaneName, mpsc::Sender<Offer>>>>,
}

impl Lanes {
    pub(super) fn new(turns: Turns, pace: Pace, tasks: Tasks) -> Self {
        Self { turns, pace, tasks, open: Arc::default() }
    }

    /// Puts a message into its lane. Waits while the lane is full: later messages stay on the bus,
    /// where they are safe.
    pub(super) async fn offer(&self, name: LaneName, mut offer: Offer) {
        loop {
            let lane = self.lane(&name);
            match lane.send(offer).await {
                Ok(()) => return,
                // The lane has just closed: open a new one.
                Err(mpsc::error::SendError(returned)) => offer = returned,
            }
        }
    }

    fn lane(&self, name: &LaneName) -> mpsc::Sender<Offer> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(lane) = open.get(name).filter(|lane| !lane.is_closed()) {
            return lane.clone();
        }
        let (sender, offers) = mpsc::channel(WAITING);
        open.insert(name.clone(), sender.clone());
        let lane = Lane { lanes: self.clone(), name: name.clone(), offers, held: None };
        self.tasks.spawn_until_stopped(lane.run());
        sender
    }
}

struct Lane {
    lanes: Lanes,
    name: LaneName,
    offers: mpsc::Receiver<Offer>,
    /// A redelivered message that was taken out and starts the next turn.
    held: Option<Offer>,
}

impl Lane {
    async fn run(mut self) {
        let pace = self.lanes.pace;
        loop {
            // A lane without messages for a whole interval closes. The next message opens a new
            // lane, whose first turn starts at once.
            let next = match self.held.take() {
                Some(held) => Ok(Some(held)),
                None => timeout(pace.interval, self.offers.recv()).await,
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
            let batch = self.take(first);
            self.lanes.turns.run(&self.name, batch).await;
            // Messages that come before the next turn may start collect in the channel.
            sleep_until(began + pace.interval).await;
        }
    }

    /// Takes the messages that are there now, in order. A redelivered message gets a turn of its
    /// own: its id is the request key by which an earlier turn of it is found.
    fn take(&mut self, first: Offer) -> Vec<Offer> {
        let is_alone = first.again;
        let mut batch = vec![first];
        while !is_alone && batch.len() < self.lanes.pace.most {
            match self.offers.try_recv() {
                Ok(next) if next.again => {
                    self.held = Some(next);
                    break;
                }
                Ok(next) => batch.push(next),
                Err(_nothing) => break,
            }
        }
        batch
    }

    /// Closes the lane unless a message has come. Returns whether it is closed.
    fn close(&mut self) -> bool {
        // The lock keeps `lane_sender` from handing out this lane between the check and the
        // removal.
        let mut open = self.lanes.open.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.offers.is_empty() {
            return false;
        }
        open.remove(&self.name);
        self.offers.close();
        true
    }
}
