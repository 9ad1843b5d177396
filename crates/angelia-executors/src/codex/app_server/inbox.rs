//! The queue of messages from one thread to its agent, bounded in number and in bytes. A thread
//! whose agent does not read is cut off, so that other threads never have to wait for it.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use serde_json::value::RawValue;
use tokio::sync::mpsc;

use super::super::protocol::message::RequestId;

const MAX_MESSAGES: usize = 16 * 1024;
const MAX_BYTES: usize = 64 * 1024 * 1024;

/// How many messages are read at once; they become one batch of events.
const MAX_BATCH: usize = 256;

/// A message for one thread or for all threads.
#[derive(Debug)]
pub(in super::super) enum ThreadMessage {
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

impl ThreadMessage {
    fn size(&self) -> usize {
        match self {
            Self::Notification { params, .. } | Self::Request { params, .. } => params.get().len(),
            Self::TooLong { .. } => 0,
        }
    }
}

/// Why a message could not be queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ThreadInboxError {
    /// The receiver was dropped.
    Closed,
    /// The receiver does not keep up.
    Full,
}

#[derive(Debug)]
pub(super) struct InboxSender {
    messages: mpsc::Sender<ThreadMessage>,
    bytes: Arc<AtomicUsize>,
}

#[derive(Debug)]
pub(in super::super) struct ThreadInbox {
    messages: mpsc::Receiver<ThreadMessage>,
    bytes: Arc<AtomicUsize>,
}

pub(super) fn inbox_channel() -> (InboxSender, ThreadInbox) {
    let (sender, receiver) = mpsc::channel(MAX_MESSAGES);
    let bytes = Arc::new(AtomicUsize::new(0));
    let held = Arc::clone(&bytes);
    (InboxSender { messages: sender, bytes }, ThreadInbox { messages: receiver, bytes: held })
}

impl InboxSender {
    pub(super) fn send(&self, message: ThreadMessage) -> Result<(), ThreadInboxError> {
        if self.bytes.load(Ordering::Relaxed) > MAX_BYTES {
            return Err(ThreadInboxError::Full);
        }
        // Count the bytes before the receiver can subtract them. A failed send cuts off the thread.
        self.bytes.fetch_add(message.size(), Ordering::Relaxed);
        self.messages.try_send(message).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => ThreadInboxError::Full,
            mpsc::error::TrySendError::Closed(_) => ThreadInboxError::Closed,
        })
    }

    pub(super) fn is_closed(&self) -> bool {
        self.messages.is_closed()
    }
}

impl ThreadInbox {
    /// Waits for messages and returns those that have arrived. An empty batch means that the thread
    /// was cut off or its process has exited. Cancel-safe.
    pub(in super::super) async fn recv_batch(&mut self) -> Vec<ThreadMessage> {
        let mut batch = Vec::new();
        self.messages.recv_many(&mut batch, MAX_BATCH).await;
        let bytes = batch.iter().map(ThreadMessage::size).sum();
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        batch
    }

    /// Reports whether further messages can arrive.
    pub(in super::super) fn is_open(&self) -> bool {
        !self.messages.is_closed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message_of_size(bytes: usize) -> ThreadMessage {
        let json = format!("\"{}\"", "x".repeat(bytes));
        ThreadMessage::Notification {
            method: "m".into(),
            params: RawValue::from_string(json).unwrap(),
        }
    }

    #[tokio::test]
    async fn what_is_not_read_is_bounded() {
        let (sender, mut inbox) = inbox_channel();
        let piece = MAX_BYTES / 4;
        let taken = (0..10).take_while(|_| sender.send(message_of_size(piece)).is_ok()).count();
        assert!((4..=5).contains(&taken), "{taken}");
        assert_eq!(sender.send(message_of_size(0)), Err(ThreadInboxError::Full));
        assert_eq!(inbox.recv_batch().await.len(), taken);
        assert_eq!(sender.send(message_of_size(piece)), Ok(()), "there is room again");

        let (sender, inbox) = inbox_channel();
        let taken =
            (0..2 * MAX_MESSAGES).take_while(|_| sender.send(message_of_size(0)).is_ok()).count();
        assert_eq!(taken, MAX_MESSAGES);
        drop(inbox);
        assert!(sender.is_closed());
        assert_eq!(sender.send(message_of_size(0)), Err(ThreadInboxError::Closed));
    }
}
