//! The settings of the message bus.

use angelia_core::model::EndpointName;
use serde::Serialize;

use super::{BoundedCount, HermesSocket, Period};
use crate::config::{
    schema::inline_schema,
    setting::{TextSetting, settings},
};

/// The name of the daemon's endpoint if nothing else names it.
pub(crate) const DEFAULT_ENDPOINT: &str = "angelia";

/// The name of an endpoint of the bus.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct EndpointSetting(pub(crate) String);

inline_schema!(EndpointSetting, {"type": "string", "minLength": 1});

impl TextSetting for EndpointSetting {
    const EXPECTS: &'static str = "the name of an endpoint, such as angelia";

    fn parse(text: &str) -> Option<Self> {
        EndpointName::new(text).is_ok().then(|| Self(text.to_owned()))
    }
}

settings! {
    /// The message bus.
    BusSettings {
        /// The name under which the daemon receives messages.
        endpoint: EndpointSetting = EndpointSetting(DEFAULT_ENDPOINT.to_owned()),
        /// Whether the bus is also offered where programs that know hermes-bus look for it:
        /// `$HERMES_BUS_ROOT/hermes-bus.sock`, or `~/.hermes/hermes-bus.sock`. `auto`: if that
        /// variable is set or `~/.hermes` exists.
        hermes_socket: HermesSocket = HermesSocket::Auto,
        /// How long a message waits for its receiver; then it is a dead letter for as long again.
        message_ttl: Period = Period::days(7),
        /// How many messages may wait for one endpoint; further ones are refused, and their senders
        /// are told.
        max_queued: BoundedCount<1, 1_000_000> = BoundedCount(10_000),
        /// How long a message with the same id, sender and receiver is recognized as a duplicate.
        dedupe_window: Period = Period::minutes(2),
    }
}
