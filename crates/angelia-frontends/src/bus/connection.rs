//! The connection of one client. A single task reads, writes and waits. A slow client delays only
//! itself: while its output buffer is full, nothing is taken from its inbox and nothing is read
//! from its socket.

mod incoming;
mod outgoing;
mod stop;

use std::{collections::VecDeque, io, pin::Pin, time::Duration};

use angelia_core::{
    model::{EndpointName, MessageId},
    ports::{
        BoxFuture, BusInbox,
        bus::{BusDelivery, DeliveryNotifier, InboxError, PendingReceipts, Receipts},
    },
};
use angelia_wire::frame::FrameDecoder;
use tokio::{
    net::UnixStream,
    sync::mpsc,
    time::{Instant, Sleep},
};

use super::{ListenerContext, MAX_FRAME_BYTES, in_flight::InFlight, reply};
use crate::socket::Peer;

/// While this much output is waiting, nothing is added to it.
const MAX_OUTPUT_BYTES: usize = 1024 * 1024;

/// The limit on published batches that still wait for their receipts.
const MAX_UNANSWERED_BATCHES: usize = 64;

/// How long an unregistered client may be silent.
const UNREGISTERED_TIMEOUT: Duration = Duration::from_mins(10);

/// How many `delivered` notices may wait for the connection.
const MAX_QUEUED_NOTICES: usize = 256;

pub(super) struct BusConnection {
    context: ListenerContext,
    stream: UnixStream,
    peer: Peer,
    frames: FrameDecoder,
    out: Vec<u8>,
    /// The number of bytes of `out` that are already written.
    written: usize,
    /// The number of bytes written to the stream since it was opened.
    sent: u64,
    /// Whether the client has set `ack`: it acknowledges messages, and gets `accepted`, `delivered`
    /// and `rejected` for its own.
    uses_acks: bool,
    name: Option<EndpointName>,
    /// Whether a token proved the name.
    is_proven: bool,
    inbox: Option<Box<dyn BusInbox>>,
    in_flight: InFlight,
    publishing: Option<BoxFuture<'static, PendingReceipts>>,
    unanswered_batches: VecDeque<UnansweredBatch>,
    watch: Option<(DeliveryNotifier, mpsc::Receiver<Vec<MessageId>>)>,
    /// Whether the last event was input from the client. Reading and delivering then take turns.
    has_read: bool,
    last_input: Instant,
    timer: Pin<Box<Sleep>>,
    phase: ConnectionPhase,
    /// The latest time at which the connection ends, once the bus stops.
    stop_deadline: Option<Instant>,
}

struct UnansweredBatch {
    /// `None` if the batch is not queued yet.
    published: Option<PendingReceipts>,
    ids: Vec<MessageId>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ConnectionPhase {
    Open,
    /// Another client has taken the endpoint's name. A client without `ack` understands no frame
    /// for this, so its connection is closed when it writes.
    Displaced,
    /// The bus stops: nothing more is delivered, but frames that the client has already sent are
    /// still read.
    Stopping,
    /// Everything that the client sent was read; it may still read answers.
    Closing,
}

/// Why a connection ended.
#[derive(Debug)]
enum CloseReason {
    /// Closed in order, or by us because of one of the client's frames.
    Closed,
    /// The client disconnected without reading everything.
    Lost,
}

enum ConnectionEvent {
    Readable,
    Writable,
    Published(PendingReceipts),
    Receipts(Receipts),
    Messages(Result<Vec<BusDelivery>, InboxError>),
    Delivered(Vec<MessageId>),
    Timer,
    Stop,
}

impl BusConnection {
    pub(super) fn new(stream: UnixStream, peer: Peer, door: ListenerContext) -> Self {
        let now = Instant::now();
        Self {
            context: door,
            stream,
            peer,
            frames: FrameDecoder::new(MAX_FRAME_BYTES),
            out: Vec::new(),
            written: 0,
            sent: 0,
            uses_acks: false,
            name: None,
            is_proven: false,
            inbox: None,
            in_flight: InFlight::new(false),
            publishing: None,
            unanswered_batches: VecDeque::new(),
            watch: None,
            has_read: false,
            last_input: now,
            timer: Box::pin(tokio::time::sleep_until(now + UNREGISTERED_TIMEOUT)),
            phase: ConnectionPhase::Open,
            stop_deadline: None,
        }
    }

