//! What has to reach a channel, written down before it is tried, so that a reply is neither lost
//! by a crash nor sent twice without saying so.

use std::sync::Arc;

use jiff::Timestamp;

use super::{BoxFuture, StoreError};

type Answer<'a, T> = BoxFuture<'a, Result<T, StoreError>>;

pub trait Deliveries: Send + Sync + 'static {
    /// A new one, [pending](DeliveryState::Pending). An id that is known already changes nothing.
    fn add<'a>(&'a self, delivery: &'a Delivery) -> Answer<'a, ()>;

    /// Committed before the step is taken that it announces. What has ended stays as it ended.
    fn set<'a>(&'a self, id: &'a str, state: &'a DeliveryState) -> Answer<'a, ()>;

    fn get<'a>(&'a self, id: &'a str) -> Answer<'a, Option<Delivery>>;

    /// What has not reached its end, oldest first.
    fn open(&self) -> Answer<'_, Vec<Delivery>>;

    /// All of them, newest first.
    fn list(&self, limit: usize) -> Answer<'_, Vec<Delivery>>;

    /// Removes what came to its end before this.
    fn forget(&self, before: Timestamp) -> Answer<'_, usize>;
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    pub id: Arc<str>,
    /// `platform[:chat_id]`.
    pub channel: Arc<str>,
    pub text: Arc<str>,
    pub created_at: Timestamp,
    pub state: DeliveryState,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeliveryState {
    /// Not tried yet, or to be tried again.
    Pending {
        attempts: u32,
        /// One of the attempts may have arrived.
        may_repeat: bool,
    },
    /// Being tried. Found after a restart, it may have arrived.
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

    /// Whether the next attempt may be a repeat: an attempt that was cut off may have arrived.
    pub const fn may_repeat(&self) -> bool {
        match self {
            Self::Pending { may_repeat, .. } => *may_repeat,
            Self::Attempting { .. } => true,
            Self::Delivered { .. } | Self::Failed { .. } => false,
        }
    }

    pub const fn is_open(&self) -> bool {
        matches!(self, Self::Pending { .. } | Self::Attempting { .. })
    }
}
