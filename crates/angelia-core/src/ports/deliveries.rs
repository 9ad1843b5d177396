//! Messages to channels, stored before they are sent, so that a crash neither loses a reply nor
//! silently sends it twice.

use std::{path::PathBuf, sync::Arc};

use jiff::Timestamp;

use super::StoreFuture;

pub trait DeliveryStore: Send + Sync + 'static {
    /// Adds a new, [pending](DeliveryState::Pending) delivery. Does nothing if the id already
    /// exists.
    fn add<'a>(&'a self, delivery: &'a ChannelDelivery) -> StoreFuture<'a, ()>;

    /// Commits a state before the step that it announces. A finished delivery never changes.
    fn set<'a>(&'a self, id: &'a str, state: &'a DeliveryState) -> StoreFuture<'a, ()>;

    /// Records that the first `parts` messages of a delivery have arrived. The next one starts with
    /// no attempts.
    fn set_sent_parts<'a>(&'a self, id: &'a str, parts: u32) -> StoreFuture<'a, ()>;

    fn get<'a>(&'a self, id: &'a str) -> StoreFuture<'a, Option<ChannelDelivery>>;

    /// Returns the unfinished deliveries, oldest first.
    fn list_unfinished(&self) -> StoreFuture<'_, Vec<ChannelDelivery>>;

    /// Returns all deliveries, newest first.
    fn list(&self, limit: usize) -> StoreFuture<'_, Vec<ChannelDelivery>>;

    /// Removes the deliveries that finished before `before`, and returns their number.
    fn remove_finished(&self, before: Timestamp) -> StoreFuture<'_, usize>;
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChannelDelivery {
    pub id: Arc<str>,
    /// `platform[:chat_id]`.
    pub channel: Arc<str>,
    pub text: Arc<str>,
    pub format: DeliveryFormat,
    /// The message that the delivery replies to.
    pub reply_to: Option<Arc<str>>,
    /// The message that the first part replaces: a preview of the text.
    pub replaces: Option<Arc<str>>,
    /// Number of messages that have arrived. A text that is too long for one message becomes
    /// several.
    pub sent_parts: u32,
    pub created_at: Timestamp,
    pub state: DeliveryState,
}

/// The content of a delivery.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum DeliveryFormat {
    #[default]
    Plain,
    /// The text is Markdown.
    Markdown,
    /// This file; the text is its name.
    File(PathBuf),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeliveryState {
    /// Not tried yet, or to be retried.
    Pending {
        attempts: u32,
        /// Whether one of the attempts may have arrived.
        may_repeat: bool,
    },
    /// Being sent. If found after a restart, the message may have arrived.
    Attempting {
        attempts: u32,
        may_repeat: bool,
    },
    Delivered {
        attempts: u32,
    },
    /// Given up.
    Failed {
        attempts: u32,
        error: Arc<str>,
    },
}

impl DeliveryState {
    pub const NEW: Self = Self::Pending { attempts: 0, may_repeat: false };

    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Pending { .. } => "pending",
            Self::Attempting { .. } => "attempting",
            Self::Delivered { .. } => "delivered",
            Self::Failed { .. } => "failed",
        }
    }

    pub const fn attempts(&self) -> u32 {
        match self {
            Self::Pending { attempts, .. }
            | Self::Attempting { attempts, .. }
            | Self::Delivered { attempts }
            | Self::Failed { attempts, .. } => *attempts,
        }
    }

    /// Returns whether the next attempt may be a repetition, because an interrupted attempt may
    /// have arrived.
    pub const fn may_repeat(&self) -> bool {
        match self {
            Self::Pending { may_repeat, .. } => *may_repeat,
            Self::Attempting { .. } => true,
            Self::Delivered { .. } | Self::Failed { .. } => false,
        }
    }

    /// Returns why the delivery failed.
    pub fn error(&self) -> Option<&str> {
        match self {
            Self::Failed { error, .. } => Some(error),
            _ => None,
        }
    }

    pub const fn is_unfinished(&self) -> bool {
        matches!(self, Self::Pending { .. } | Self::Attempting { .. })
    }
}
