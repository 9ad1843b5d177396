//! The bus's socket. Clients of hermes-bus 0.7.0 find what they know; clients that ask get more:
//! `accepted` when a message is synced, `delivered` when its receiver has it, `rejected` with a
//! reason, and messages that come again until they are acknowledged. `docs/bus.md` has the frames.
//!
//! - `request`, `envelope`, `reply`: the frames; pure.
//! - `connection`: one client; nothing it does or fails to do delays another.
//! - [`listener`]: the socket in the file system, bound again if somebody removes it.

mod admin;
mod connection;
pub mod envelope;
mod handing;
pub mod listener;
mod reply;
pub mod request;

use std::{sync::Arc, time::Duration};

use angelia_core::{
    model::bus::Message,
    ports::{Bus, Clock},
    task::Tasks,
};
use tokio::sync::broadcast;

/// What every connection needs.
#[derive(Clone)]
pub struct Door {
    pub bus: Arc<dyn Bus>,
    pub clock: Arc<dyn Clock>,
    pub tasks: Tasks,
    /// Hears every message that comes in, also those that are refused.
    pub heard: broadcast::Sender<Message>,
    pub limits: DoorLimits,
    /// For `status`.
    pub version: Arc<str>,
}

impl std::fmt::Debug for Door {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Door").finish_non_exhaustive()
    }
}

#[derive(Clone, Copy, Debug)]
pub struct DoorLimits {
    /// An endpoint that has said nothing for this long is gone.
    pub silence: Duration,
    /// A receiver that does not acknowledge has a message for good this long after it was written.
    pub settle: Duration,
}

impl Default for DoorLimits {
    fn default() -> Self {
        Self { silence: Duration::from_secs(90), settle: Duration::from_secs(1) }
    }
}

/// The largest frame, as in hermes-bus.
pub const MAX_FRAME: usize = 10 * 1024 * 1024;
