//! Channels: where people read what agents say.
//!
//! - [`Courier`]: gets a text to a channel, written down before it is tried.
//! - [`webhook`]: a signed HTTP request of ours to a program of yours.

mod courier;
pub mod webhook;

pub use courier::{Courier, CourierError, CourierParts, Retry, Sending};
