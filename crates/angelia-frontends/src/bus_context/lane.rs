//! A lane: messages of one endpoint whose replies have one destination. They begin turns at most
//! once in an interval; what comes meanwhile is merged, in order, and never with another lane's.

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
    /// Between the beginnings of two turns of one lane.
    pub interval: Duration,
    /// Messages that one turn takes.
    pub most: usize,
}

/// Messages that wait in one lane; what comes beyond that holds its endpoint up.
const WAITING: usize = 1024;

impl Default for Pace {
    fn default() -> Self {
        Self { interval: Duration::from_secs(30), most: 64 }
    }
}

/// Who a message is for, and where its reply goes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct LaneName {
    pub(super) endpoint: EndpointName,
    pub(super) profile: Option<Arc<str>>,
    pub(super) reply: ReplyTo,
}

impl LaneName {
    /// What the session is called: a channel has its own conversation, and so has a profile.
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
    /// It was in somebody's hands before: it may have begun a turn already.
    pub(super) again: bool,
    pub(super) item: Item,
    pub(super) settled: mpsc::Sender<Settled>,
}

/// What became of a message.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Settled {
    Done(Position),
    /// It could not be handled, and is kept with the reason.
    Refused(Position, String),
}

impl Offer {
    pub(super) async fn done(&self) {
        // The host is gone: then the message comes again, and is known by its id.
        let _gone = self.settled.send(Settled::Done(self.position)).await;
    }

    pub(super) async fn refused(&self, why: &str) {
        let refused = Settled::Refused(self.position, why.to_owned());
        let _gone = self.settled.send(refused).await;
    }
}

/// Every lane that has something to do.
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

    /// Waits when the lane is full: the messages behind this one stay on the bus, where they are
    /// safe.
    pub(super) async fn offer(&self, name: LaneName, mut offer: Offer) {
        loop {
            let lane = self.lane(&name);
            match lane.send(offer).await {
                Ok(()) => return,
                // It had just decided to end.
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
    /// Taken out, and not for the turn that was being put together.
    held: Option<Offer>,
}

impl Lane {
    async fn run(mut self) {
        let pace = self.lanes.pace;
        loop {
            // Whoever comes after a longer silence finds a new lane, and need not wait in it.
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
            // Until the next turn may begin; what comes meanwhile collects in the channel.
            sleep_until(began + pace.interval).await;
        }
    }

    /// What is there now, in order. One that was in somebody's hands before is alone in its turn,
    /// so that its turn is found again by its name.
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

    /// Ends the lane, unless somebody has put something in.
    fn close(&mut self) -> bool {
        let mut open = self.lanes.open.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.offers.is_empty() {
            return false;
        }
        open.remove(&self.name);
        self.offers.close();
        true
    }
}
