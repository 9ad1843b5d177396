//! The connection of one client. A single task reads, writes and waits. A slow client delays only
//! itself: while its output buffer is full, nothing is taken from its inbox and nothing is read
//! from its socket.

mod answers;
mod speech;

use std::{collections::VecDeque, io, pin::Pin, time::Duration};

use angelia_core::{
    model::{EndpointName, MessageId},
    ports::{
        BoxFuture, Inbox,
        bus::{Delivery, InboxError, Published, Receipts, Watch},
    },
};
use angelia_wire::frame::Frames;
use tokio::{
    net::UnixStream,
    sync::mpsc,
    time::{Instant, Sleep},
};

use super::{Door, MAX_FRAME, handing::Handing, reply};

/// When this much output is waiting, nothing is added to it until some of it is written.
const OUT_FULL: usize = 1024 * 1024;

/// The limit on published batches whose receipts have not come.
const UNANSWERED: usize = 64;

/// How long a client that has not registered may be silent.
const STRANGER: Duration = Duration::from_mins(10);

/// How many `delivered` notices may wait for the connection.
const NOTICES: usize = 256;

pub(super) struct Connection {
    door: Door,
    stream: UnixStream,
    frames: Frames,
    out: Vec<u8>,
    /// How many bytes of `out` have been written.
    written: usize,
    /// How many bytes have been written to the stream since it was opened.
    sent: u64,
    /// The client has set `ack`: it acknowledges messages, and gets `accepted`, `delivered` and
    /// `rejected` for its own.
    asks: bool,
    name: Option<EndpointName>,
    inbox: Option<Box<dyn Inbox>>,
    handing: Handing,
    publishing: Option<BoxFuture<'static, Published>>,
    unanswered: VecDeque<Unanswered>,
    watch: Option<(Watch, mpsc::Receiver<Vec<MessageId>>)>,
    /// The last event was input from the client. Reading and delivering then take turns.
    has_read: bool,
    last_heard: Instant,
    timer: Pin<Box<Sleep>>,
    state: State,
}

struct Unanswered {
    /// `None`: the batch is not queued yet.
    published: Option<Published>,
    ids: Vec<MessageId>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Open,
    /// Another client has taken the endpoint's name. A client without `ack` has no frame for this:
    /// its connection is closed when it writes.
    Displaced,
    /// The client has closed its sending side; it may still read answers.
    Ending,
}

/// Why a connection has ended.
#[derive(Debug)]
enum Over {
    /// Closed in order, or by us because of what the client sent.
    Closed,
    /// The client disconnected without reading everything.
    Lost,
}

enum Happened {
    Readable,
    Writable,
    Published(Published),
    Answered(Receipts),
    Taken(Result<Vec<Delivery>, InboxError>),
    Delivered(Vec<MessageId>),
    Time,
    Stop,
}

impl Connection {
    pub(super) fn new(stream: UnixStream, door: Door) -> Self {
        let now = Instant::now();
        Self {
            door,
            stream,
            frames: Frames::new(MAX_FRAME),
            out: Vec::new(),
            written: 0,
            sent: 0,
            asks: false,
            name: None,
            inbox: None,
            handing: Handing::new(false),
            publishing: None,
            unanswered: VecDeque::new(),
            watch: None,
            has_read: false,
            last_heard: now,
            timer: Box::pin(tokio::time::sleep_until(now + STRANGER)),
            state: State::Open,
        }
    }

    pub(super) async fn run(mut self) {
        let over = loop {
            if let Err(over) = self.flush() {
                break over;
            }
            if self.state == State::Ending && self.is_quiet() {
                break Over::Closed;
            }
            let happened = self.wait().await;
            if let Err(over) = self.act(happened).await {
                break over;
            }
        };
        if matches!(over, Over::Closed) {
            let _last_words = self.flush();
            self.leave();
        }
        // Dropping the inbox returns messages that were not acknowledged, or not certainly read.
        drop(self.inbox.take());
        // A message counts as sent even if its client did not wait for the answer.
        if let Some(publishing) = self.publishing.take() {
            publishing.await;
        }
    }

    fn is_quiet(&self) -> bool {
        self.out.is_empty() && self.publishing.is_none() && self.unanswered.is_empty()
    }

    async fn wait(&mut self) -> Happened {
        let is_full = self.out.len() - self.written >= OUT_FULL;
        // A client that does not read its output, or does not wait for its receipts, is not read
        // from.
        let may_read = self.state != State::Ending
            && self.publishing.is_none()
            && self.unanswered.len() < UNANSWERED
            && !is_full;
        let limit = self.handing.room();
        let may_take = limit > 0 && !is_full && self.state == State::Open;
        let stop = self.door.tasks.stop_token();
        tokio::select! {
            biased;
            () = stop.cancelled() => Happened::Stop,
            _ = self.stream.writable(), if self.written < self.out.len() => Happened::Writable,
            receipts = next_receipts(&mut self.unanswered) => Happened::Answered(receipts),
            published = maybe(self.publishing.as_mut()) => Happened::Published(published),
            ids = next_notice(self.watch.as_mut()) => Happened::Delivered(ids),
            // Reading and delivering alternate, so that neither a busy sender nor a busy receiver
            // starves the other direction: the branch that was not served last comes first.
            _ = self.stream.readable(), if may_read && !self.has_read => Happened::Readable,
            taken = next_taken(self.inbox.as_mut(), limit), if may_take => Happened::Taken(taken),
            _ = self.stream.readable(), if may_read && self.has_read => Happened::Readable,
            () = self.timer.as_mut() => Happened::Time,
        }
    }