    pub(super) async fn run(mut self) {
        let over = loop {
            if let Err(over) = self.flush() {
                break over;
            }
            if self.phase == ConnectionPhase::Closing && self.is_drained() {
                break CloseReason::Closed;
            }
            let happened = self.next_event().await;
            if let Err(over) = self.handle_event(happened).await {
                break over;
            }
        };
        if matches!(over, CloseReason::Closed) {
            let _last_words = self.flush();
            self.release_inbox();
        }
        // Dropping the inbox returns messages that were not acknowledged, or not certainly read.
        drop(self.inbox.take());
        // A message counts as sent even if its client did not wait for the answer.
        if let Some(publishing) = self.publishing.take() {
            publishing.await;
        }
    }

    fn is_drained(&self) -> bool {
        self.out.is_empty() && self.publishing.is_none() && self.unanswered_batches.is_empty()
    }

    async fn next_event(&mut self) -> ConnectionEvent {
        let is_full = self.out.len() - self.written >= MAX_OUTPUT_BYTES;
        // Do not read from a client that does not read its output or does not wait for its
        // receipts.
        let may_read = self.phase != ConnectionPhase::Closing
            && self.publishing.is_none()
            && self.unanswered_batches.len() < MAX_UNANSWERED_BATCHES
            && !is_full;
        let limit = self.in_flight.free_slots();
        let may_take = limit > 0 && !is_full && self.phase == ConnectionPhase::Open;
        let stop = self.context.tasks.stop_token();
        tokio::select! {
            biased;
            () = stop.cancelled(), if self.stop_deadline.is_none() => ConnectionEvent::Stop,
            _ = self.stream.writable(), if self.written < self.out.len() => ConnectionEvent::Writable,
            receipts = next_receipts(&mut self.unanswered_batches) => ConnectionEvent::Receipts(receipts),
            published = or_pending(self.publishing.as_mut()) => ConnectionEvent::Published(published),
            ids = next_notice(self.watch.as_mut()) => ConnectionEvent::Delivered(ids),
            // Reading and delivering alternate, so that neither a busy sender nor a busy receiver
            // starves the other direction: the branch that was not served last comes first.
            _ = self.stream.readable(), if may_read && !self.has_read => ConnectionEvent::Readable,
            taken = next_deliveries(self.inbox.as_mut(), limit), if may_take => ConnectionEvent::Messages(taken),
            _ = self.stream.readable(), if may_read && self.has_read => ConnectionEvent::Readable,
            () = self.timer.as_mut() => ConnectionEvent::Timer,
        }
    }

    async fn handle_event(&mut self, happened: ConnectionEvent) -> Result<(), CloseReason> {
        self.has_read = matches!(happened, ConnectionEvent::Readable);
        match happened {
            ConnectionEvent::Readable => self.read().await?,
            ConnectionEvent::Writable => {}
            ConnectionEvent::Published(published) => {
                self.publishing = None;
                // Only one batch is published at a time, so this is the last one.
                if let Some(unanswered) = self.unanswered_batches.back_mut() {
                    unanswered.published = Some(published);
                }
            }
            ConnectionEvent::Receipts(receipts) => self.write_receipts(&receipts),
            ConnectionEvent::Messages(Ok(deliveries)) => self.deliver(deliveries),
            ConnectionEvent::Messages(Err(InboxError::Displaced(name))) => {
                self.inbox = None;
                if self.uses_acks {
                    reply::displaced(&mut self.out, &name);
                    return Err(CloseReason::Closed);
                }
                self.phase = ConnectionPhase::Displaced;
            }
            ConnectionEvent::Messages(Err(InboxError::Bus(error))) => {
                tracing::warn!(%error, "cannot take messages for an endpoint; closing it");
                return Err(CloseReason::Closed);
            }
            ConnectionEvent::Delivered(ids) => {
                for id in ids {
                    reply::delivered(&mut self.out, &id);
                }
            }
            ConnectionEvent::Timer => return self.on_timer(),
            ConnectionEvent::Stop => return self.begin_stop(),
        }
        self.end_input_if_acknowledged();
        Ok(())
    }

