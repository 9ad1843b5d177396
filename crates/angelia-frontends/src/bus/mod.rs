//! The bus socket. It speaks the protocol of hermes-bus 0.7.0. Clients that set `ack` get more:
//! `accepted` when a message is synced, `delivered` when its receiver has it, `rejected` with a
//! reason, and redelivery until a message is acknowledged. `docs/bus-protocol.md` describes the
//! frames.
//!
//! - `request`, `envelope`, `reply`: the frames. Pure.
//! - `connection`: one client; it cannot delay others.
//! - `in_flight`: messages that were sent to a client but are not settled yet.
//! - [`listener`]: the socket in the file system, bound again if its path is removed.

mod admin;
mod connection;
pub mod envelope;
mod in_flight;
pub mod listener;
mod reply;
pub mod request;

use std::{sync::Arc, time::Duration};

use angelia_core::{
    model::bus::BusMessage,
    ports::{Bus, Clock},
    task::TaskGroup,
};
use tokio::sync::broadcast;

use crate::socket::AgentSessions;

/// The shared parts that every connection needs.
#[derive(Clone)]
pub struct ListenerContext {
    pub bus: Arc<dyn Bus>,
    pub clock: Arc<dyn Clock>,
    pub tasks: TaskGroup,
    /// Receives every message that clients send, including refused ones.
    pub message_feed: broadcast::Sender<BusMessage>,
    pub limits: ListenerLimits,
    /// Finds the session of an agent that uses the bus.
    pub agents: Arc<dyn AgentSessions>,
    /// Shown by `status`.
    pub version: Arc<str>,
}

impl std::fmt::Debug for ListenerContext {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ListenerContext").finish_non_exhaustive()
    }
}

#[derive(Clone, Copy, Debug)]
pub struct ListenerLimits {
    /// An endpoint that sends nothing for this long is removed.
    pub silence_timeout: Duration,
    /// A message to a receiver without `ack` counts as read this long after it was written.
    pub settle_delay: Duration,
}

impl Default for ListenerLimits {
    fn default() -> Self {
        Self { silence_timeout: Duration::from_secs(90), settle_delay: Duration::from_secs(1) }
    }
}

/// The limit on the bytes of a frame, as in hermes-bus.
pub const MAX_FRAME_BYTES: usize = 10 * 1024 * 1024;
