//! Delivers texts to channels, where people read them.
//!
//! - [`DeliveryQueue`]: records a text in the ledger, then delivers it to a channel with retries.
//! - [`webhook`]: the channel that sends signed HTTP requests to a program of the owner.

mod delivery_queue;
pub mod webhook;

pub use delivery_queue::{
    DeliveryError, DeliveryQueue, DeliveryQueueParts, PendingDelivery, RetryPolicy,
};