    /// Writes as much output as possible without waiting.
    fn flush(&mut self) -> Result<(), CloseReason> {
        while self.written < self.out.len() {
            match self.stream.try_write(&self.out[self.written..]) {
                Ok(count) => {
                    self.written += count;
                    self.sent += count as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(_gone) => return Err(CloseReason::Lost),
            }
        }
        if self.written == self.out.len() {
            self.written = 0;
            self.out.clear();
            if self.out.capacity() > 64 * 1024 {
                self.out = Vec::new();
            }
        } else if self.written > MAX_OUTPUT_BYTES {
            self.out.drain(..self.written);
            self.written = 0;
        }
        self.settle_written();
        Ok(())
    }

    /// Acknowledges messages that a receiver without `ack` has certainly read.
    fn settle_written(&mut self) {
        let Some(inbox) = &mut self.inbox else {
            return;
        };
        let settle = self.context.limits.settle_delay;
        let now = Instant::now();
        let handed = self.in_flight.note_written(self.sent, now);
        if !handed.is_empty() {
            inbox.mark_written(&handed);
        }
        let settled = self.in_flight.take_settled(now, settle);
        if !settled.is_empty() {
            inbox.ack(&settled);
        }
        if let Some(next) = self.in_flight.next_settle_time(settle)
            && next < self.timer.deadline()
        {
            self.timer.as_mut().reset(next);
        }
    }

    fn on_timer(&mut self) -> Result<(), CloseReason> {
        let now = Instant::now();
        if let Some(deadline) = self.stop_deadline {
            return self.on_stop_timer(now, deadline);
        }
        let patience = match self.name {
            Some(_) => self.context.limits.silence_timeout,
            None => UNREGISTERED_TIMEOUT,
        };
        let end = self.last_input + patience;
        if now >= end {
            tracing::info!(
                endpoint = self.name.as_ref().map(EndpointName::as_str),
                "an endpoint was silent for too long and is removed"
            );
            return Err(CloseReason::Closed);
        }
        self.settle_written();
        let settle = self.in_flight.next_settle_time(self.context.limits.settle_delay);
        let next = settle.map_or(end, |settle| settle.min(end));
        self.timer.as_mut().reset(next);
        Ok(())
    }

    /// Releases the inbox when the connection ends in order. A receiver without `ack` counts as
    /// having read everything that was written to it.
    fn release_inbox(&mut self) {
        if let Some(mut inbox) = self.inbox.take() {
            inbox.ack(&self.in_flight.take_written());
        }
    }
}

async fn or_pending<T>(future: Option<&mut BoxFuture<'static, T>>) -> T {
    match future {
        Some(future) => future.await,
        None => std::future::pending().await,
    }
}

/// Waits for the receipts of the oldest batch. Receipts arrive in the order of the batches. The
/// last batch may not be queued yet.
async fn next_receipts(unanswered: &mut VecDeque<UnansweredBatch>) -> Receipts {
    let first = unanswered.front_mut();
    match first.and_then(|first| first.published.as_mut()) {
        Some(published) => published.await,
        None => std::future::pending().await,
    }
}

async fn next_notice(
    watch: Option<&mut (DeliveryNotifier, mpsc::Receiver<Vec<MessageId>>)>,
) -> Vec<MessageId> {
    match watch {
        Some((_open, notices)) => match notices.recv().await {
            Some(ids) => ids,
            None => std::future::pending().await,
        },
        None => std::future::pending().await,
    }
}

async fn next_deliveries(
    inbox: Option<&mut Box<dyn BusInbox>>,
    limit: usize,
) -> Result<Vec<BusDelivery>, InboxError> {
    match inbox {
        Some(inbox) => inbox.next(limit).await,
        None => std::future::pending().await,
    }
}