    async fn act(&mut self, happened: Happened) -> Result<(), Over> {
        self.has_read = matches!(happened, Happened::Readable);
        match happened {
            Happened::Readable => return self.read().await,
            Happened::Writable => {}
            Happened::Published(published) => {
                self.publishing = None;
                // Only one batch is published at a time, so this is the last one.
                if let Some(unanswered) = self.unanswered.back_mut() {
                    unanswered.published = Some(published);
                }
            }
            Happened::Answered(receipts) => self.answer(&receipts),
            Happened::Taken(Ok(deliveries)) => self.deliver(deliveries),
            Happened::Taken(Err(InboxError::Displaced(name))) => {
                self.inbox = None;
                if self.asks {
                    reply::displaced(&mut self.out, &name);
                    return Err(Over::Closed);
                }
                self.state = State::Displaced;
            }
            Happened::Taken(Err(InboxError::Bus(error))) => {
                tracing::warn!(%error, "cannot take messages for an endpoint; closing it");
                return Err(Over::Closed);
            }
            Happened::Delivered(ids) => {
                for id in ids {
                    reply::delivered(&mut self.out, &id);
                }
            }
            Happened::Time => return self.look_at_the_time(),
            Happened::Stop => return Err(Over::Closed),
        }
        Ok(())
    }

    /// Writes as much output as possible without waiting.
    fn flush(&mut self) -> Result<(), Over> {
        while self.written < self.out.len() {
            match self.stream.try_write(&self.out[self.written..]) {
                Ok(count) => {
                    self.written += count;
                    self.sent += count as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(_gone) => return Err(Over::Lost),
            }
        }
        if self.written == self.out.len() {
            self.written = 0;
            self.out.clear();
            if self.out.capacity() > 64 * 1024 {
                self.out = Vec::new();
            }
        } else if self.written > OUT_FULL {
            self.out.drain(..self.written);
            self.written = 0;
        }
        self.settle();
        Ok(())
    }

    /// Acknowledges messages that a receiver without `ack` has certainly read.
    fn settle(&mut self) {
        let Some(inbox) = &mut self.inbox else {
            return;
        };
        let settle = self.door.limits.settle;
        let now = Instant::now();
        let handed = self.handing.written(self.sent, now);
        if !handed.is_empty() {
            inbox.handed(&handed);
        }
        let settled = self.handing.settled(now, settle);
        if !settled.is_empty() {
            inbox.ack(&settled);
        }
        if let Some(next) = self.handing.next_settled(settle)
            && next < self.timer.deadline()
        {
            self.timer.as_mut().reset(next);
        }
    }

    fn look_at_the_time(&mut self) -> Result<(), Over> {
        let now = Instant::now();
        let patience = match self.name {
            Some(_) => self.door.limits.silence,
            None => STRANGER,
        };
        let end = self.last_heard + patience;
        if now >= end {
            tracing::info!(
                endpoint = self.name.as_ref().map(EndpointName::as_str),
                "an endpoint was silent for too long and is removed"
            );
            return Err(Over::Closed);
        }
        self.settle();
        let settle = self.handing.next_settled(self.door.limits.settle);
        let next = settle.map_or(end, |settle| settle.min(end));
        self.timer.as_mut().reset(next);
        Ok(())
    }

    /// Gives up the inbox when the connection ends in order: a receiver without `ack` counts as
    /// having read everything that was written to it.
    fn leave(&mut self) {
        if let Some(mut inbox) = self.inbox.take() {
            inbox.ack(&self.handing.all_written());
        }
    }
}

async fn maybe<T>(future: Option<&mut BoxFuture<'static, T>>) -> T {
    match future {
        Some(future) => future.await,
        None => std::future::pending().await,
    }
}

/// Waits for the receipts of the oldest batch. They come in the order of the batches; the last
/// batch may not be queued yet.
async fn next_receipts(unanswered: &mut VecDeque<Unanswered>) -> Receipts {
    let first = unanswered.front_mut();
    match first.and_then(|first| first.published.as_mut()) {
        Some(published) => published.await,
        None => std::future::pending().await,
    }
}

async fn next_notice(
    watch: Option<&mut (Watch, mpsc::Receiver<Vec<MessageId>>)>,
) -> Vec<MessageId> {
    match watch {
        Some((_open, notices)) => match notices.recv().await {
            Some(ids) => ids,
            None => std::future::pending().await,
        },
        None => std::future::pending().await,
    }
}

async fn next_taken(
    inbox: Option<&mut Box<dyn Inbox>>,
    limit: usize,
) -> Result<Vec<Delivery>, InboxError> {
    match inbox {
        Some(inbox) => inbox.next(limit).await,
        None => std::future::pending().await,
    }
}
