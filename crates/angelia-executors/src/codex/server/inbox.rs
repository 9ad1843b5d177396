//! The queue of messages from one thread to its agent, bounded in number and in bytes. A thread
//! whose agent does not read is cut off, so that it never makes other threads wait.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use serde_json::value::RawValue;
use tokio::sync::mpsc;

use super::super::protocol::message::RequestId;

const MESSAGES: usize = 16 * 1024;
const BYTES: usize = 64 * 1024 * 1024;

/// How many messages are read at once; they become one batch of events.
const BATCH: usize = 256;

/// A message for one thread, or for all of them.
#[derive(Debug)]
pub(in super::super) enum Said {
    Notification {
        method: Box<str>,
        params: Box<RawValue>,
    },
    Request {
        id: RequestId,
        method: Box<str>,
        params: Box<RawValue>,
    },
    /// A line over the length limit was skipped.
    TooLong {
        bytes: usize,
    },
}

impl Said {
    fn size(&self) -> usize {
        match self {
            Self::Notification { params, .. } | Self::Request { params, .. } => params.get().len(),
            Self::TooLong { .. } => 0,
        }
    }
}

/// Why a message could not be queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotTaken {
    /// The receiver was dropped.
    Gone,
    /// The receiver does not keep up.
    Full,
}

#[derive(Debug)]
pub(super) struct Sender {
    messages: mpsc::Sender<Said>,
    bytes: Arc<AtomicUsize>,
}

#[derive(Debug)]
pub(in super::super) struct Inbox {
    messages: mpsc::Receiver<Said>,
    bytes: Arc<AtomicUsize>,
}

pub(super) fn new() -> (Sender, Inbox) {
    let (sender, receiver) = mpsc::channel(MESSAGES);
    let bytes = Arc::new(AtomicUsize::new(0));
    let held = Arc::clone(&bytes);
    (Sender { messages: sender, bytes }, Inbox { messages: receiver, bytes: held })
}

impl Sender {
    pub(super) fn send(&self, said: Said) -> Result<(), NotTaken> {
        let size = said.size();
        if self.bytes.load(Ordering::Relaxed) > BYTES {
            return Err(NotTaken::Full);
        }
        self.bytes.fetch_add(size, Ordering::Relaxed);
        self.messages.try_send(said).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => NotTaken::Full,
            mpsc::error::TrySendError::Closed(_) => NotTaken::Gone,
        })
    }

    pub(super) fn is_gone(&self) -> bool {
        self.messages.is_closed()
    }
}

impl Inbox {
    /// Waits for messages and moves all that are there to `batch`. An empty batch means that the
    /// thread was cut off or its process has exited. Cancel-safe.
    pub(in super::super) async fn next(&mut self, batch: &mut Vec<Said>) {
        self.messages.recv_many(batch, BATCH).await;
        self.taken(batch);
    }

    /// Moves the messages that are there to `batch`, without waiting.
    pub(in super::super) fn now(&mut self, batch: &mut Vec<Said>) {
        while let Ok(said) = self.messages.try_recv() {
            batch.push(said);
        }
        self.taken(batch);
    }

    /// Returns `false` if no further message can arrive.
    pub(in super::super) fn is_open(&self) -> bool {
        !self.messages.is_closed()
    }

    fn taken(&self, batch: &[Said]) {
        let bytes = batch.iter().map(Said::size).sum();
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(bytes: usize) -> Said {
        let json = format!("\"{}\"", "x".repeat(bytes));
        Said::Notification { method: "m".into(), params: RawValue::from_string(json).unwrap() }
    }

    #[tokio::test]
    async fn what_is_not_read_is_bounded() {
        let (sender, mut inbox) = new();
        let piece = BYTES / 4;
        let taken = (0..10).take_while(|_| sender.send(said(piece)).is_ok()).count();
        assert!((4..=5).contains(&taken), "{taken}");
        assert_eq!(sender.send(said(0)), Err(NotTaken::Full));
        let mut batch = Vec::new();
        inbox.next(&mut batch).await;
        assert_eq!(batch.len(), taken);
        assert_eq!(sender.send(said(piece)), Ok(()), "there is room again");

        let (sender, inbox) = new();
        let taken = (0..2 * MESSAGES).take_while(|_| sender.send(said(0)).is_ok()).count();
        assert_eq!(taken, MESSAGES);
        drop(inbox);
        assert!(sender.is_gone());
        assert_eq!(sender.send(said(0)), Err(NotTaken::Gone));
    }
}
