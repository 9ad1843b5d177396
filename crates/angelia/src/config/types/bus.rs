//! The settings of the message bus.

use super::{BoundedCount, Period};
use crate::config::setting::settings;

settings! {
    /// The message bus.
    BusSettings {
        /// Whether the bus is offered where programs that know hermes-bus look for it:
        /// `$HERMES_BUS_ROOT/hermes-bus.sock`, or `~/.hermes/hermes-bus.sock`.
        hermes_socket: bool = true,
        /// How long a message waits for its receiver; then it is a dead letter for as long again.
        message_ttl: Period = Period::days(7),
        /// How many messages may wait for one endpoint; further ones are refused, and their senders
        /// are told.
        max_queued: BoundedCount<1, 1_000_000> = BoundedCount(10_000),
        /// How long a message with the same id, sender and receiver is recognized as a duplicate.
        dedupe_window: Period = Period::minutes(2),
    }
}
